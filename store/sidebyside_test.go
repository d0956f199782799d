package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/dialects/sqlite"
	"github.com/firsttime-go/firsttime/store"
)

// bench holds two stores side by side against the reference.
type bench struct {
	reference   *reference
	sql, memory *subject
	table       *store.SQL
	db          *sql.DB
	keys        []string
}

// subject is a store under test and the claims that it handed out.
type subject struct {
	name   string
	scoped []*store.Scoped
	claims []*store.Claim
}

func newBench(t *testing.T, db *sql.DB, keys []string) *bench {
	t.Helper()
	for _, table := range []string{"firsttime_keys", "effects"} {
		if _, err := db.Exec("DELETE FROM " + table); err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{reference: newReference(), sql: &subject{name: "SQL"}, memory: &subject{name: "Memory"}, db: db, keys: keys}
	var err error
	if b.table, err = store.New(db, sqlite.Dialect); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.table.Close(); err != nil {
			t.Error(err)
		}
	})
	inMemory := memory(t)
	for _, set := range scopes {
		for s, divide := range map[*subject]func(string, ...store.Option) (*store.Scoped, error){
			b.sql: b.table.Scope, b.memory: inMemory.Scope,
		} {
			scoped, err := divide(set.name, store.WithLease(set.lease), store.WithRetention(set.retention), store.WithWorker(worker))
			if err != nil {
				t.Fatal(err)
			}
			s.scoped = append(s.scoped, scoped)
		}
	}
	return b
}

// run does one step after the other until something is not as the reference says.
func (b *bench) run(program []step) error {
	for i, s := range program {
		err := actions()[s.action](b, s)
		if err == nil {
			err = b.check()
		}
		if err != nil {
			return fmt.Errorf("step %d, %q of scope %d, key %q, claim %d: %w", i+1, s.action, s.scope, b.key(s), s.claim, err)
		}
	}
	return nil
}

func (b *bench) key(s step) string { return b.keys[s.key%len(b.keys)] }

// compare does the same to both stores, which are to answer want.
func (b *bench) compare(want string, do func(s *subject) string) error {
	for _, s := range []*subject{b.sql, b.memory} {
		if got := do(s); got != want {
			return fmt.Errorf("%s answers %q, want %q", s.name, got, want)
		}
	}
	return nil
}

// compareClaim is compare for the claim of a step, if there is one.
func (b *bench) compareClaim(s step, want func(i int) string, do func(c *store.Claim) string) error {
	if len(b.reference.claims) == 0 {
		return nil
	}
	i := s.claim % len(b.reference.claims)
	return b.compare(want(i), func(s *subject) string { return do(s.claims[i]) })
}

func (b *bench) claim(s step) error {
	key := b.key(s)
	return b.compare(b.reference.claim(s.scope, key), func(on *subject) string {
		c, err := on.scoped[s.scope].Claim(context.Background(), key)
		if err != nil {
			return kind(err)
		}
		on.claims = append(on.claims, c)
		return answered(c.Outcome(), c.Attempt(), c.Holder(), c.RetryAfter())
	})
}

func (b *bench) firstTime(s step) error {
	key := b.key(s)
	return b.compare(b.reference.firstTime(s.scope, key), func(on *subject) string {
		first, err := on.scoped[s.scope].FirstTime(context.Background(), key)
		return fmt.Sprint(first, " ", kind(err))
	})
}

func (b *bench) confirm(s step) error {
	return b.compareClaim(s, b.reference.confirm, func(c *store.Claim) string { return kind(c.Confirm(context.Background())) })
}

func (b *bench) extend(s step) error {
	return b.compareClaim(s, b.reference.extend, func(c *store.Claim) string { return kind(c.Extend(context.Background())) })
}

func (b *bench) forget(s step) error {
	return b.compareClaim(s, b.reference.forget, func(c *store.Claim) string { return kind(c.Forget(context.Background())) })
}

var errWork = errors.New("the work failed")

func (b *bench) inTx(s step) error {
	want := func(i int) string { return b.reference.inTx(i, s.yes) }
	err := b.compareClaim(s, want, func(c *store.Claim) string {
		ran := false
		err := c.InTx(context.Background(), b.db, func(tx *sql.Tx) error {
			ran = true
			_, err := tx.Exec("INSERT INTO effects DEFAULT VALUES")
			if s.yes {
				err = errors.Join(errWork, err)
			}
			return err
		})
		return fmt.Sprintf("%s, ran: %v", kind(err), ran)
	})
	if err != nil {
		return err
	}
	var effects int
	if err := b.db.QueryRow("SELECT COUNT(*) FROM effects").Scan(&effects); err != nil || effects != 2*b.reference.effects {
		return fmt.Errorf("%d effects, want %d of each store: %w", effects, b.reference.effects, err)
	}
	return nil
}

// confirmTx is in a transaction that is rolled back, which changes nothing. Memory takes no part in one.
func (b *bench) confirmTx(s step) error {
	if len(b.reference.claims) == 0 {
		return nil
	}
	i := s.claim % len(b.reference.claims)
	inSQL, inMemory := b.reference.confirmTx(i)
	tx, err := b.db.Begin()
	if err != nil {
		return err
	}
	got := kind(b.sql.claims[i].ConfirmTx(context.Background(), tx))
	if err := tx.Rollback(); err != nil {
		return err
	}
	if got != inSQL {
		return fmt.Errorf("SQL answers %q, want %q", got, inSQL)
	}
	if got := kind(b.memory.claims[i].ConfirmTx(context.Background(), nil)); got != inMemory {
		return fmt.Errorf("Memory answers %q, want %q", got, inMemory)
	}
	return nil
}

