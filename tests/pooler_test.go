package tests

import (
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/store/storetest"
	"github.com/firsttime-go/firsttime/tests/servers"
)

// throughPgbouncer is a database behind a pgbouncer in transaction mode, and its DSN with the given way to
// execute statements. It is migrated past the pooler: a lock of a session means nothing in such a pooler.
func throughPgbouncer(t *testing.T, mode string) (database, string) {
	t.Helper()
	server := servers.Shared(t, servers.Postgres)
	pooler, err := servers.StartPgbouncer(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pooler.Stop() })
	direct := server.Database(t)
	if err := migrations.Up(t.Context(), postgresDB.open(t, direct), postgresDB.dialect); err != nil {
		t.Fatal(err)
	}
	return postgresDB, withQuery(t, pooler.At(t, direct), "default_query_exec_mode", mode)
}

func TestConformanceThroughPgbouncer(t *testing.T) {
	for _, mode := range []string{"simple_protocol", "exec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			const lease, retention = time.Second, 5 * time.Second
			d, dsn := throughPgbouncer(t, mode)
			db := d.open(t, dsn)
			open := func(options ...store.Option) storetest.Open {
				return func(t *testing.T) store.Store {
					return d.store(t, db, append(options, store.WithoutPreparedStatements())...)
				}
			}
			storetest.Run(t, open(),
				storetest.Expiring(lease, retention, open(store.WithLease(lease), store.WithRetention(retention))),
				storetest.Transactions(db))
		})
	}
}

// Through a pooler, preparing statements may go well by luck, if only the store prepares them, and fails if the
// driver does so by itself. Who prepares nothing is told nothing.
func TestCheckFindsThePoolerWhereStatementsArePrepared(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode    string
		options []store.Option
		want    dialects.Level // 0: nothing
	}{
		{"simple_protocol", nil, store.Warning},
		{"simple_protocol", []store.Option{store.WithoutPreparedStatements()}, 0},
		{"cache_statement", nil, store.Fault},
		{"cache_statement", []store.Option{store.WithoutPreparedStatements()}, store.Fault},
	} {
		d, dsn := throughPgbouncer(t, test.mode)
		findings, err := store.Check(t.Context(), d.open(t, dsn), d.dialect, test.options...)
		if err != nil {
			t.Fatalf("%+v: %v", test, err)
		}
		var got dialects.Level
		for _, f := range findings {
			switch {
			case f.Check == "pooler":
				got = f.Level
				if f.Remedy == "" {
					t.Errorf("no remedy: %+v", f)
				}
			case f.Level != store.Note:
				t.Errorf("%+v: %+v", test, f)
			}
		}
		if got != test.want {
			t.Errorf("%s, %d options: %v about the pooler, want %v: %+v", test.mode, len(test.options), got, test.want, findings)
		}
	}
}
