package storetest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

const effectsTable = "firsttime_storetest_effects"

// createEffects makes the table of the handlers' work. It has no unique constraint: nothing but the claim
// keeps an effect from happening twice.
func (s *suite) createEffects(t *testing.T) {
	t.Helper()
	exec := func(ctx context.Context, statement string) {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	exec(t.Context(), "CREATE TABLE IF NOT EXISTS "+effectsTable+" (message_id VARCHAR(255) NOT NULL)")
	t.Cleanup(func() { exec(context.Background(), "DROP TABLE "+effectsTable) })
}

// work is a handler's effect. Its values are literals, because placeholders differ between drivers.
func work(ctx context.Context, tx *sql.Tx, key string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO "+effectsTable+" (message_id) VALUES ('"+key+"')")
	return err
}

// inOrder runs the steps until one fails.
func inOrder(first error, steps ...func() error) error {
	err := first
	for _, step := range steps {
		if err == nil {
			err = step()
		}
	}
	return err
}

func (s *suite) wantEffects(t *testing.T, key string, want int) {
	t.Helper()
	var n int
	noError(t, again(func() error {
		return s.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+effectsTable+" WHERE message_id = '"+key+"'").Scan(&n)
	}))
	if n != want {
		t.Errorf("%d effects of %q, want %d", n, key, want)
	}
}

// withTx calls do in a transaction that is rolled back at the latest when do returns.
func (s *suite) withTx(t *testing.T, do func(tx *sql.Tx) error) {
	t.Helper()
	noError(t, again(func() error {
		tx, err := s.db.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
		return do(tx)
	}))
}

// inTx is Claim.InTx.
func (s *suite) inTx(ctx context.Context, c *store.Claim, do func(tx *sql.Tx) error) error {
	return again(func() error { return c.InTx(ctx, s.db, do) })
}

// again repeats a transaction that the database undid, as it may in the stricter isolation levels.
func again(transaction func() error) (err error) {
	for range 50 {
		err = transaction()
		var state interface{ SQLState() string }
		undone := errors.Is(err, store.ErrRetryTx) || errors.As(err, &state) && state.SQLState() == "40001"
		if !undone {
			return err
		}
	}
	return err
}

