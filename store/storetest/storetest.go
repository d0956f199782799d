// Package storetest checks an implementation of store.Store against the contract: the same suite runs
// against every store of this module and can run against yours.
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return newMyStore(t) })
//	}
//
// What a store offers beyond FirstTime is found by type assertion and tested when it is there: Confirmer,
// Forgetter, Claimer, Scoper, Purger. What needs to wait for a lease, or a database for transactions,
// runs when Expiring or Transactions is passed.
package storetest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

// Open makes a store that stands for one worker. It is called several times in one subtest; all the stores
// it makes share their keys, as the processes of one consumer do. It registers its cleanup with t. The
// keys are random, so one table serves the whole suite and need not be empty.
//
// The lease of the stores must be a minute or more, so that a slow machine does not end it.
type Open func(t *testing.T) store.Store

// Scoper is a store that can be divided by consumers.
type Scoper interface {
	Scope(name string, options ...store.Option) (*store.Scoped, error)
}

// Purger is a store whose keys are deleted on request after their retention.
type Purger interface {
	PurgeExpired(ctx context.Context) (int64, error)
}

// Option adds what Run cannot find out by itself.
type Option func(*suite)

// Expiring passes a second way to make stores, with a lease and a retention that are short enough to wait
// for: a second or so, and two to four of them. They share no keys with the others.
func Expiring(lease, retention time.Duration, open Open) Option {
	return func(s *suite) { s.openExpiring, s.lease, s.retention = open, lease, retention }
}

// Transactions passes the database of a Claimer whose claims can be confirmed in a transaction. The suite
// creates a table in it for the effects of its handlers, and drops it at the end.
func Transactions(db *sql.DB) Option {
	return func(s *suite) { s.db = db }
}

type suite struct {
	open             Open
	openExpiring     Open
	lease, retention time.Duration
	db               *sql.DB
}

// Run runs the suite. Its subtests are named after the rules they check.
func Run(t *testing.T, open Open, options ...Option) {
	t.Helper()
	s := &suite{open: open}
	for _, option := range options {
		option(s)
	}
	if s.db != nil {
		s.createEffects(t)
	}
	// The subtests run in parallel; the group ends when all of them have.
	t.Run("contract", func(t *testing.T) {
		s.testContract(t)
		if _, ok := s.open(t).(store.Claimer); ok {
			s.testClaims(t)
			if s.db != nil {
				s.testTransactions(t)
			}
		}
		if s.openExpiring != nil {
			s.testExpiry(t)
		}
	})
}

// run is t.Run for a subtest that shares nothing with the others.
func run(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

func newKey() string { return "storetest-" + rand.Text() }

// as returns s as the optional interface T, or ends the subtest because s does not offer it.
func as[T any](t *testing.T, s store.Store) T {
	t.Helper()
	v, ok := s.(T)
	if !ok {
		t.Skipf("the store does not implement %T", (*T)(nil))
	}
	return v
}

func firstTime(t *testing.T, s store.Store, key string) bool {
	t.Helper()
	first, err := s.FirstTime(t.Context(), key)
	if err != nil {
		t.Fatalf("FirstTime(%q): %v", key, err)
	}
	return first
}

func claim(t *testing.T, s store.Store, key string) *store.Claim {
	t.Helper()
	c, err := s.(store.Claimer).Claim(t.Context(), key)
	if err != nil {
		t.Fatalf("Claim(%q): %v", key, err)
	}
	return c
}

func wantOutcome(t *testing.T, c *store.Claim, want store.Outcome) {
	t.Helper()
	if c.Outcome() != want {
		t.Fatalf("outcome of the claim on %q = %v, want %v", c.Key(), c.Outcome(), want)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
