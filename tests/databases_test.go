package tests

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	_ "github.com/lib/pq"              // driver "postgres"
	_ "modernc.org/sqlite"             // driver "sqlite"

	"github.com/firsttime-go/firsttime/dialects"
	mysqldialect "github.com/firsttime-go/firsttime/dialects/mysql"
	"github.com/firsttime-go/firsttime/dialects/postgres"
	"github.com/firsttime-go/firsttime/dialects/sqlite"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/tests/servers"
)

// database is one way to reach one kind of database.
type database struct {
	name    string
	driver  string
	dialect dialects.Dialect
	server  servers.Kind               // "" where there is none
	dsn     func(tb testing.TB) string // of a database of its own, empty and dropped at the end
	options []store.Option
}

const sqliteSettings = "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate"

func sqliteDSN(tb testing.TB) string {
	return "file:" + filepath.Join(tb.TempDir(), "keys.db") + sqliteSettings
}

func serverDSN(kind servers.Kind) func(tb testing.TB) string {
	return func(tb testing.TB) string { return servers.Shared(tb, kind).Database(tb) }
}

// The plain way to reach each database: what most tests run against.
var (
	sqliteDB   = database{name: "SQLite", driver: "sqlite", dialect: sqlite.Dialect, dsn: sqliteDSN}
	postgresDB = database{name: "PostgreSQL", driver: "pgx", dialect: postgres.Dialect, server: servers.Postgres, dsn: serverDSN(servers.Postgres)}
	mariaDB    = database{name: "MariaDB", driver: "mysql", dialect: mysqldialect.Dialect, server: servers.MariaDB, dsn: serverDSN(servers.MariaDB)}
	mySQL      = database{name: "MySQL", driver: "mysql", dialect: mysqldialect.Dialect, server: servers.MySQL, dsn: serverDSN(servers.MySQL)}
)

func everyDatabase() []database { return []database{sqliteDB, postgresDB, mariaDB, mySQL} }

// variants are the settings of drivers, connections and stores under which the same must hold.
func variants() []database {
	pg := func(name, driver string, parameters ...string) database {
		d := postgresDB
		d.name, d.driver = "PostgreSQL "+name, driver
		d.dsn = func(tb testing.TB) string { return withQuery(tb, postgresDB.dsn(tb), parameters...) }
		return d
	}
	my := func(base database, name string, change func(c *mysql.Config)) database {
		d := base
		d.name = base.name + " " + name
		d.dsn = func(tb testing.TB) string { return withConfig(tb, base.dsn(tb), change) }
		return d
	}
	unprepared := func(d database) database {
		d.name += " unprepared"
		d.options = []store.Option{store.WithoutPreparedStatements()}
		return d
	}
	kiritimati, err := time.LoadLocation("Pacific/Kiritimati") // UTC+14
	if err != nil {
		panic(err)
	}
	strange := func(c *mysql.Config) {
		c.ParseTime = true
		c.Loc = kiritimati
		c.Params = map[string]string{"time_zone": "'-12:00'", "sql_mode": "''"}
	}
	everything := func(c *mysql.Config) {
		strange(c)
		c.ClientFoundRows = true
		c.InterpolateParams = true
	}
	return []database{
		sqliteDB,
		unprepared(sqliteDB),
		postgresDB,
		pg("pgx simple protocol", "pgx", "default_query_exec_mode", "simple_protocol", "TimeZone", "Pacific/Kiritimati"),
		unprepared(pg("pgx exec mode", "pgx", "default_query_exec_mode", "exec")),
		pg("lib/pq", "postgres", "TimeZone", "Pacific/Pago_Pago"),
		pg("repeatable read", "pgx", "default_transaction_isolation", "repeatable read"),
		// A table as small as here is read as a whole, which conflicts with whatever others write.
		pg("serializable", "pgx", "default_transaction_isolation", "serializable", "enable_seqscan", "off"),
		mariaDB,
		my(mariaDB, "clientFoundRows", func(c *mysql.Config) { c.ClientFoundRows = true }),
		my(mariaDB, "interpolateParams", func(c *mysql.Config) { c.InterpolateParams = true }),
		my(mariaDB, "parseTime, far time zones, sql_mode=''", strange),
		unprepared(my(mariaDB, "all of it", everything)),
		mySQL,
		my(mySQL, "all of it", everything),
	}
}

func withQuery(tb testing.TB, dsn string, parameters ...string) string {
	tb.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	q := u.Query()
	for i := 0; i < len(parameters); i += 2 {
		q.Set(parameters[i], parameters[i+1])
	}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // libpq's URLs know no plus
	return u.String()
}

func withConfig(tb testing.TB, dsn string, change func(c *mysql.Config)) string {
	tb.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	change(c)
	return c.FormatDSN()
}

// open opens dsn and closes it at the end of the test. A pool keeps its connections, as a consumer's does.
func (d database) open(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db, err := d.connect(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	return db
}

func (d database) connect(dsn string) (*sql.DB, error) {
	db, err := sql.Open(d.driver, dsn)
	if err == nil {
		db.SetMaxIdleConns(64)
	}
	return db, err
}

// migrated opens a new database that has the table.
func (d database) migrated(tb testing.TB) (db *sql.DB, dsn string) {
	tb.Helper()
	dsn = d.dsn(tb)
	db = d.open(tb, dsn)
	d.describe(tb, db)
	if err := migrations.Up(tb.Context(), db, d.dialect); err != nil {
		tb.Fatal(err)
	}
	return db, dsn
}

// describe notes what the test runs against, for the table of `make matrix`.
func (d database) describe(tb testing.TB, db *sql.DB) {
	tb.Helper()
	version, err := "", error(nil)
	if d.server != "" {
		version = servers.Shared(tb, d.server).Version()
	} else if version, err = sqliteVersion(tb.Context(), db); err != nil {
		tb.Fatal(err)
	}
	tb.Attr("database", version)
	tb.Attr("driver", reflect.TypeOf(db.Driver()).Elem().PkgPath())
}

func sqliteVersion(ctx context.Context, db *sql.DB) (version string, err error) {
	err = db.QueryRowContext(ctx, "SELECT 'SQLite ' || sqlite_version()").Scan(&version)
	return version, err
}

// store makes a store in db. Its time limit suits a slow machine; options come after it.
func (d database) store(tb testing.TB, db *sql.DB, options ...store.Option) *store.SQL {
	tb.Helper()
	all := append([]store.Option{store.WithTimeout(30 * time.Second)}, d.options...)
	s, err := store.New(db, d.dialect, append(all, options...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// driverError is the error of the driver inside err, nil if there is none.
func (d database) driverError(err error) error {
	var (
		pg   interface{ SQLState() string }
		my   *mysql.MySQLError
		lite interface{ Code() int }
	)
	switch {
	case errors.As(err, &pg), errors.As(err, &my), errors.As(err, &lite):
		return err
	}
	return nil
}
