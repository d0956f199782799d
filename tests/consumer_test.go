package tests

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/store"
)

const shortLease = time.Second

var quiet = consumer.WithLogger(slog.New(slog.DiscardHandler))

func messageID(message string) string { return message }

// effects is a table of what handlers did, without any constraint.
func effects(t *testing.T, db *sql.DB) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE effects (id VARCHAR(100) NOT NULL)"); err != nil {
		t.Fatal(err)
	}
}

func effect(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES ('"+id+"')")
	return err
}

func wantOneEffect(t *testing.T, db *sql.DB) {
	t.Helper()
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM effects").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// impatient is the same store with a time limit that would be too short for its start.
func impatient(t *testing.T, s *store.SQL, limit time.Duration) *store.Scoped {
	t.Helper()
	scoped, err := s.Scope(store.DefaultScope, store.WithTimeout(limit))
	if err != nil {
		t.Fatal(err)
	}
	return scoped
}

// deliverUntilAccepted delivers until the answer is Accept, as a broker does. It returns how many
// deliveries were put back.
func deliverUntilAccepted(t *testing.T, handle consumer.Handler[string], id string) (putBack int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; putBack++ {
		ack := handle(t.Context(), id)
		if ack.Accepted() {
			return putBack
		}
		if ack.Verdict() == consumer.VerdictReject || time.Now().After(deadline) {
			t.Fatalf("answer %v", ack)
		}
		time.Sleep(min(max(ack.Delay(), 10*time.Millisecond), 200*time.Millisecond))
	}
}

// onEveryDatabase runs a test in parallel on each, in a new database.
func onEveryDatabase(t *testing.T, test func(t *testing.T, d database, db *sql.DB)) {
	t.Helper()
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			effects(t, db)
			test(t, d, db)
		})
	}
}

func TestAHandlerOfThreeLeasesRunsOnceWhileItIsRedelivered(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(t *testing.T, d database, db *sql.DB) {
		var starts atomic.Int32
		begun := make(chan struct{})
		handle := consumer.Idempotent(d.store(t, db, store.WithLease(shortLease)), messageID,
			func(ctx context.Context, id string) consumer.Ack {
				if starts.Add(1) == 1 {
					close(begun)
				}
				time.Sleep(3 * shortLease)
				return consumer.FromError(consumer.ClaimFrom(ctx).InTx(ctx, db, func(tx *sql.Tx) error { return effect(ctx, tx, id) }))
			})
		first := make(chan consumer.Ack)
		go func() { first <- handle(t.Context(), "A-1") }()
		<-begun
		if putBack := deliverUntilAccepted(t, handle, "A-1"); putBack == 0 {
			t.Error("the redelivery was accepted while the first one was at work")
		}
		if ack := <-first; ack != consumer.Accept() || starts.Load() != 1 {
			t.Errorf("the first delivery: %v, %d starts", ack, starts.Load())
		}
		wantOneEffect(t, db)
	})
}

func TestAHolderThatStoodStillIsOvertakenAndItsWorkRolledBack(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(t *testing.T, d database, db *sql.DB) {
		var lost atomic.Int32
		s := d.store(t, db, store.WithLease(shortLease))
		begun, proceed := make(chan struct{}), make(chan struct{})
		work := func(stall bool) consumer.Handler[string] {
			return consumer.Idempotent(s, messageID, func(ctx context.Context, id string) consumer.Ack {
				if stall {
					close(begun)
					<-proceed // with its claim, past its lease
				}
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return consumer.Retry(err)
				}
				defer tx.Rollback() //nolint:errcheck // after the commit there is nothing to roll back
				err = effect(ctx, tx, id)
				if err == nil {
					err = consumer.ClaimFrom(ctx).ConfirmTx(ctx, tx)
				}
				if errors.Is(err, store.ErrClaimLost) {
					lost.Add(1)
				}
				if err == nil {
					err = tx.Commit()
				}
				return consumer.FromError(err)
			}, consumer.WithoutHeartbeat(), quiet)
		}
		stalled := make(chan consumer.Ack)
		go func() { stalled <- work(true)(t.Context(), "A-1") }()
		<-begun
		if putBack := deliverUntilAccepted(t, work(false), "A-1"); putBack == 0 {
			t.Error("the redelivery ran before the lease was over")
		}
		close(proceed)
		if ack := <-stalled; ack.Verdict() != consumer.VerdictRetry || !errors.Is(ack.Err(), store.ErrClaimLost) || lost.Load() != 1 {
			t.Errorf("the overtaken delivery: %v, %d times lost; want a retry with ErrClaimLost", ack, lost.Load())
		}
		deliverUntilAccepted(t, work(false), "A-1")
		wantOneEffect(t, db)
	})
}