func (b *bench) confirmKey(s step) error {
	key := b.key(s)
	return b.compare(b.reference.confirmKey(s.scope, key), func(on *subject) string {
		return kind(on.scoped[s.scope].Confirm(context.Background(), key))
	})
}

// forgetKey knows that a store remembers a claim of FirstTime until its lease is over, and for some time
// after: what Forget does then is its own affair, but both do the same.
func (b *bench) forgetKey(s step) error {
	key := b.key(s)
	want, open := b.reference.forgetKey(s.scope, key)
	err := b.compare(want, func(on *subject) string { return kind(on.scoped[s.scope].Forget(context.Background(), key)) })
	if err != nil || !open {
		return err
	}
	if _, err := b.memory.scoped[s.scope].Get(context.Background(), key); errors.Is(err, store.ErrNotFound) {
		delete(b.reference.entries, id{s.scope, key})
	}
	return b.get(s)
}

func (b *bench) get(s step) error {
	key := b.key(s)
	return b.compare(b.reference.get(s.scope, key), func(on *subject) string {
		return recorded(on.scoped[s.scope].Get(context.Background(), key))
	})
}

func (b *bench) release(s step) error {
	key, release := b.key(s), (*store.Scoped).Release
	if s.yes {
		release = (*store.Scoped).ForceRelease
	}
	return b.compare(b.reference.release(s.scope, key, s.yes), func(on *subject) string {
		r, err := release(on.scoped[s.scope], context.Background(), key)
		if errors.Is(err, store.ErrInvalidKey) || errors.Is(err, store.ErrNotFound) {
			return kind(err)
		}
		return kind(err) + ", " + recorded(r, nil)
	})
}

// passTime moves the clock of this process for Memory, and all times in the table the other way for SQL.
func (b *bench) passTime(s step) error {
	d := tick * time.Duration(s.ticks)
	time.Sleep(d)
	_, err := b.db.Exec("UPDATE firsttime_keys SET recorded_at = recorded_at - ?1, leased_until = leased_until - ?1, "+
		"confirmed_at = confirmed_at - ?1, expires_at = expires_at - ?1", d.Microseconds())
	if err != nil {
		return err
	}
	want := b.reference.passTime(d)
	if n, err := b.table.PurgeExpired(context.Background()); err != nil || n != want {
		return fmt.Errorf("%d keys were purged, want %d: %w", n, want, err)
	}
	// Memory drops a key when it is looked up.
	for scope := range scopes {
		for key := range b.keys {
			if err := b.get(step{scope: scope, key: key}); err != nil {
				return err
			}
		}
	}
	return nil
}

// check looks at all keys and claims.
func (b *bench) check() error {
	stats, err := b.table.Stats(context.Background())
	if err != nil {
		return err
	}
	if got, want := fmt.Sprint(counted(stats)), fmt.Sprint(b.reference.stats()); got != want {
		return fmt.Errorf("the table holds %s, want %s", got, want)
	}
	for i, c := range b.reference.claims {
		err := b.compare(fmt.Sprint(c.known), func(s *subject) string { return fmt.Sprint(s.claims[i].Confirmed()) })
		if err != nil {
			return fmt.Errorf("Confirmed of claim %d: %w", i, err)
		}
	}
	return nil
}

func counted(stats []store.ScopeStats) []string {
	var lines []string
	for _, s := range stats {
		lines = append(lines, fmt.Sprintf("%q: %d claimed, %d stale, %d confirmed, %d purgeable",
			s.Scope, s.Claimed, s.Stale, s.Confirmed, s.Purgeable))
	}
	slices.Sort(lines)
	return lines
}

// kind is an error in so far as it is promised.
func kind(err error) string {
	for _, sentinel := range []error{
		errWork, store.ErrInvalidKey, store.ErrClaimLost, store.ErrConfirmed, store.ErrLive, store.ErrNotFound, errors.ErrUnsupported,
	} {
		if errors.Is(err, sentinel) {
			return sentinel.Error()
		}
	}
	if err == nil {
		return "done"
	}
	return "another error: " + err.Error()
}

func answered(o store.Outcome, attempt int, holder string, left time.Duration) string {
	return fmt.Sprintf("%v, attempt %d of %s, %v left", o, attempt, holder, rounded(left))
}

func recorded(r store.Record, err error) string {
	if err != nil {
		return kind(err)
	}
	text := fmt.Sprintf("%q in %q: attempt %d of %s, age %v, retention left %v",
		r.Key, r.Scope, r.Attempts, r.Worker, rounded(r.Age), rounded(r.RetentionLeft))
	if r.Confirmed {
		return text + fmt.Sprintf(", confirmed for %v", rounded(r.ConfirmedAge))
	}
	return text + fmt.Sprintf(", lease left %v", rounded(r.LeaseLeft))
}

func rounded(d time.Duration) time.Duration { return d.Round(tick / 4) }
