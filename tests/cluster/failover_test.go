//go:build proof

package cluster

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/dialects/postgres"
	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/tests/servers"
)

const postgresCharges = "CREATE TABLE charges (id BIGSERIAL PRIMARY KEY, order_id TEXT NOT NULL)"

// pair is a PostgreSQL server and its standby. Clients have both addresses, and look for the one that can be
// written to.
type pair struct {
	*site
	primary, standby *servers.Server
	replica          *sql.DB // the standby's copy
}

func newPair(t *testing.T, name string) *pair {
	t.Helper()
	primary, err := servers.Start(t.Context(), servers.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	standby, err := servers.StartStandby(t.Context(), primary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Kill() })
	dsn := primary.Database(t)
	both := strings.Replace(dsn, host(t, dsn), host(t, dsn)+","+host(t, standby.URL()), 1) + "&target_session_attrs=read-write"
	db := open(t, "pgx", both)
	migrate(t, db, postgres.Dialect, postgresCharges)
	return &pair{
		site: &site{
			database: name, insert: "INSERT INTO charges (order_id) VALUES ($1)", pace: 10 * time.Millisecond,
			nodes: []*node{newNode(t, "that can be written to", db, postgres.Dialect)},
		},
		primary: primary, standby: standby,
		replica: open(t, "pgx", standby.At(t, dsn)),
	}
}

func host(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func (p *pair) failOver(t *testing.T) {
	t.Helper()
	if err := p.primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What was committed is on the standby: nobody was told so before.
func TestASynchronousStandbyHasEverything(t *testing.T) {
	for range *rounds {
		p := newPair(t, "PostgreSQL, synchronous standby")
		if err := p.primary.RequireStandby(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := startLoad(t, p.site)
		l.disturb(1, func() { p.failOver(t) })
		l.settle("the primary is killed and its standby promoted")
	}
}

// A COMMIT that waits for the standby when its caller has had enough is not done: who was told otherwise would take
// the message for handled, and lose it in the failover.
func TestNobodyIsToldOfACommitThatTheStandbyLacks(t *testing.T) {
	p := newPair(t, "PostgreSQL, synchronous standby")
	if err := p.primary.RequireStandby(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := p.nodes[0]
	charge := func(ctx context.Context, claim *store.Claim, before func() error) error {
		return claim.InTx(ctx, n.db, func(tx *sql.Tx) error {
			return errors.Join(p.charge(t.Context(), tx, "order"), before())
		})
	}
	first, err := n.payments.Claim(t.Context(), "order")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	err = charge(ctx, first, func() error {
		err := p.standby.StopReceiving(t.Context())
		time.AfterFunc(time.Second, stop) // while it is committed
		return err
	})
	if !errors.Is(err, store.ErrCommitUnknown) {
		t.Errorf("InTx returned %v, want ErrCommitUnknown", err)
	}
	for end := time.Now().Add(2 * lease); time.Now().Before(end); time.Sleep(lease / 10) {
		if again, err := n.payments.Claim(t.Context(), "order"); err == nil && again.Outcome() != store.InProgress {
			t.Fatalf("a redelivery is told %v", again.Outcome())
		}
	}
	p.failOver(t)
	var again *store.Claim
	poll(t, "a claim after the failover", func() bool {
		again, err = n.payments.Claim(t.Context(), "order")
		return err == nil && again.Outcome().Held()
	})
	if err := charge(t.Context(), again, func() error { return nil }); err != nil {
		t.Error(err)
	}
	if have, want := n.tally(t), (tally{charges: 1, charged: 1, confirmed: 1}); have != want {
		t.Errorf("the new primary has %+v, want %+v", have, want)
	}
}

// What the standby had not received is gone, the key together with the effect: they agree, and whoever is told of
// the message again does its work again, once. Nobody else tells: the message was acknowledged.
func TestAnAsynchronousStandbyLosesKeysAndEffectsTogether(t *testing.T) {
	for range *rounds {
		p := newPair(t, "PostgreSQL, asynchronous standby")
		l := startLoad(t, p.site)
		l.advance()
		if err := p.standby.StopReceiving(t.Context()); err != nil {
			t.Fatal(err)
		}
		received := p.copied(t)
		l.advance() // which the standby does not see
		if err := p.primary.Kill(); err != nil {
			t.Fatal(err)
		}
		accepted := l.broker.accepted()
		if err := p.standby.Promote(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.advance()
		l.rest()

		now := p.copied(t)
		lost := missing(accepted, now)
		if len(lost) == 0 {
			t.Error("nothing was lost: this showed nothing")
		}
		for _, order := range lost {
			if received[order] {
				t.Errorf("%s was lost, although the standby had it", order)
			}
		}
		t.Logf("of %d orders that were accepted before the failover %d were lost, and the standby had %d", len(accepted), len(lost), len(received))
		l.broker.redeliver(lost)
		l.rounds++
		l.settle("the primary is killed and its standby promoted; what that lacked is delivered again")
	}
}

// copied is the orders that the standby has, and fails the test if it has a key without its effect, or an effect
// without its key.
func (p *pair) copied(t *testing.T) map[string]bool {
	t.Helper()
	tx, err := p.replica.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it only reads
	charged := column(t, tx, "SELECT order_id FROM charges")
	confirmed := column(t, tx, "SELECT message_id FROM firsttime_keys WHERE state = 'CONFIRMED'")
	if !maps.Equal(charged, confirmed) {
		t.Errorf("charged without a key: %v; confirmed without a charge: %v",
			missing(charged, confirmed), missing(confirmed, charged))
	}
	return charged
}

func missing(from, in map[string]bool) (keys []string) {
	for key := range from {
		if !in[key] {
			keys = append(keys, key)
		}
	}
	return slices.Sorted(slices.Values(keys))
}

func column(t *testing.T, tx *sql.Tx, query string) map[string]bool {
	t.Helper()
	rows, err := tx.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := make(map[string]bool)
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
		found[value] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}