// A handler may go on after its own transaction has confirmed the key: nobody has taken it over.
func TestAHeartbeatAfterTheConfirmCancelsNobody(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(t *testing.T, d database, db *sql.DB) {
		handle := consumer.Idempotent(d.store(t, db, store.WithLease(shortLease)), messageID,
			func(ctx context.Context, id string) consumer.Ack {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return consumer.Retry(err)
				}
				defer tx.Rollback() //nolint:errcheck // after the commit there is nothing to roll back
				if err := errors.Join(effect(ctx, tx, id), consumer.ClaimFrom(ctx).ConfirmTx(ctx, tx), tx.Commit()); err != nil {
					return consumer.Retry(err)
				}
				select {
				case <-ctx.Done():
					return consumer.Retry(context.Cause(ctx))
				case <-time.After(2 * shortLease):
					return consumer.Accept()
				}
			})
		for range 2 {
			if ack := handle(t.Context(), "A-1"); ack != consumer.Accept() {
				t.Errorf("answer %v", ack)
			}
		}
		wantOneEffect(t, db)
	})
}

// While a handler's own transaction writes to SQLite, no heartbeat can; and nobody can take the key over.
func TestALongTransactionOnSQLiteIsNoLostClaim(t *testing.T) {
	t.Parallel()
	db, dsn := sqliteDB.migrated(t)
	effects(t, db)
	s := sqliteDB.store(t, db, store.WithLease(shortLease))
	other := impatient(t, sqliteDB.store(t, sqliteDB.open(t, dsn), store.WithLease(shortLease)), 100*time.Millisecond)
	var beats atomic.Int32
	handle := consumer.Idempotent(s, messageID, func(ctx context.Context, id string) consumer.Ack {
		return consumer.FromError(consumer.ClaimFrom(ctx).InTx(ctx, db, func(tx *sql.Tx) error {
			if err := effect(ctx, tx, id); err != nil {
				return err
			}
			time.Sleep(3 * shortLease)
			if c, err := other.Claim(ctx, id); err == nil && c.Outcome().Held() {
				t.Errorf("the key was taken: %v", c.Outcome())
			}
			return context.Cause(ctx)
		}))
	}, quiet, consumer.WithObserver(consumer.ObserverFunc(func(_ context.Context, e consumer.Event) {
		if e.Kind == consumer.Heartbeat && errors.Is(e.Err, store.ErrBusy) {
			beats.Add(1)
		}
	})))
	if ack := handle(t.Context(), "A-1"); ack != consumer.Accept() {
		t.Errorf("answer %v", ack)
	}
	if beats.Load() == 0 {
		t.Error("no heartbeat found the database busy: the test shows nothing")
	}
	wantOneEffect(t, db)
}

// When the database can be reached no more, the handler is told before others may have its key.
func TestAHandlerIsCanceledWhenItsLeaseCannotBeExtended(t *testing.T) {
	t.Parallel()
	for _, d := range []database{postgresDB, mariaDB} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			_, dsn := d.migrated(t)
			p, through := proxied(t, d, dsn)
			whole, err := store.New(d.open(t, through), d.dialect, store.WithLease(2*shortLease), store.WithTimeout(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			s := impatient(t, whole, shortLease)
			var lost atomic.Int32
			handle := consumer.Idempotent(s, messageID, func(ctx context.Context, _ string) consumer.Ack {
				p.block()
				end := consumer.ClaimFrom(ctx).LeaseEnd()
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
				if !errors.Is(context.Cause(ctx), store.ErrClaimLost) || !time.Now().Before(end) {
					t.Errorf("cause %v, %v after the lease", context.Cause(ctx), time.Since(end))
				}
				return consumer.Retry(context.Cause(ctx))
			}, quiet, consumer.WithObserver(consumer.ObserverFunc(func(_ context.Context, e consumer.Event) {
				if e.Kind == consumer.ClaimLost {
					lost.Add(1)
				}
			})))
			if ack := handle(t.Context(), "A-1"); ack.Accepted() || lost.Load() != 1 {
				t.Errorf("answer %v, %d events", ack, lost.Load())
			}
		})
	}
}

// A database that comes back in time gets its confirm; one that does not is reported, and the message
// accepted all the same: the work is done.
func TestAConfirmIsTriedUntilTheLeaseIsNearlyOver(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]bool{"back in time": true, "not back": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, dsn := postgresDB.migrated(t)
			p, through := proxied(t, postgresDB, dsn)
			whole, err := store.New(postgresDB.open(t, through), postgresDB.dialect,
				store.WithLease(6*shortLease), store.WithTimeout(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			s := impatient(t, whole, shortLease/2)
			var failed atomic.Int32
			started := time.Now()
			handle := consumer.Idempotent(s, messageID, func(context.Context, string) consumer.Ack {
				p.block()
				if back {
					time.AfterFunc(2*shortLease, p.unblock)
				}
				return consumer.Accept()
			}, quiet, consumer.WithoutHeartbeat(), consumer.WithObserver(consumer.ObserverFunc(func(_ context.Context, e consumer.Event) {
				if e.Kind == consumer.ConfirmFailed {
					failed.Add(1)
				}
			})))
			if ack := handle(t.Context(), "A-1"); ack != consumer.Accept() {
				t.Errorf("answer %v", ack)
			}
			took := time.Since(started)
			record, err := postgresDB.store(t, db).Get(t.Context(), "A-1")
			if err != nil {
				t.Fatal(err)
			}
			if record.Confirmed != back || (failed.Load() == 0) != back {
				t.Errorf("confirmed %v, %d failures reported", record.Confirmed, failed.Load())
			}
			if took < 2*shortLease || took > 8*shortLease {
				t.Errorf("it took %v with a lease of %v", took, 6*shortLease)
			}
		})
	}
}
