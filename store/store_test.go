package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "modernc.org/sqlite"

	"github.com/firsttime-go/firsttime/dialects/sqlite"
	"github.com/firsttime-go/firsttime/store"
)

func TestWrongOptionsAreErrorsAtStart(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+t.TempDir()+"/x.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, c := range map[string]struct {
		options []store.Option
		want    string
	}{
		"no lease":               {[]store.Option{store.WithLease(0)}, "WithLease"},
		"negative lease":         {[]store.Option{store.WithLease(-time.Second)}, "WithLease"},
		"lease too short":        {[]store.Option{store.WithLease(time.Microsecond)}, "1ms"},
		"no retention":           {[]store.Option{store.WithRetention(0)}, "WithRetention"},
		"retention = lease":      {[]store.Option{store.WithLease(time.Hour), store.WithRetention(time.Hour)}, "longer than the lease"},
		"lease above retention":  {[]store.Option{store.WithLease(48 * time.Hour)}, "WithRetention"},
		"no time limit":          {[]store.Option{store.WithTimeout(0)}, "WithTimeout"},
		"empty worker":           {[]store.Option{store.WithWorker("")}, "WithWorker"},
		"long worker":            {[]store.Option{store.WithWorker(strings.Repeat("w", 96))}, "95"},
		"nil logger":             {[]store.Option{store.WithLogger(nil)}, "WithLogger"},
		"the first error counts": {[]store.Option{store.WithLease(0), store.WithWorker("")}, "WithLease"},
	} {
		if s, err := store.New(db, sqlite.Dialect, c.options...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: New: %v, %v; want an error with %q", name, s, err, c.want)
		}
		if m, err := store.NewMemory(c.options...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: NewMemory: %v, %v; want an error with %q", name, m, err, c.want)
		}
		m := memory(t)
		if s, err := m.Scope("payments", c.options...); err == nil {
			t.Errorf("%s: Scope: %v, want an error", name, s)
		}
	}
	if s, err := store.New(nil, sqlite.Dialect); err == nil || !strings.Contains(err.Error(), "db is nil") {
		t.Errorf("New without a database: %v, %v", s, err)
	}
	if s, err := store.New(db, nil); err == nil || !strings.Contains(err.Error(), "dialect is nil") {
		t.Errorf("New without a dialect: %v, %v", s, err)
	}
}

func TestTheWorkersNameFitsWhateverTheHostIsCalled(t *testing.T) {
	m := memory(t, store.WithWorker(strings.Repeat("w", 95)), nil)
	c, err := m.Claim(t.Context(), "order-1")
	if err != nil || c.Holder() != strings.Repeat("w", 95) {
		t.Errorf("%v, %v", c, err)
	}
	slashes := memory(t, store.WithWorker("a/b/c"))
	if c, err := slashes.Claim(t.Context(), "order-1"); err != nil || c.Holder() != "a/b/c" {
		t.Errorf("%v, %v", c, err)
	}
}

// Memory follows what is in it: no key outlives its retention for long, whatever became of it.
func TestMemorySlides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t, store.WithLease(time.Second), store.WithRetention(time.Minute))
		for i := range 10_000 {
			key := fmt.Sprintf("order-%d", i)
			c, err := m.Claim(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			switch i % 4 {
			case 0:
				err = c.Confirm(t.Context())
			case 1:
				err = c.Forget(t.Context())
			case 2:
				err = c.Extend(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			if n := m.Len(); n > 650 {
				t.Fatalf("%d keys are kept, want about the 450 of the last minute", n)
			}
		}
	})
}

func TestMemoryForgetsAKeyAfterItsRetentionToTheMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t, store.WithLease(time.Second), store.WithRetention(time.Minute))
		if err := m.Confirm(t.Context(), "order-1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - time.Nanosecond)
		if first, err := m.FirstTime(t.Context(), "order-1"); first || err != nil {
			t.Errorf("before the end of its retention: %v, %v", first, err)
		}
		if _, err := m.Get(t.Context(), "order-1"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := m.Get(t.Context(), "order-1"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after it: %v, want ErrNotFound", err)
		}
	})
}

// FirstTime remembers what it claimed, for Forget. That must not grow for ever where nobody calls it.
func TestFirstTimeForgetsItsOwnClaimsAfterTheirLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t, store.WithLease(time.Second), store.WithRetention(2*time.Second))
		for i := range 1000 {
			if first, err := m.FirstTime(t.Context(), fmt.Sprintf("order-%d", i)); !first || err != nil {
				t.Fatal(first, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := m.OwnClaims(); n > 12 {
			t.Errorf("%d own claims are remembered, want about the 10 of the last lease", n)
		}
	})
}

func TestErrorsSayWhatFailedOnWhichKey(t *testing.T) {
	m := memory(t)
	payments, err := m.Scope("payments")
	if err != nil {
		t.Fatal(err)
	}
	_, err = payments.Claim(t.Context(), strings.Repeat("k", 300))
	var e *store.Error
	if !errors.As(err, &e) || e.Op != "claim" || e.Scope != "payments" || !errors.Is(err, store.ErrInvalidKey) {
		t.Errorf("%#v", err)
	}
	if text := err.Error(); !strings.Contains(text, "300 bytes") || !strings.Contains(text, "at most 255") || !strings.Contains(text, "hash") {
		t.Errorf("%s: want it to say what is wrong and what to do", text)
	}
}

func TestOutcomesAreNamed(t *testing.T) {
	for outcome, want := range map[store.Outcome]string{
		store.First: "first", store.TakenOver: "taken over", store.InProgress: "in progress", store.Duplicate: "duplicate", 0: "unknown",
	} {
		if got := outcome.String(); got != want {
			t.Errorf("Outcome(%d) is %q, want %q", outcome, got, want)
		}
	}
}

func TestMemoryTakesNoPartInTransactions(t *testing.T) {
	m := memory(t)
	c, err := m.Claim(t.Context(), "order-1")
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"of a claim": c.ConfirmTx(t.Context(), nil), "by key": m.ConfirmTx(t.Context(), nil, "order-2"),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("ConfirmTx %s: %v, want ErrUnsupported", name, err)
		}
	}
}

func memory(t *testing.T, options ...store.Option) *store.Memory {
	t.Helper()
	m, err := store.NewMemory(options...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
