//go:build proof

package cluster

import (
	"database/sql"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/firsttime-go/firsttime/dialects/postgres"
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
			database: name, insert: "INSERT INTO charges (order_id) VALUES ($1)",
			nodes: []*node{newNode(t, "that can be written to", db, postgres.Dialect)},
		},
		primary: primary, standby: standby,
		replica: open(t, "pgx", strings.Replace(dsn, host(t, dsn), host(t, standby.URL()), 1)),
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

// What the standby had not received is gone, the key together with the effect: they agree, and whoever is told of
// the message again does its work again, once. Nobody else tells: the message was acknowledged.
func TestAnAsynchronousStandbyLosesKeysAndEffectsTogether(t *testing.T) {
	for range *rounds {
		p := newPair(t, "PostgreSQL, asynchronous standby")
		l := startLoad(t, p.site)
		l.advance(100)
		if err := p.standby.StopReceiving(t.Context()); err != nil {
			t.Fatal(err)
		}
		received := p.copied(t)
		l.advance(100) // which the standby does not see
		if err := p.primary.Kill(); err != nil {
			t.Fatal(err)
		}
		accepted := l.broker.accepted()
		if err := p.standby.Promote(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.advance(100)
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
		l.settle("the same; what was lost is delivered again")
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
