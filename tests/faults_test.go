package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/store"
)

// fault is what happens to one statement.
type fault int

const (
	works       fault = iota
	lostReply         // it is done, and the connection ends before the answer
	lostRequest       // the connection ends before the statement arrives
	undone            // the database undoes it and asks for another try
	refused           // an error that no repetition helps against
)

var errRefused = errors.New("permission denied")

// faulty lets the statements of a real database fail as a test wants.
type faulty struct {
	dialects.Dialect
	plan *plan
}

// plan says what happens to the statements, by their names: to each call the next fault, and once the list
// is used up, its last.
type plan struct {
	faults map[string][]fault
	calls  map[string]*atomic.Int64
}

func newPlan(faults map[string][]fault) *plan {
	p := &plan{faults: faults, calls: map[string]*atomic.Int64{}}
	for _, name := range []string{"Claim", "Takeover", "Confirm", "ConfirmOnce", "ConfirmKey", "InsertConfirmed", "Extend", "Forget", "Get", "PurgeBatch"} {
		p.calls[name] = new(atomic.Int64)
	}
	return p
}

// around runs statement as the plan says.
func (p *plan) around(name string, statement func() error) error {
	n := int(p.calls[name].Add(1)) - 1
	faults := p.faults[name]
	if len(faults) == 0 {
		return statement()
	}
	switch faults[min(n, len(faults)-1)] {
	case lostReply:
		if err := statement(); err != nil {
			return err
		}
		return dialects.Mark(dialects.ErrOutcomeUnknown, errors.New("unexpected EOF"))
	case lostRequest:
		return dialects.Mark(dialects.ErrOutcomeUnknown, errors.New("broken pipe"))
	case undone:
		return dialects.Mark(dialects.ErrRetryable, errors.New("deadlock"))
	case refused:
		return errRefused
	default:
		return statement()
	}
}

func (d faulty) Open(ctx context.Context, db *sql.DB, mode dialects.StatementMode) (dialects.Queries, error) {
	q, err := d.Dialect.Open(ctx, db, mode)
	return faultyQueries{q, d.plan}, err
}

type faultyQueries struct {
	dialects.Queries
	plan *plan
}

func (q faultyQueries) WithTx(tx *sql.Tx) dialects.Queries {
	return faultyQueries{q.Queries.WithTx(tx), q.plan}
}

func (q faultyQueries) Claim(ctx context.Context, p dialects.ClaimParams) (won bool, taken *dialects.Row, err error) {
	err = q.plan.around("Claim", func() (err error) { won, taken, err = q.Queries.Claim(ctx, p); return err })
	return won && err == nil, taken, err
}

func (q faultyQueries) Takeover(ctx context.Context, p dialects.TakeoverParams) (won bool, err error) {
	err = q.plan.around("Takeover", func() (err error) { won, err = q.Queries.Takeover(ctx, p); return err })
	return won && err == nil, err
}

func (q faultyQueries) Confirm(ctx context.Context, p dialects.ConfirmParams) (held bool, err error) {
	err = q.plan.around("Confirm", func() (err error) { held, err = q.Queries.Confirm(ctx, p); return err })
	return held && err == nil, err
}

func (q faultyQueries) ConfirmOnce(ctx context.Context, p dialects.ConfirmParams) (held bool, err error) {
	err = q.plan.around("ConfirmOnce", func() (err error) { held, err = q.Queries.ConfirmOnce(ctx, p); return err })
	return held && err == nil, err
}

func (q faultyQueries) ConfirmKey(ctx context.Context, p dialects.ConfirmKeyParams) (found bool, err error) {
	err = q.plan.around("ConfirmKey", func() (err error) { found, err = q.Queries.ConfirmKey(ctx, p); return err })
	return found && err == nil, err
}

func (q faultyQueries) InsertConfirmed(ctx context.Context, p dialects.InsertConfirmedParams) (won bool, err error) {
	err = q.plan.around("InsertConfirmed", func() (err error) { won, err = q.Queries.InsertConfirmed(ctx, p); return err })
	return won && err == nil, err
}

