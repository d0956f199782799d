package histories

import (
	"database/sql"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	_ "modernc.org/sqlite"             // driver "sqlite"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/dialects/mysql"
	"github.com/firsttime-go/firsttime/dialects/postgres"
	"github.com/firsttime-go/firsttime/dialects/sqlite"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/tests/servers"
)

// database is one kind of database.
type database struct {
	name    string
	driver  string
	dialect dialects.Dialect
	dsn     func(tb testing.TB) string // of a database of its own
	sites   int                        // how many of them are used at once
}

func databases() []database {
	server := func(kind servers.Kind) func(tb testing.TB) string {
		return func(tb testing.TB) string { return servers.Shared(tb, kind).Database(tb) }
	}
	return []database{
		{"SQLite", "sqlite", sqlite.Dialect, sqliteFile("immediate"), 4},
		{"PostgreSQL", "pgx", postgres.Dialect, server(servers.Postgres), 6},
		{"MariaDB", "mysql", mysql.Dialect, server(servers.MariaDB), 6},
		{"MySQL", "mysql", mysql.Dialect, server(servers.MySQL), 6},
	}
}

func sqliteFile(txlock string) func(tb testing.TB) string {
	return func(tb testing.TB) string {
		return "file:" + filepath.Join(tb.TempDir(), "keys.db") +
			"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=" + txlock
	}
}

// mostClients is the number of clients of the largest history.
const mostClients = 5

// site is a database and the clients that work on it in one history after the other. They share nothing but
// the database: each has a store and connections of its own.
type site struct {
	pools  [mostClients]*sql.DB
	stores [mostClients]*store.SQL
}

func (d database) site(tb testing.TB) *site {
	tb.Helper()
	dsn, s := d.dsn(tb), new(site)
	for i := range s.pools {
		db, err := sql.Open(d.driver, dsn)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { db.Close() })
		s.pools[i] = db
		if i == 0 {
			if err := migrations.Up(tb.Context(), db, d.dialect); err != nil {
				tb.Fatal(err)
			}
		}
		s.stores[i], err = store.New(db, d.dialect, store.WithTimeout(30*time.Second), store.WithWorker(strconv.Itoa(i)))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := s.stores[i].Close(); err != nil {
				tb.Error(err)
			}
		})
	}
	return s
}
