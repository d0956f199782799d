package tests

import (
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/store/storetest"
	"github.com/firsttime-go/firsttime/tests/servers"
)

// The clocks of the processes and of the database may be hours apart: the whole contract holds.
func TestAClockThatIsOffChangesNothing(t *testing.T) {
	for _, base := range []struct {
		database
		kind servers.Kind
	}{{postgresDB, servers.Postgres}, {mariaDB, servers.MariaDB}} {
		for name, offset := range map[string]time.Duration{"an hour ahead": time.Hour, "an hour behind": -time.Hour} {
			t.Run(base.name+" "+name, func(t *testing.T) {
				t.Parallel()
				server, err := servers.StartWithClock(t.Context(), base.kind, offset)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := server.Stop(); err != nil {
						t.Error(err)
					}
				})
				d := base.database
				d.dsn = func(tb testing.TB) string { return server.Database(tb) }
				db, _ := d.migrated(t)
				query := "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS bigint)"
				if d.driver == "mysql" {
					query = "SELECT UNIX_TIMESTAMP()"
				}
				if off := time.Duration(int64(count(t, db, query))-time.Now().Unix()) * time.Second; (off - offset).Abs() > time.Minute {
					t.Fatalf("the server's clock is off by %v, want %v: this test shows nothing", off, offset)
				}
				const lease, retention = time.Second, 5 * time.Second
				open := func(options ...store.Option) storetest.Open {
					return func(t *testing.T) store.Store { return d.store(t, db, options...) }
				}
				storetest.Run(t, open(),
					storetest.Expiring(lease, retention, open(store.WithLease(lease), store.WithRetention(retention))),
					storetest.Transactions(db))
			})
		}
	}
}
