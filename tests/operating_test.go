package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/firsttime-go/firsttime/store"
)

func TestStatsStaleAndGetShowWhatIsThere(t *testing.T) {
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			s := d.store(t, db, store.WithWorker("teller-1"))
			payments := scope(t, s, "payments")
			hasty := scope(t, s, "mail", store.WithLease(time.Millisecond))

			mustClaim(t, payments, "live")
			if err := mustClaim(t, payments, "done").Confirm(t.Context()); err != nil {
				t.Fatal(err)
			}
			mustClaim(t, hasty, "stale-1")
			mustClaim(t, hasty, "stale-2")
			poll(t, "two claims are stale", func() bool {
				stale, err := s.Stale(t.Context(), 10)
				return err == nil && len(stale) == 2
			})

			stats, err := s.Stats(t.Context())
			if err != nil || len(stats) != 2 {
				t.Fatalf("Stats: %+v, %v; want two scopes", stats, err)
			}
			for i := range stats {
				if age := stats[i].OldestClaim; age <= 0 || age > time.Hour {
					t.Errorf("scope %s: the oldest claim is %v old", stats[i].Scope, age)
				}
				stats[i].OldestClaim = 0
			}
			if want := (store.ScopeStats{Scope: "mail", Stale: 2}); stats[0] != want {
				t.Errorf("Stats: %+v, want %+v", stats[0], want)
			}
			if want := (store.ScopeStats{Scope: "payments", Claimed: 1, Confirmed: 1}); stats[1] != want {
				t.Errorf("Stats: %+v, want %+v", stats[1], want)
			}

			stale, err := s.Stale(t.Context(), 1)
			if err != nil || len(stale) != 1 || stale[0].Key != "stale-1" || stale[0].Scope != "mail" ||
				stale[0].LeaseLeft > 0 || stale[0].Confirmed || stale[0].Worker != "teller-1" {
				t.Errorf("Stale(1): %+v, %v; want stale-1, which is overdue longest", stale, err)
			}
			if _, err := s.Stale(t.Context(), 0); err == nil {
				t.Error("Stale(0) succeeded")
			}

			r, err := payments.Get(t.Context(), "done")
			if err != nil || !r.Confirmed || r.Attempts != 1 || r.Worker != "teller-1" || r.Age <= 0 || r.ConfirmedAge <= 0 ||
				r.ConfirmedAge > r.Age || r.RetentionLeft <= 23*time.Hour || r.RetentionLeft > 24*time.Hour {
				t.Errorf("Get: %+v, %v", r, err)
			}
			if r, err := payments.Get(t.Context(), "live"); err != nil || r.Confirmed || r.ConfirmedAge != 0 ||
				r.LeaseLeft <= 0 || r.LeaseLeft > store.DefaultLease {
				t.Errorf("Get: %+v, %v", r, err)
			}
			if _, err := payments.Get(t.Context(), "never seen"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("Get of an unknown key: %v, want ErrNotFound", err)
			}
		})
	}
}

