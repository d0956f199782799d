package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
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

// A claim whose transaction is being committed is not given back: the next delivery would do the work once more.
func TestAClaimOfMemoryIsNotGivenBackWhileItsTransactionIsCommitted(t *testing.T) {
	m, err := store.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Claim(t.Context(), "order-1")
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(onCommit(func() error { return c.Forget(t.Context()) }))
	defer db.Close()
	if err := c.InTx(t.Context(), db, func(*sql.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	if again, err := m.Claim(t.Context(), "order-1"); err != nil || again.Outcome() != store.Duplicate {
		t.Errorf("%v, %v; want a duplicate", again, err)
	}
}

// onCommit is a database of which nothing is known but that it is called when a transaction is committed.
type onCommit func() error

func (c onCommit) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (c onCommit) Driver() driver.Driver                        { return nil }
func (c onCommit) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (c onCommit) Close() error                                 { return nil }
func (c onCommit) Begin() (driver.Tx, error)                    { return c, nil }
func (c onCommit) Commit() error                                { return c() }
func (c onCommit) Rollback() error                              { return nil }