func (q faultyQueries) Extend(ctx context.Context, p dialects.ExtendParams) (held bool, err error) {
	err = q.plan.around("Extend", func() (err error) { held, err = q.Queries.Extend(ctx, p); return err })
	return held && err == nil, err
}

func (q faultyQueries) Forget(ctx context.Context, p dialects.ForgetParams) (removed bool, err error) {
	err = q.plan.around("Forget", func() (err error) { removed, err = q.Queries.Forget(ctx, p); return err })
	return removed && err == nil, err
}

func (q faultyQueries) Get(ctx context.Context, p dialects.GetParams) (row dialects.Row, err error) {
	err = q.plan.around("Get", func() (err error) { row, err = q.Queries.Get(ctx, p); return err })
	return row, err
}

func (q faultyQueries) PurgeBatch(ctx context.Context, p dialects.PurgeBatchParams) (batch dialects.PurgedBatch, err error) {
	err = q.plan.around("PurgeBatch", func() (err error) { batch, err = q.Queries.PurgeBatch(ctx, p); return err })
	return batch, err
}

// faultyStore is a store whose statements fail as planned, beside a sound one on the same database.
func faultyStore(t *testing.T, d database, faults map[string][]fault, options ...store.Option) (s, sound *store.SQL, p *plan) {
	t.Helper()
	db, _ := d.migrated(t)
	p = newPlan(faults)
	broken := d
	broken.dialect = faulty{d.dialect, p}
	return broken.store(t, db, options...), d.store(t, db, options...), p
}

func TestAClaimSurvivesFaults(t *testing.T) {
	for name, c := range map[string]struct {
		faults  map[string][]fault
		stale   bool // somebody else's claim, its lease over, is in the way
		outcome store.Outcome
	}{
		"the reply to its INSERT is lost":           {faults: map[string][]fault{"Claim": {lostReply, works}}, outcome: store.First},
		"the reply is lost and the next one undone": {faults: map[string][]fault{"Claim": {lostReply, undone, works}}, outcome: store.First},
		"its INSERT is lost":                        {faults: map[string][]fault{"Claim": {lostRequest, works}}, outcome: store.First},
		"its INSERT is undone five times":           {faults: map[string][]fault{"Claim": {undone, undone, undone, undone, undone, works}}, outcome: store.First},
		"the reply to its takeover is lost":         {stale: true, faults: map[string][]fault{"Takeover": {lostReply, works}}, outcome: store.TakenOver},
		"its takeover is undone":                    {stale: true, faults: map[string][]fault{"Takeover": {undone, works}}, outcome: store.TakenOver},
		"its look-up is lost":                       {stale: true, faults: map[string][]fault{"Get": {lostReply, works}}, outcome: store.TakenOver},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, sound, _ := faultyStore(t, sqliteDB, c.faults, store.WithLease(2*time.Second))
			attempt := 1
			if c.stale {
				attempt = 2
				abandoned, err := sound.Scope(store.DefaultScope, store.WithLease(time.Millisecond))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := abandoned.Claim(t.Context(), "order-1"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Millisecond) // the lease: nothing to poll for that would not take it over
			}
			claim, err := s.Claim(t.Context(), "order-1")
			if err != nil {
				t.Fatal(err)
			}
			if claim.Outcome() != c.outcome || claim.Attempt() != attempt {
				t.Errorf("outcome %v, attempt %d; want %v, %d", claim.Outcome(), claim.Attempt(), c.outcome, attempt)
			}
			if err := claim.Confirm(t.Context()); err != nil {
				t.Errorf("the claim does not hold the key: %v", err)
			}
		})
	}
}

