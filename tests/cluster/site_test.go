//go:build proof

package cluster

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
)

// site is a database on several nodes.
type site struct {
	database string
	nodes    []*node
	insert   string        // of a charge of an order
	pace     time.Duration // between two orders
}

// node is one server as its consumers see it.
type node struct {
	name     string
	db       *sql.DB
	keys     *store.SQL
	payments *store.Scoped
	// alone is since when the node knows that it is cut off, nil while it is not.
	alone atomic.Pointer[time.Time]
}

// newNode makes a store on a node that has the tables.
func newNode(t *testing.T, name string, db *sql.DB, d dialects.Dialect, options ...store.Option) *node {
	t.Helper()
	n := &node{name: name, db: db}
	options = append(options, store.WithLease(lease), store.WithTimeout(timeLimit), store.WithWorker("node "+name))
	var err error
	if n.keys, err = store.New(db, d, options...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.keys.Close() })
	if n.payments, err = n.keys.Scope("payments"); err != nil {
		t.Fatal(err)
	}
	return n
}

// open opens a database for the consumers of a node.
func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(2 * consumers)
	t.Cleanup(func() { db.Close() })
	return db
}

// migrate makes the tables of the keys and of the charges.
func migrate(t *testing.T, db *sql.DB, d dialects.Dialect, charges string) {
	t.Helper()
	if err := migrations.Up(t.Context(), db, d); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), charges); err != nil {
		t.Fatal(err)
	}
}

// charge is the work: nothing in the table keeps an order from being charged twice.
func (s *site) charge(ctx context.Context, tx *sql.Tx, key string) error {
	_, err := tx.ExecContext(ctx, s.insert, key)
	return err
}

// clear removes the keys and charges of former tests.
func (s *site) clear(t *testing.T) {
	t.Helper()
	for _, table := range []string{"charges", "firsttime_keys"} {
		poll(t, "the end of former tests", func() bool { // which a DELETE may still collide with
			_, err := s.nodes[0].db.ExecContext(t.Context(), "DELETE FROM "+table)
			return err == nil
		})
	}
}

// tally is what a node has.
type tally struct{ charges, charged, confirmed, claimed int }

// tally returns the zero tally while the node does not answer.
func (n *node) tally(t *testing.T) (have tally) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	defer cancel()
	err := n.db.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM charges), (SELECT COUNT(DISTINCT order_id) FROM charges),
		(SELECT COUNT(*) FROM firsttime_keys WHERE state = 'CONFIRMED'), (SELECT COUNT(*) FROM firsttime_keys WHERE state = 'CLAIMED')`).
		Scan(&have.charges, &have.charged, &have.confirmed, &have.claimed)
	if err != nil {
		return tally{}
	}
	return have
}

func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}
