package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/store"
)

// sightings counts what the consumers of a load are told: it shows that a fault was there, and what a
// user sees of it.
type sightings struct {
	mu     sync.Mutex
	counts map[string]int
	beats  int // that extended a lease
}

func newSightings() *sightings { return &sightings{counts: make(map[string]int)} }

// Observe counts an event by its kind and its error.
func (s *sightings) Observe(_ context.Context, e consumer.Event) {
	if e.Kind == consumer.Heartbeat && e.Err == nil {
		s.mu.Lock()
		s.beats++
		s.mu.Unlock()
	}
	if e.Err != nil && !errors.Is(e.Err, consumer.ErrInProgress) {
		s.add(string(e.Kind) + " " + string(e.Outcome) + " " + nameOf(e.Err))
	}
}

func (s *sightings) add(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// of is how often an error of this name was seen.
func (s *sightings) of(name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, count := range s.counts {
		if strings.HasSuffix(what, " "+name) {
			n += count
		}
	}
	return n
}

// heartbeats is how many leases were extended.
func (s *sightings) heartbeats() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beats
}

// String lists them in the order of their names.
func (s *sightings) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		list = append(list, fmt.Sprintf("%d %s", s.counts[what], strings.Join(strings.Fields(what), " ")))
	}
	return strings.Join(list, ", ")
}

const claimLost = "claim-lost"

// nameOf is the database's code of an error, or what else it is.
func nameOf(err error) string {
	var (
		pg   interface{ SQLState() string }
		my   *mysql.MySQLError
		lite interface{ Code() int }
		gone interface{ SafeToRetry() bool } // pgx: the connection ended before
	)
	switch {
	case errors.Is(err, store.ErrClaimLost):
		return claimLost
	case errors.As(err, &pg):
		return pg.SQLState()
	case errors.As(err, &my):
		return fmt.Sprint(my.Number)
	case errors.As(err, &lite):
		return fmt.Sprint(lite.Code())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "time-out"
	case errors.Is(err, mysql.ErrInvalidConn), errors.As(err, &gone), errors.Is(err, sql.ErrTxDone), dialects.ConnectionLost(err):
		return "connection-lost"
	}
	return fmt.Sprintf("%T", err)
}