func TestAClaimThatFailsIsGivenBack(t *testing.T) {
	for name, faults := range map[string]map[string][]fault{
		"every reply is lost":                 {"Claim": {lostReply}, "Get": {lostReply}},
		"the reply is lost, then all refused": {"Claim": {lostReply, refused}, "Get": {refused}},
		"everything is undone":                {"Claim": {undone}},
		"nothing arrives":                     {"Claim": {lostRequest}, "Get": {lostRequest}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, sound, p := faultyStore(t, sqliteDB, faults)
			claim, err := s.Claim(t.Context(), "order-1")
			if err == nil {
				t.Fatalf("Claim: %v, want an error", claim.Outcome())
			}
			if n := p.calls["Claim"].Load(); n > 10 {
				t.Errorf("it was tried %d times, want at most 10", n)
			}
			again, err := sound.Claim(t.Context(), "order-1")
			if err != nil || again.Outcome() != store.First {
				t.Errorf("the next claim: %v, %v; want first: a claim was left behind", again, err)
			}
		})
	}
}

func TestAClaimThatCannotBeGivenBackSaysSo(t *testing.T) {
	t.Parallel()
	s, sound, _ := faultyStore(t, sqliteDB, map[string][]fault{"Claim": {lostReply}, "Get": {lostReply}, "Forget": {refused}})
	_, err := s.Claim(t.Context(), "order-1")
	if !errors.Is(err, dialects.ErrOutcomeUnknown) || !errors.Is(err, errRefused) {
		t.Errorf("Claim: %v, want both what failed and why it could not be given back", err)
	}
	if c, err := sound.Claim(t.Context(), "order-1"); err != nil || c.Outcome() != store.InProgress {
		t.Errorf("the next claim: %v, %v; want in progress until the lease is over", c, err)
	}
}

func TestAnErrorThatNoRepetitionHelpsAgainstIsNotRepeated(t *testing.T) {
	t.Parallel()
	s, _, p := faultyStore(t, sqliteDB, map[string][]fault{"Claim": {refused}})
	if _, err := s.Claim(t.Context(), "order-1"); !errors.Is(err, errRefused) {
		t.Errorf("Claim: %v, want the error as it is", err)
	}
	if claims, forgets := p.calls["Claim"].Load(), p.calls["Forget"].Load(); claims != 1 || forgets != 0 {
		t.Errorf("%d claims and %d forgets, want 1 and 0", claims, forgets)
	}
}

func TestConfirmAndForgetSurviveFaults(t *testing.T) {
	many := append(make([]fault, 0, 21), undone, lostReply, lostRequest, undone, undone, undone, undone, undone, undone, undone, undone, undone, works)
	for name, faults := range map[string]map[string][]fault{
		"lost replies": {"Confirm": {lostReply, works}, "ConfirmKey": {lostReply, works}, "InsertConfirmed": {lostReply, works}, "Forget": {lostReply, works}, "Extend": {lostReply, works}},
		"many faults":  {"Confirm": many, "ConfirmKey": many, "Forget": many},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, sound, _ := faultyStore(t, sqliteDB, faults)
			for key, finish := range map[string]func(c *store.Claim) error{
				"claim":  func(c *store.Claim) error { return errors.Join(c.Extend(t.Context()), c.Confirm(t.Context())) },
				"by key": func(c *store.Claim) error { return s.Confirm(t.Context(), c.Key()) },
				"absent": func(c *store.Claim) error {
					return errors.Join(c.Forget(t.Context()), s.Confirm(t.Context(), c.Key()))
				},
			} {
				c, err := s.Claim(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if err := finish(c); err != nil {
					t.Errorf("%s: %v", key, err)
				}
				if r, err := sound.Get(t.Context(), key); err != nil || !r.Confirmed {
					t.Errorf("%s: %+v, %v; want it confirmed", key, r, err)
				}
			}
		})
	}
}