// testTransactions checks I3 and I4.
func (s *suite) testTransactions(t *testing.T) {
	run(t, "AConfirmCommitsWithTheWork", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		c := claim(t, a, key)
		s.withTx(t, func(tx *sql.Tx) error {
			return inOrder(work(t.Context(), tx, key), func() error { return c.ConfirmTx(t.Context(), tx) }, tx.Commit)
		})
		wantOutcome(t, claim(t, a, key), store.Duplicate)
		s.wantEffects(t, key, 1)
		noError(t, c.Extend(t.Context())) // by which a heartbeat learns that there is nothing to extend any more
		if !c.Confirmed() {
			t.Error("Extend did not notice that the claim is confirmed")
		}
	})

	run(t, "AClaimHasOneTransaction", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		c := claim(t, a, key)
		once := func(tx *sql.Tx) error { return work(t.Context(), tx, key) }
		noError(t, s.inTx(t.Context(), c, once))
		if err := s.inTx(t.Context(), c, once); !errors.Is(err, store.ErrConfirmed) {
			t.Errorf("InTx again: %v, want ErrConfirmed", err)
		}
		s.wantEffects(t, key, 1)

		// The claim that does not know what became of its transaction.
		key = newKey()
		c = claim(t, a, key)
		s.withTx(t, func(tx *sql.Tx) error {
			return inOrder(work(t.Context(), tx, key), func() error { return c.ConfirmTx(t.Context(), tx) }, tx.Commit)
		})
		tx, err := s.db.BeginTx(t.Context(), nil)
		noError(t, err)
		if err := c.ConfirmTx(t.Context(), tx); !errors.Is(err, store.ErrClaimLost) && !errors.Is(err, store.ErrRetryTx) {
			t.Errorf("ConfirmTx in a second transaction: %v, want ErrClaimLost", err)
		}
		noError(t, tx.Rollback())
		once = func(tx *sql.Tx) error { return work(t.Context(), tx, key) }
		if err := s.inTx(t.Context(), c, once); !errors.Is(err, store.ErrConfirmed) {
			t.Errorf("InTx after a ConfirmTx: %v, want ErrConfirmed", err)
		}
		s.wantEffects(t, key, 1)
	})

	run(t, "AConfirmIsRolledBackWithTheWork", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		c := claim(t, a, key)
		s.withTx(t, func(tx *sql.Tx) error {
			return inOrder(work(t.Context(), tx, key), func() error { return c.ConfirmTx(t.Context(), tx) }, tx.Rollback)
		})
		wantOutcome(t, claim(t, a, key), store.InProgress)
		s.wantEffects(t, key, 0)
		noError(t, c.Confirm(t.Context()))
	})

	run(t, "ConfirmTxByKeyCommitsWithTheWork", func(t *testing.T) {
		for _, claimed := range []bool{true, false} {
			key, a := newKey(), s.open(t)
			byKey, ok := a.(interface {
				ConfirmTx(ctx context.Context, tx *sql.Tx, key string) error
			})
			if !ok {
				t.Skip("the store cannot confirm by key in a transaction")
			}
			if claimed {
				firstTime(t, a, key)
			}
			for _, commit := range []bool{false, true} {
				s.withTx(t, func(tx *sql.Tx) error {
					end := tx.Rollback
					if commit {
						end = tx.Commit
					}
					return inOrder(work(t.Context(), tx, key), func() error { return byKey.ConfirmTx(t.Context(), tx, key) }, end)
				})
				if commit {
					wantOutcome(t, claim(t, a, key), store.Duplicate)
					s.wantEffects(t, key, 1)
				} else {
					s.wantEffects(t, key, 0)
				}
			}
		}
	})

	// It is not parallel: it keeps SQLite's only write lock from the others for longer than their leases, with a
	// driver that waits for a lock until the busy timeout, whatever the time limit is.
	t.Run("TheClaimIsVisibleWhileTheHandlersTransactionIsOpen", func(t *testing.T) {
		key, a, b := newKey(), s.open(t), s.open(t)
		if scoper, ok := b.(Scoper); ok {
			// On SQLite the claim waits for the transaction. Its time limit decides for how long, and
			// then it answers all the same.
			scope, err := scoper.Scope(store.DefaultScope, store.WithTimeout(300*time.Millisecond))
			noError(t, err)
			b = scope
		}
		c := claim(t, a, key)
		noError(t, s.inTx(t.Context(), c, func(*sql.Tx) error {
			wantOutcome(t, claim(t, b, key), store.InProgress)
			return nil
		}))
	})

	run(t, "InTxCommitsTheWorkAndTheKey", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		c := claim(t, a, key)
		noError(t, s.inTx(t.Context(), c, func(tx *sql.Tx) error { return work(t.Context(), tx, key) }))
		if !c.Confirmed() {
			t.Error("the claim does not know that InTx confirmed it")
		}
		wantOutcome(t, claim(t, a, key), store.Duplicate)
		s.wantEffects(t, key, 1)
	})

	run(t, "InTxRollsBackWhenTheWorkFails", func(t *testing.T) {
		key, a, broken := newKey(), s.open(t), errors.New("card declined")
		c := claim(t, a, key)
		err := s.inTx(t.Context(), c, func(tx *sql.Tx) error {
			return inOrder(work(t.Context(), tx, key), func() error { return broken })
		})
		if err != broken { //nolint:errorlint // not even wrapped
			t.Errorf("InTx returned %v, want the error of the work itself", err)
		}
		if c.Confirmed() {
			t.Error("the claim takes itself for confirmed")
		}
		s.wantEffects(t, key, 0)
		noError(t, c.Forget(t.Context()))
		wantOutcome(t, claim(t, a, key), store.First)
	})

	run(t, "InTxRollsBackWhenTheWorkPanics", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		c := claim(t, a, key)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not go on")
				}
			}()
			_ = s.inTx(t.Context(), c, func(tx *sql.Tx) error {
				return inOrder(work(t.Context(), tx, key), func() error { panic("boom") })
			})
		}()
		s.wantEffects(t, key, 0)
		noError(t, c.Forget(t.Context()))
	})

	run(t, "InTxRollsBackWhenItsContextEnds", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		c := claim(t, a, key)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := c.InTx(ctx, s.db, func(tx *sql.Tx) error {
			noError(t, work(t.Context(), tx, key))
			cancel()
			return nil
		})
		if err == nil {
			t.Error("InTx succeeded although its context ended")
		}
		s.wantEffects(t, key, 0)
		noError(t, c.Forget(t.Context()))
		wantOutcome(t, claim(t, a, key), store.First)
	})

	run(t, "AForgottenClaimCannotConfirmInATransaction", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		c := claim(t, a, key)
		noError(t, c.Forget(t.Context()))
		s.wantLostTx(t, c)
		wantOutcome(t, claim(t, a, key), store.First)
	})

	run(t, "ATransactionThatIsDoneIsRefused", func(t *testing.T) {
		c := claim(t, s.open(t), newKey())
		s.withTx(t, func(tx *sql.Tx) error {
			noError(t, tx.Rollback())
			if err := c.ConfirmTx(t.Context(), tx); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("ConfirmTx: %v, want sql.ErrTxDone", err)
			}
			return nil
		})
		if err := c.ConfirmTx(t.Context(), nil); err == nil {
			t.Error("ConfirmTx with a nil transaction succeeded")
		}
		noError(t, c.Confirm(t.Context()))
	})

	if s.openExpiring != nil {
		run(t, "AnOvertakenHoldersWorkIsRolledBack", func(t *testing.T) {
			key, a, b := newKey(), s.openExpiring(t), s.openExpiring(t)
			first := claim(t, a, key)
			second := takeOver(t, b, first)
			s.wantLostTx(t, first)
			noError(t, s.inTx(t.Context(), second, func(tx *sql.Tx) error { return work(t.Context(), tx, key) }))
			s.wantLostTx(t, first)
			s.wantEffects(t, key, 1)
		})
	}
}

// wantLostTx checks that c is told ErrClaimLost by ConfirmTx and by InTx, and that its work is gone.
func (s *suite) wantLostTx(t *testing.T, c *store.Claim) {
	t.Helper()
	key := "lost-" + rand.Text()
	err := s.inTx(t.Context(), c, func(tx *sql.Tx) error { return work(t.Context(), tx, key) })
	if !errors.Is(err, store.ErrClaimLost) {
		t.Errorf("InTx: %v, want ErrClaimLost", err)
	}
	s.withTx(t, func(tx *sql.Tx) error {
		err := inOrder(work(t.Context(), tx, key), func() error { return c.ConfirmTx(t.Context(), tx) })
		if errors.Is(err, store.ErrClaimLost) {
			return nil
		}
		if err == nil {
			t.Error("ConfirmTx of a lost claim succeeded")
		}
		return err
	})
	s.wantEffects(t, key, 0)
}

// eventually polls until done reports true. It fails the subtest after a time that is generous even for
// a slow machine.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
