package tests

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/store"
)

func TestEveryKeyHasOneFirst(t *testing.T) {
	const goroutines, connections, keys = 32, 8, 500
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			db.SetMaxOpenConns(connections)
			s := d.store(t, db)
			var (
				first   [keys]atomic.Int32
				workers sync.WaitGroup
			)
			for range goroutines {
				workers.Go(func() {
					for i := range keys {
						c, err := s.Claim(t.Context(), fmt.Sprintf("order-%d", i))
						if err != nil {
							t.Error(err)
							return
						}
						if c.Outcome() == store.First {
							first[i].Add(1)
						}
					}
				})
			}
			workers.Wait()
			for i := range first {
				if n := first[i].Load(); n != 1 {
					t.Errorf("key %d: %d claims were first, want 1", i, n)
				}
			}
		})
	}
}

// Three sessions insert one key and the first one rolls back: InnoDB gives one of the others the row and
// ends the other with a deadlock, even in autocommit.
func TestARolledBackInsertLeavesOneClaimAndNoError(t *testing.T) {
	const rounds = 20
	for _, d := range everyDatabase() {
		if d.name == "SQLite" {
			continue // its writers wait in one line: there is nothing to roll back under another's feet
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			s := d.store(t, db)
			q, err := d.dialect.Open(t.Context(), db, dialects.Prepared)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { q.Close() })
			for round := range rounds {
				key := fmt.Sprintf("order-%d", round)
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				won, _, err := q.WithTx(tx).Claim(t.Context(), dialects.ClaimParams{
					Scope: s.Name(), MessageID: key, ClaimedBy: "the one that rolls back", LeaseUs: 1e9, RetentionUs: 1e9,
				})
				if err != nil || !won {
					t.Fatalf("insert: %v, %v", won, err)
				}
				outcomes := make(chan store.Outcome, 2)
				for range 2 {
					go func() {
						c, err := s.Claim(t.Context(), key)
						if err != nil {
							t.Error(err)
							outcomes <- 0
							return
						}
						outcomes <- c.Outcome()
					}()
				}
				waitForLockWaits(t, d, db, 2)
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
				if a, b := <-outcomes, <-outcomes; min(a, b) != store.First || max(a, b) != store.InProgress {
					t.Fatalf("round %d: outcomes %v and %v, want first and in progress", round, a, b)
				}
			}
		})
	}
}

// waitForLockWaits returns once n sessions of db's own database wait for a lock.
func waitForLockWaits(t *testing.T, d database, db *sql.DB, n int) {
	t.Helper()
	// InnoDB refreshes this table only when nobody has read it for a tenth of a second: hence the SLEEP.
	query := `SELECT COUNT(*) + SLEEP(0.2) FROM information_schema.processlist p
		JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id
		WHERE p.db = DATABASE() AND t.trx_state = 'LOCK WAIT'`
	if d.name == "PostgreSQL" {
		query = `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	}
	poll(t, "the other sessions wait", func() bool {
		var waiting int
		if err := db.QueryRowContext(t.Context(), query).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		return waiting >= n
	})
}

// A redelivery waits for the transaction that confirms its key, but not for longer than its time limit.
func TestAClaimDoesNotHangWhileAConfirmingTransactionIsOpen(t *testing.T) {
	const limit = 500 * time.Millisecond
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			holder := d.store(t, db)
			c, err := holder.Claim(t.Context(), "order-1")
			if err != nil {
				t.Fatal(err)
			}
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback() //nolint:errcheck // after the commit there is nothing to roll back
			if err := c.ConfirmTx(t.Context(), tx); err != nil {
				t.Fatal(err)
			}

			start := time.Now()
			redelivery, err := d.store(t, db, store.WithTimeout(limit)).Claim(t.Context(), "order-1")
			if err != nil || redelivery.Outcome() != store.InProgress {
				t.Errorf("claim beside an open confirm: %v, %v; want in progress", redelivery, err)
			}
			if took := time.Since(start); took > limit+5*time.Second {
				t.Errorf("it took %v with a limit of %v", took, limit)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			poll(t, "the redelivery is a duplicate", func() bool {
				redelivery, err = holder.Claim(t.Context(), "order-1")
				return err == nil && redelivery.Outcome() == store.Duplicate
			})
		})
	}
}

// A caller who gives up while its claim waits must not find the key claimed by itself for longer than the
// lease: MySQL and MariaDB finish a statement that waits for a lock although its client is gone.
func TestAClaimThatWasGivenUpHoldsNothing(t *testing.T) {
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			s := d.store(t, db)
			q, err := d.dialect.Open(t.Context(), db, dialects.Prepared)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { q.Close() })
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback() //nolint:errcheck // it is rolled back below
			if _, _, err := q.WithTx(tx).Claim(t.Context(), dialects.ClaimParams{
				Scope: s.Name(), MessageID: "order-1", ClaimedBy: "the one in the way", LeaseUs: 1e9, RetentionUs: 1e9,
			}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			impatient := d.store(t, db, store.WithTimeout(time.Second), store.WithLease(2*time.Second))
			if c, err := impatient.Claim(ctx, "order-1"); err == nil {
				t.Errorf("claim beside an open insert: %v, want an error", c.Outcome())
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			poll(t, "the key is free", func() bool {
				c, err := s.Claim(t.Context(), "order-1")
				return err == nil && c.Outcome().Held()
			})
		})
	}
}

// poll waits until done reports true, and fails the test after a time that is generous for any machine.
func poll(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	deadline := time.Now().Add(time.Minute)
	for !done() {
		if time.Now().After(deadline) {
			tb.Fatalf("timed out waiting until %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