func TestNothingIsTriedAgainInTheCallersTransaction(t *testing.T) {
	for name, f := range map[string]fault{"undone": undone, "lost": lostRequest} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, _ := sqliteDB.migrated(t)
			p := newPlan(map[string][]fault{"ConfirmOnce": {f}, "ConfirmKey": {f}})
			broken := sqliteDB
			broken.dialect = faulty{sqliteDB.dialect, p}
			s := broken.store(t, db)
			c, err := s.Claim(t.Context(), "order-1")
			if err != nil {
				t.Fatal(err)
			}
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback() //nolint:errcheck // it is rolled back in any case
			for call, err := range map[string]error{
				"ConfirmOnce": c.ConfirmTx(t.Context(), tx),
				"ConfirmKey":  s.ConfirmTx(t.Context(), tx, "order-2"),
			} {
				if !errors.Is(err, store.ErrRetryTx) {
					t.Errorf("%s: %v, want ErrRetryTx", call, err)
				}
				if n := p.calls[call].Load(); n != 1 {
					t.Errorf("%s was run %d times, want once", call, n)
				}
			}
		})
	}
}

func TestAPurgeThatFailsCountsWhatItDeleted(t *testing.T) {
	t.Parallel()
	s, sound, _ := faultyStore(t, sqliteDB, map[string][]fault{"PurgeBatch": {undone, works, refused}},
		store.WithLease(time.Millisecond), store.WithRetention(2*time.Millisecond))
	const keys = 1500
	for i := range keys {
		if err := sound.Confirm(t.Context(), fmt.Sprintf("order-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	poll(t, "all keys may be purged", func() bool {
		stats, err := sound.Stats(t.Context())
		return err == nil && stats[0].Purgeable == keys
	})
	deleted, err := s.PurgeExpired(t.Context())
	if deleted != 500 || !errors.Is(err, errRefused) {
		t.Errorf("PurgeExpired: %d, %v; want the first batch of 500 and the error", deleted, err)
	}
	if deleted, err := sound.PurgeExpired(t.Context()); deleted != keys-500 || err != nil {
		t.Errorf("the next PurgeExpired: %d, %v; want %d", deleted, err, keys-500)
	}
}

func TestAClosedStoreRefusesEveryCall(t *testing.T) {
	t.Parallel()
	db, _ := sqliteDB.migrated(t)
	s, err := store.New(db, sqliteDB.dialect)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), "order-1")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing happens in it
	_, claimErr := s.Claim(t.Context(), "order-2")
	_, getErr := s.Get(t.Context(), "order-1")
	_, statsErr := s.Stats(t.Context())
	_, staleErr := s.Stale(t.Context(), 1)
	_, purgeErr := s.PurgeExpired(t.Context())
	for call, err := range map[string]error{
		"Claim": claimErr, "Get": getErr, "Stats": statsErr, "Stale": staleErr, "Purge": purgeErr,
		"PurgeEvery": s.PurgeEvery(t.Context(), time.Second),
		"Confirm":    c.Confirm(t.Context()), "Forget": c.Forget(t.Context()), "Extend": c.Extend(t.Context()),
		"ConfirmTx": c.ConfirmTx(t.Context(), tx), "ConfirmKey": s.Confirm(t.Context(), "order-1"),
		"ConfirmKeyTx": s.ConfirmTx(t.Context(), tx, "order-1"),
	} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", call, err)
		}
	}
}

func TestInTxRefusesAnotherDatabase(t *testing.T) {
	t.Parallel()
	db, _ := sqliteDB.migrated(t)
	other, _ := sqliteDB.migrated(t)
	c, err := sqliteDB.store(t, db).Claim(t.Context(), "order-1")
	if err != nil {
		t.Fatal(err)
	}
	never := func(*sql.Tx) error { t.Error("the work was called"); return nil }
	for name, db := range map[string]*sql.DB{"another": other, "none": nil} {
		if err := c.InTx(t.Context(), db, never); err == nil || !strings.Contains(err.Error(), "db is") {
			t.Errorf("InTx on %s: %v, want an error that says which database to pass", name, err)
		}
	}
}
