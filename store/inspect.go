package store

import (
	"context"
	"errors"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
)

// Record is what a store knows about one key. All durations were measured by the store's own clock, the
// database's, when the key was read.
type Record struct {
	Scope     string
	Key       string
	Confirmed bool
	Worker    string        // who claimed it last, or confirmed it
	Attempts  int           // how often work on it was started
	Age       time.Duration // since it was first recorded
	// LeaseLeft is what is left of the lease; zero or less for a claim that may be taken over. It means
	// nothing for a key that is confirmed.
	LeaseLeft    time.Duration
	ConfirmedAge time.Duration // since the confirm, zero if it is not confirmed
	// RetentionLeft is what is left of the retention; zero or less for a key that may be purged.
	RetentionLeft time.Duration
}

// ScopeStats counts the keys of one scope.
type ScopeStats struct {
	Scope       string
	Claimed     int64         // with a live lease
	Stale       int64         // claims that never finished and whose lease is over
	Confirmed   int64         // done
	Purgeable   int64         // stale or confirmed, and past their retention
	OldestClaim time.Duration // the age of the oldest key that is not confirmed, zero if there is none
}

// Stats counts the keys of every scope, in the order of their names. It reads the whole table: ask for it
// in minutes, not in seconds.
func (s *SQL) Stats(ctx context.Context) ([]ScopeStats, error) {
	var counts []dialects.Count
	err := s.read(ctx, func(ctx context.Context) (err error) {
		counts, err = s.queries.CountByState(ctx)
		return err
	})
	if err != nil {
		return nil, opError("stats", "", "", err)
	}
	stats := make([]ScopeStats, len(counts))
	for i, n := range counts {
		stats[i] = ScopeStats{
			Scope: n.Scope, Claimed: n.Claimed, Stale: n.Stale, Confirmed: n.Confirmed,
			Purgeable: n.Purgeable, OldestClaim: microseconds(n.OldestClaimUs),
		}
	}
	return stats, nil
}

// Stale lists up to limit claims that never finished and whose lease is over, in all scopes, the longest
// overdue first. The next delivery of such a message takes its claim over; one that is not delivered
// again stays in this list until it is purged. It reads the whole table.
func (s *SQL) Stale(ctx context.Context, limit int) ([]Record, error) {
	if limit < 1 {
		return nil, opError("stale", "", "", errors.New("the limit must be at least 1"))
	}
	var rows []dialects.Row
	err := s.read(ctx, func(ctx context.Context) (err error) {
		rows, err = s.queries.ListStale(ctx, int64(limit))
		return err
	})
	if err != nil {
		return nil, opError("stale", "", "", err)
	}
	records := make([]Record, len(rows))
	for i, row := range rows {
		records[i] = newRecord(row)
	}
	return records, nil
}

func (s *SQL) get(ctx context.Context, scope, key string) (Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.set.timeout)
	defer cancel()
	var row dialects.Row
	err := s.read(ctx, func(ctx context.Context) (err error) {
		row, err = s.queries.Get(ctx, dialects.GetParams{Scope: scope, MessageID: key})
		return err
	})
	if err != nil {
		return Record{}, err
	}
	return newRecord(row), nil
}

// read retries op, because a connection of the pool may have died long ago.
func (s *SQL) read(ctx context.Context, op func(ctx context.Context) error) error {
	if s.closed.Load() {
		return ErrClosed
	}
	return retry(ctx, fewTries, op)
}

func newRecord(row dialects.Row) Record {
	return Record{
		Scope:         row.Scope,
		Key:           row.MessageID,
		Confirmed:     row.State == dialects.Confirmed,
		Worker:        workerOf(row.ClaimedBy),
		Attempts:      int(row.Attempts),
		Age:           microseconds(row.AgeUs),
		LeaseLeft:     microseconds(row.LeaseLeftUs),
		ConfirmedAge:  microseconds(row.ConfirmedAgeUs),
		RetentionLeft: microseconds(row.RetentionLeftUs),
	}
}

func microseconds(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
