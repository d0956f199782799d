package store_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/store/storetest"
)

func TestMemoryConformance(t *testing.T) {
	const lease, retention = time.Second, 3 * time.Second
	storetest.Run(t, shared(t),
		storetest.Expiring(lease, retention, shared(t, store.WithLease(lease), store.WithRetention(retention))))
}

// shared makes all workers of a suite use one store in memory, each by a scope of its own making.
func shared(t *testing.T, options ...store.Option) storetest.Open {
	t.Helper()
	m, err := store.NewMemory(options...)
	if err != nil {
		t.Fatal(err)
	}
	return func(*testing.T) store.Store { return m }
}

// Whoever calls InTx twice at once has two transactions, of which one is committed.
func TestOfTwoTransactionsOfAClaimOfMemoryOneIsCommitted(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "work.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m, err := store.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Claim(t.Context(), "order-1")
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(*sql.Tx) error { return nil }
	outer := c.InTx(t.Context(), db, func(*sql.Tx) error { return c.InTx(t.Context(), db, nothing) })
	if !errors.Is(outer, store.ErrConfirmed) || !c.Confirmed() {
		t.Errorf("the second to end: %v, want ErrConfirmed", outer)
	}
}
