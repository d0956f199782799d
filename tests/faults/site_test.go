package faults

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	_ "modernc.org/sqlite"             // driver "sqlite"

	"github.com/firsttime-go/firsttime/dialects"
	mysqldialect "github.com/firsttime-go/firsttime/dialects/mysql"
	"github.com/firsttime-go/firsttime/dialects/postgres"
	"github.com/firsttime-go/firsttime/dialects/sqlite"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/tests/servers"
)

// database is a kind of database and how to reach it.
type database struct {
	name    string
	driver  string
	dialect dialects.Dialect
	server  servers.Kind // "" for SQLite
}

var (
	postgresDB = database{name: "PostgreSQL", driver: "pgx", dialect: postgres.Dialect, server: servers.Postgres}
	mariaDB    = database{name: "MariaDB", driver: "mysql", dialect: mysqldialect.Dialect, server: servers.MariaDB}
	mySQL      = database{name: "MySQL", driver: "mysql", dialect: mysqldialect.Dialect, server: servers.MySQL}
	sqliteDB   = database{name: "SQLite", driver: "sqlite", dialect: sqlite.Dialect}
)

func withServers() []database { return []database{postgresDB, mariaDB, mySQL} }

func everyDatabase() []database { return append(withServers(), sqliteDB) }

// site is a database with the tables of a load.
type site struct {
	database
	server *servers.Server
	dsn    string  // of what the load uses
	direct *sql.DB // of an administrator, past all that stands in the load's way
	charge charge
}

// newSite makes a site in a database of its own on server.
func newSite(t *testing.T, d database, server *servers.Server) *site {
	t.Helper()
	return (&site{database: d, server: server, dsn: server.Database(t)}).prepared(t)
}

// sharedSite makes a site on the server that all tests share, or in a file of its own.
func sharedSite(t *testing.T, d database) *site {
	t.Helper()
	if d.server == "" {
		return fileSite(t, t.TempDir())
	}
	return newSite(t, d, servers.Shared(t, d.server))
}

// fileSite makes a site of SQLite in a directory.
func fileSite(t *testing.T, dir string) *site {
	t.Helper()
	dsn := "file:" + filepath.Join(dir, "load.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate"
	return (&site{database: sqliteDB, dsn: dsn}).prepared(t)
}

// prepared makes the tables of a load, and returns s.
func (s *site) prepared(t *testing.T) *site {
	t.Helper()
	s.charge = charging(500, 2*time.Millisecond)
	s.direct = s.open(t, s.dsn)
	if err := migrations.Up(t.Context(), s.direct, s.dialect); err != nil {
		t.Fatal(err)
	}
	s.execute(t, "CREATE TABLE charges (order_id VARCHAR(40) NOT NULL, note TEXT NOT NULL)")
	return s
}

// open opens dsn and closes it at the end of the test.
func (s *site) open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := s.connect(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (d database) connect(dsn string) (*sql.DB, error) {
	db, err := sql.Open(d.driver, dsn)
	if err == nil {
		db.SetMaxIdleConns(16)
	}
	return db, err
}

// execute runs a statement as an administrator.
func (s *site) execute(t *testing.T, statement string) {
	t.Helper()
	if _, err := s.direct.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (s *site) count(t *testing.T, query string) (n int) {
	t.Helper()
	if err := s.direct.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (s *site) text(t *testing.T, query string) (text string) {
	t.Helper()
	if err := s.direct.QueryRowContext(t.Context(), query).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text
}

// unprivileged lets the load use the database as a user without privileges, who is held to limits that an
// administrator is not held to.
func (s *site) unprivileged(t *testing.T) {
	t.Helper()
	const name = "app"
	if s.driver == "mysql" {
		s.execute(t, "CREATE USER IF NOT EXISTS "+name)
		s.execute(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+s.withConfig(t, func(c *mysql.Config) { c.User = name }).DBName+".* TO "+name)
		return
	}
	if s.count(t, "SELECT COUNT(*) FROM pg_roles WHERE rolname = '"+name+"'") == 0 {
		s.execute(t, "CREATE ROLE "+name+" LOGIN")
	}
	s.execute(t, "GRANT ALL ON ALL TABLES IN SCHEMA public TO "+name)
	s.withURL(t, func(u *url.URL) { u.User = url.User(name) })
}

// withSettings adds settings of the load's sessions to its DSN.
func (s *site) withSettings(t *testing.T, settings map[string]string) {
	t.Helper()
	if s.driver == "mysql" {
		s.withConfig(t, func(c *mysql.Config) { c.Params = settings })
		return
	}
	s.withURL(t, func(u *url.URL) {
		query := u.Query()
		for name, value := range settings {
			query.Set(name, value)
		}
		u.RawQuery = query.Encode()
	})
}

// through leads the load to another address and returns the one before.
func (s *site) through(t *testing.T, address string) (server string) {
	t.Helper()
	if s.driver == "mysql" {
		s.withConfig(t, func(c *mysql.Config) { server, c.Addr = c.Addr, address })
	} else {
		s.withURL(t, func(u *url.URL) { server, u.Host = u.Host, address })
	}
	return server
}

func (s *site) withConfig(t *testing.T, change func(c *mysql.Config)) *mysql.Config {
	t.Helper()
	c, err := mysql.ParseDSN(s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(c)
	s.dsn = c.FormatDSN()
	return c
}

func (s *site) withURL(t *testing.T, change func(u *url.URL)) {
	t.Helper()
	u, err := url.Parse(s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	u.RawQuery = strings.ReplaceAll(u.RawQuery, "+", "%20") // libpq's URLs know no plus
	s.dsn = u.String()
}
