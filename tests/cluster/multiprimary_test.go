//go:build proof

package cluster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
	mysqldialect "github.com/firsttime-go/firsttime/dialects/mysql"
	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/tests/servers"
)

var discard = slog.New(slog.DiscardHandler)

// Any node may write, and the losers of a race are told late, at the commit.

func TestGalera(t *testing.T) {
	testMultiPrimary(t, "MariaDB Galera", 10*time.Millisecond, servers.StartGalera)
}

// The group does not wait for a node that comes back, which has to do what it missed faster than the others add to it.
func TestGroupReplication(t *testing.T) {
	testMultiPrimary(t, "MySQL Group Replication", 50*time.Millisecond, servers.StartGroupReplication)
}

func testMultiPrimary(t *testing.T, name string, pace time.Duration, start func(context.Context) (*servers.Cluster, error)) {
	c, err := start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, n := range c.Nodes {
			_ = n.Kill()
		}
	})
	s := multiPrimary(t, name, c)
	s.pace = pace
	t.Run("one node wins each key", func(t *testing.T) { testOneNodeWinsEachKey(t, s) })
	t.Run("undisturbed", func(t *testing.T) {
		l := startLoad(t, s)
		l.disturb(*rounds, func() {})
		l.settle("none")
	})
	t.Run("a node is killed and rejoins", func(t *testing.T) { testKill(t, s, c) })
	t.Run("a node is cut off and comes back", func(t *testing.T) { testCut(t, s, c) })
	t.Run("a node is cut off within a transaction", func(t *testing.T) { testCutWithinTransaction(t, s, c) })
}

// multiPrimary makes the tables and a store on every node.
func multiPrimary(t *testing.T, name string, c *servers.Cluster) *site {
	t.Helper()
	s := &site{database: name, insert: "INSERT INTO charges (order_id) VALUES (?)"}
	for i, dsn := range c.Database(t) {
		name, db := fmt.Sprint(i+1), open(t, "mysql", dsn)
		if i == 0 {
			migrate(t, db, mysqldialect.Dialect,
				"CREATE TABLE charges (id BIGINT AUTO_INCREMENT PRIMARY KEY, order_id VARCHAR(255) NOT NULL)")
		}
		poll(t, "the tables on node "+name, func() bool {
			_, err := db.ExecContext(t.Context(), "SELECT 1 FROM charges, firsttime_keys")
			return err == nil
		})
		s.nodes = append(s.nodes, newNode(t, name, db, mysqldialect.Dialect))
	}
	return s
}

// All nodes claim each key at the same moment: one of them is first, and the others find it in progress.
func testOneNodeWinsEachKey(t *testing.T, s *site) {
	const keys = 300
	failures := make(map[string]int)
	for i := range keys {
		key := fmt.Sprintf("race-%d", i)
		claims := make([]*store.Claim, len(s.nodes))
		errs := make([]error, len(s.nodes))
		var ready, race sync.WaitGroup
		ready.Add(len(s.nodes))
		for k, n := range s.nodes {
			race.Go(func() {
				ready.Done()
				ready.Wait()
				claims[k], errs[k] = n.payments.Claim(t.Context(), key)
			})
		}
		race.Wait()
		first := 0
		for k := range s.nodes {
			switch {
			case errs[k] != nil:
				failures[cause(errs[k])]++
			case claims[k].Outcome() == store.First:
				first++
			case claims[k].Outcome() != store.InProgress:
				t.Errorf("%s on node %s: %v", key, s.nodes[k].name, claims[k].Outcome())
			}
		}
		if first != 1 {
			t.Errorf("%s has %d holders, want one", key, first)
		}
	}
	if len(failures) != 0 {
		t.Errorf("claims failed: %s", list(failures))
	}
}

func testKill(t *testing.T, s *site, c *servers.Cluster) {
	l := startLoad(t, s)
	victim := 0
	l.disturb(*rounds, func() {
		victim = (victim + 1) % len(c.Nodes)
		if err := c.Nodes[victim].Kill(); err != nil {
			t.Fatal(err)
		}
		l.advance() // without the node
		if err := c.Rejoin(t.Context(), victim); err != nil {
			t.Fatal(err)
		}
	})
	l.settle("a node is killed and rejoins")
}

func testCut(t *testing.T, s *site, c *servers.Cluster) {
	l := startLoad(t, s)
	victim := 1
	l.disturb(*rounds, func() {
		victim = (victim + 1) % len(c.Nodes)
		n := s.nodes[victim]
		cutOff(t, n, c, victim)
		for i := range 5 {
			claim, err := n.payments.Claim(t.Context(), fmt.Sprintf("minority-%d", i))
			switch {
			case err == nil:
				t.Errorf("the node that is cut off says %v", claim.Outcome())
			case !errors.Is(err, dialects.ErrRetryable) && !errors.Is(err, dialects.ErrOutcomeUnknown):
				t.Errorf("the node that is cut off says %v, which is not expected to heal", err)
			default:
				t.Logf("the node that is cut off says %v", err)
			}
		}
		l.advance() // in the majority
		mend(t, n, c, victim)
	})
	l.settle("a node is cut off and comes back")
}

// cutOff cuts a node off and waits until it and the others have noticed.
func cutOff(t *testing.T, n *node, c *servers.Cluster, i int) {
	t.Helper()
	if err := c.Cut(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	poll(t, "the node that is cut off to notice", func() bool {
		members, err := c.Members(t.Context(), i)
		return err == nil && members < 2
	})
	now := time.Now()
	n.alone.Store(&now)
	if err := c.Await(t.Context(), len(c.Nodes)-1); err != nil {
		t.Fatal(err)
	}
}

func mend(t *testing.T, n *node, c *servers.Cluster, i int) {
	t.Helper()
	n.alone.Store(nil)
	if err := c.Mend(t.Context(), i); err != nil {
		t.Fatal(err)
	}
}

// A node that is cut off refuses even ROLLBACK, so a transaction that was begun before stays open. What it did must
// not be committed by whatever uses its connection next.
func testCutWithinTransaction(t *testing.T, s *site, c *servers.Cluster) {
	s.clear(t)
	const victim = 2
	n := s.nodes[victim]
	n.db.SetMaxOpenConns(1)
	defer n.db.SetMaxOpenConns(0)
	claim, err := n.payments.Claim(t.Context(), "interrupted")
	if err != nil {
		t.Fatal(err)
	}
	err = claim.InTx(t.Context(), n.db, func(tx *sql.Tx) error {
		if err := s.charge(t.Context(), tx, "interrupted"); err != nil {
			return err
		}
		cutOff(t, n, c, victim)
		return nil
	})
	if err == nil {
		t.Fatal("the node that is cut off confirmed a key")
	}
	t.Logf("the transaction ended with %v", err)
	mend(t, n, c, victim)

	next, err := n.payments.Claim(t.Context(), "next")
	if err != nil {
		t.Fatal(err)
	}
	if err := next.InTx(t.Context(), n.db, func(tx *sql.Tx) error { return s.charge(t.Context(), tx, "next") }); err != nil {
		t.Fatal(err)
	}
	want := tally{charges: 1, charged: 1, confirmed: 1, claimed: 1}
	for _, n := range s.nodes {
		var have tally
		poll(t, "node "+n.name+" to have the second charge", func() bool {
			have = n.tally(t)
			return have.confirmed > 0
		})
		if have != want {
			t.Errorf("node %s has %+v, want %+v", n.name, have, want)
		}
	}
}
