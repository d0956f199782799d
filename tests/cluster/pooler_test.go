//go:build proof

package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/dialects/postgres"
	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/tests/servers"
)

// A pooler in transaction mode gives each transaction another process of the server.
func TestPgbouncer(t *testing.T) {
	for _, way := range []struct {
		name    string
		start   func(ctx context.Context, behind *servers.Server) (*servers.Server, error)
		dsn     string
		options []store.Option
	}{
		{
			"without prepared statements", servers.StartPgbouncer,
			"&default_query_exec_mode=simple_protocol", []store.Option{store.WithoutPreparedStatements()},
		},
		{"with max_prepared_statements", servers.StartPgbouncerWithStatements, "", nil},
	} {
		t.Run(way.name, func(t *testing.T) {
			server, err := servers.Start(t.Context(), servers.Postgres)
			if err != nil {
				t.Fatal(err)
			}
			pooler, err := way.start(t.Context(), server)
			if err != nil {
				t.Fatal(err)
			}
			direct := server.Database(t)
			migrate(t, open(t, "pgx", direct), postgres.Dialect, postgresCharges)
			db := open(t, "pgx", pooler.At(t, direct)+way.dsn)
			s := &site{
				database: "PostgreSQL through pgbouncer, " + way.name, pace: 10 * time.Millisecond,
				insert: "INSERT INTO charges (order_id) VALUES ($1)",
				nodes:  []*node{newNode(t, "behind pgbouncer", db, postgres.Dialect, way.options...)},
			}
			for fault, victim := range map[string]*servers.Server{"pooler": pooler, "server": server} {
				t.Run(fault, func(t *testing.T) {
					l := startLoad(t, s)
					l.disturb(*rounds, func() {
						if err := victim.Kill(); err != nil {
							t.Fatal(err)
						}
						if err := victim.Restart(t.Context()); err != nil {
							t.Fatal(err)
						}
					})
					l.settle("the " + fault + " is killed and restarted")
				})
			}
		})
	}
}
