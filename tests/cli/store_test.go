package cli

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	_ "modernc.org/sqlite"             // driver "sqlite"

	"github.com/firsttime-go/firsttime/dialects/mysql"
	"github.com/firsttime-go/firsttime/dialects/postgres"
	"github.com/firsttime-go/firsttime/dialects/sqlite"
	"github.com/firsttime-go/firsttime/store"
)

// storeOf is a store in the database that --db names, for what would need thousands of commands. It forgets what it
// records within a second.
func storeOf(t *testing.T, dsn string) *store.SQL {
	t.Helper()
	driver, dialect := "mysql", mysql.Dialect
	if file, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		driver, dialect = "sqlite", sqlite.Dialect
		dsn = "file:" + file + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate"
	} else if strings.HasPrefix(dsn, "postgres:") {
		driver, dialect = "pgx", postgres.Dialect
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := store.New(db, dialect, store.WithLease(500*time.Millisecond), store.WithRetention(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