func TestAPurgeDeletesWhatIsOverAndNothingElse(t *testing.T) {
	const over = 2500 // several batches
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			s := d.store(t, db)
			old := scope(t, s, "old", store.WithLease(time.Millisecond), store.WithRetention(2*time.Millisecond))
			var writers sync.WaitGroup
			for w := range 4 {
				writers.Go(func() {
					for i := w; i < over; i += 4 {
						if err := old.Confirm(t.Context(), fmt.Sprintf("order-%d", i)); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			writers.Wait()
			mustClaim(t, old, "abandoned") // stale, and past its retention
			mustClaim(t, s.Scoped, "live")
			if err := s.Confirm(t.Context(), "done"); err != nil {
				t.Fatal(err)
			}
			// A live claim whose retention is over: nobody can make one by the store, so by hand.
			mustClaim(t, s.Scoped, "long")
			execute(t, db, "UPDATE firsttime_keys SET expires_at = recorded_at WHERE message_id = 'long'")
			poll(t, "all may be purged", func() bool {
				stats, err := s.Stats(t.Context())
				return err == nil && stats[1].Purgeable == over+1
			})

			var (
				purgers sync.WaitGroup
				mu      sync.Mutex
				total   int64
			)
			for range 3 {
				purgers.Go(func() {
					n, err := s.PurgeExpired(t.Context())
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					total += n
				})
			}
			purgers.Wait()
			if total != over+1 {
				t.Errorf("three purges at once deleted %d keys, want %d", total, over+1)
			}
			for _, key := range []string{"live", "done", "long"} {
				if _, err := s.Get(t.Context(), key); err != nil {
					t.Errorf("key %q: %v", key, err)
				}
			}
		})
	}
}

// More of them than a batch may have, which expired in the same microsecond: the next batch cannot begin after them.
func TestAPurgeEndsAtClaimsThatItMustKeep(t *testing.T) {
	const columns = "state, claimed_by, attempts, recorded_at, leased_until, confirmed_at, expires_at"
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			s := d.store(t, db)
			mustClaim(t, s.Scoped, "order")
			execute(t, db, "UPDATE firsttime_keys SET expires_at = recorded_at")
			for i := range 13 { // 2^13 rows
				execute(t, db, fmt.Sprintf("INSERT INTO firsttime_keys (scope, message_id, %s) SELECT scope, CONCAT(message_id, '-%d'), %[1]s FROM firsttime_keys", columns, i))
			}
			if n, err := s.PurgeExpired(t.Context()); n != 0 || err != nil {
				t.Errorf("%d keys deleted, %v; want none", n, err)
			}
		})
	}
}

func TestAPurgeRefusesSettingsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	db, _ := sqliteDB.migrated(t)
	s := sqliteDB.store(t, db)
	for _, o := range []store.PurgeOptions{{Share: -1}, {Share: 1.5}, {Share: 1e-18}, {Share: math.NaN()}, {MaxDuration: -time.Second}} {
		if _, err := s.Purge(t.Context(), o); err == nil {
			t.Errorf("Purge(%+v) succeeded", o)
		}
	}
	if err := s.PurgeEvery(t.Context(), time.Millisecond); err == nil {
		t.Error("PurgeEvery millisecond is no error")
	}
}

func TestPurgeEveryPurgesUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	db, _ := sqliteDB.migrated(t)
	s := sqliteDB.store(t, db, store.WithLease(time.Millisecond), store.WithRetention(2*time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.PurgeEvery(ctx, time.Second) }()
	for i := range 2 { // it comes back
		if err := s.Confirm(t.Context(), fmt.Sprintf("order-%d", i)); err != nil {
			t.Fatal(err)
		}
		poll(t, "the key is purged", func() bool { return count(t, db, "SELECT COUNT(*) FROM firsttime_keys") == 0 })
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("PurgeEvery: %v, want nil at the end of its context", err)
	}
	if err := s.PurgeEvery(t.Context(), 0); err == nil {
		t.Error("PurgeEvery(0) succeeded")
	}
}

func TestPurgeEveryLogsAFailureAndGoesOn(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	s, _, p := faultyStore(t, sqliteDB, map[string][]fault{"PurgeBatch": {refused}},
		store.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.PurgeEvery(ctx, time.Second) }()
	poll(t, "it failed twice", func() bool { return p.calls["PurgeBatch"].Load() >= 2 })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("PurgeEvery: %v, want nil", err)
	}
	if text := log.String(); !strings.Contains(text, "purge failed") || !strings.Contains(text, errRefused.Error()) {
		t.Errorf("the log says %q", text)
	}
}

func TestAStoreLeavesNoGoroutineBehind(t *testing.T) {
	db, _ := sqliteDB.migrated(t)
	before := goleak.IgnoreCurrent()
	s, err := store.New(db, sqliteDB.dialect)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.PurgeEvery(ctx, time.Hour) }()
	if err := mustClaim(t, s.Scoped, "order-1").Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
}

// lockedBuffer is a buffer that several goroutines may use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func scope(t *testing.T, s *store.SQL, name string, options ...store.Option) *store.Scoped {
	t.Helper()
	scoped, err := s.Scope(name, options...)
	if err != nil {
		t.Fatal(err)
	}
	return scoped
}

func mustClaim(t *testing.T, s *store.Scoped, key string) *store.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c.Outcome() != store.First {
		t.Fatalf("outcome of the claim on %q: %v, want first", key, c.Outcome())
	}
	return c
}
