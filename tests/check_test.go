package tests

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/tests/servers"
)

func execAll(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func TestCheckFindsNothingWrongWithWhatIsRight(t *testing.T) {
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			findings, err := d.store(t, db).Check(t.Context())
			if err != nil || len(findings) < 6 {
				t.Fatalf("%d findings, %v", len(findings), err)
			}
			for _, f := range findings {
				if f.Level != store.Note || f.Remedy != "" || f.Detail == "" {
					t.Errorf("%v: %s: %s → %s", f.Level, f.Check, f.Detail, f.Remedy)
				}
			}
			var n int
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM firsttime_keys").Scan(&n); err != nil || n != 0 {
				t.Errorf("the check left %d keys behind, %v", n, err)
			}
		})
	}
}

// flaw is something that Check must find.
type flaw struct {
	name  string
	spoil func(t *testing.T, db *sql.DB)            // the database; may be nil
	open  func(t *testing.T, dsn string) (d string) // another DSN; may be nil
	level store.Finding                             // level and check that are wanted
}

func finding(check string, level func() store.Finding) store.Finding {
	f := level()
	f.Check = check
	return f
}

func aFault() store.Finding   { return store.Finding{Level: store.Fault} }
func aWarning() store.Finding { return store.Finding{Level: store.Warning} }

func statements(s ...string) func(t *testing.T, db *sql.DB) {
	return func(t *testing.T, db *sql.DB) {
		t.Helper()
		execAll(t, db, s...)
	}
}

func flawsOf(d database) []flaw {
	common := []flaw{
		{name: "no table", spoil: statements("DROP TABLE firsttime_keys"), level: finding("table", aFault)},
		{name: "no expiry index", spoil: dropExpiryIndex(d), level: finding("expiry index", aFault)},
	}
	pg := func(pairs ...string) func(t *testing.T, dsn string) string {
		return func(t *testing.T, dsn string) string { return withQuery(t, dsn, pairs...) }
	}
	my := func(name, value string) func(t *testing.T, dsn string) string {
		return func(t *testing.T, dsn string) string {
			return withConfig(t, dsn, func(c *mysql.Config) { c.Params = map[string]string{name: value} })
		}
	}
	lite := func(settings string) func(t *testing.T, dsn string) string {
		return func(_ *testing.T, dsn string) string { return strings.Replace(dsn, sqliteSettings, settings, 1) }
	}
	switch d.dialect.Name() {
	case "postgres":
		return append(common,
			flaw{name: "folding key column", spoil: statements(`ALTER TABLE firsttime_keys ALTER COLUMN message_id TYPE text COLLATE "default"`), level: finding("columns", aFault)},
			flaw{name: "short key column", spoil: statements(`ALTER TABLE firsttime_keys ALTER COLUMN message_id TYPE varchar(20)`), level: finding("columns", aFault)},
			flaw{name: "column gone", spoil: statements(`ALTER TABLE firsttime_keys DROP COLUMN attempts`), level: finding("columns", aFault)},
			flaw{name: "no primary key", spoil: statements(`ALTER TABLE firsttime_keys DROP CONSTRAINT firsttime_keys_pkey`), level: finding("primary key", aFault)},
			flaw{name: "key without scope", spoil: statements(`ALTER TABLE firsttime_keys DROP CONSTRAINT firsttime_keys_pkey`, `ALTER TABLE firsttime_keys ADD PRIMARY KEY (message_id)`), level: finding("primary key", aFault)},
			flaw{name: "partial expiry index", spoil: statements("DROP INDEX firsttime_keys_expires_at", "CREATE INDEX p ON firsttime_keys (expires_at) WHERE state = 'CONFIRMED'"), level: finding("expiry index", aFault)},
			flaw{name: "read-only", open: pg("default_transaction_read_only", "on"), level: finding("server", aFault)},
			flaw{name: "read-only writes", open: pg("default_transaction_read_only", "on"), level: finding("write", aFault)},
			flaw{name: "another schema", spoil: statements("CREATE SCHEMA other", "CREATE TABLE other.firsttime_keys (a int)"), level: finding("search_path", aWarning)},
			flaw{name: "search path elsewhere", spoil: statements("CREATE SCHEMA other"), open: pg("search_path", "other"), level: finding("table", aFault)},
			flaw{name: "serializable", open: pg("default_transaction_isolation", "serializable"), level: finding("isolation", aWarning)},
			flaw{name: "bytes taken for other characters", open: pg("client_encoding", "LATIN1"), level: finding("encoding", aFault)},
			flaw{name: "asynchronous commit", open: pg("synchronous_commit", "off"), level: finding("synchronous_commit", aWarning)},
			flaw{name: "no right to write", spoil: statements("CREATE ROLE "+reader+" LOGIN PASSWORD 'reader'", "GRANT SELECT ON firsttime_keys TO "+reader),
				open: asReader, level: finding("write", aFault)},
		)
	case "mysql":
		if d.name == "MySQL" { // whose binary log is on by default
			common = append(common, flaw{name: "statements in the binary log", open: my("binlog_format", "'STATEMENT'"), level: finding("binlog_format", aFault)})
		}
		return append(common,
			flaw{name: "folding key column", spoil: statements("ALTER TABLE firsttime_keys MODIFY message_id VARCHAR(191) CHARACTER SET utf8mb4 NOT NULL"), level: finding("columns", aFault)},
			flaw{name: "short key column", spoil: statements("ALTER TABLE firsttime_keys MODIFY message_id VARBINARY(20) NOT NULL"), level: finding("columns", aFault)},
			flaw{name: "no microseconds", spoil: statements("ALTER TABLE firsttime_keys MODIFY leased_until DATETIME NOT NULL"), level: finding("columns", aFault)},
			flaw{name: "no primary key", spoil: statements("ALTER TABLE firsttime_keys DROP PRIMARY KEY"), level: finding("primary key", aFault)},
			flaw{name: "prefix of the key", spoil: statements("ALTER TABLE firsttime_keys DROP PRIMARY KEY, ADD PRIMARY KEY (scope, message_id(20))"), level: finding("primary key", aFault)},
			flaw{name: "no transactions", spoil: statements("ALTER TABLE firsttime_keys ENGINE = MyISAM"), level: finding("engine", aFault)},
			flaw{name: "no autocommit", open: my("autocommit", "0"), level: finding("autocommit", aFault)},
			flaw{name: "dirty reads", open: my(isolationVariable(d), "'READ-UNCOMMITTED'"), level: finding("isolation", aFault)},
			flaw{name: "serializable", open: my(isolationVariable(d), "'SERIALIZABLE'"), level: finding("isolation", aWarning)},
			flaw{name: "characters that become question marks", open: my("collation_connection", "latin1_swedish_ci"), level: finding("character set", aFault)},
			flaw{name: "characters that become others", open: my("character_set_client", "latin1"), level: finding("character set", aFault)},
			flaw{name: "no right to write", spoil: statements("CREATE USER "+reader+" IDENTIFIED BY 'reader'", "GRANT SELECT ON firsttime_keys TO "+reader),
				open: asReader, level: finding("write", aFault)},
		)
	}
	return append(common,
		flaw{name: "loose table", spoil: statements("DROP TABLE firsttime_keys", `CREATE TABLE firsttime_keys (scope TEXT NOT NULL, message_id TEXT NOT NULL,
			state TEXT NOT NULL, claimed_by TEXT NOT NULL, attempts INTEGER NOT NULL, recorded_at INTEGER NOT NULL, leased_until INTEGER NOT NULL,
			confirmed_at INTEGER, expires_at INTEGER NOT NULL, PRIMARY KEY (scope, message_id))`), level: finding("table", aFault)},
		flaw{name: "folding key column", spoil: statements("DROP TABLE firsttime_keys", `CREATE TABLE firsttime_keys (scope TEXT NOT NULL, message_id TEXT COLLATE NOCASE NOT NULL,
			state TEXT NOT NULL, claimed_by TEXT NOT NULL, attempts INTEGER NOT NULL, recorded_at INTEGER NOT NULL, leased_until INTEGER NOT NULL,
			confirmed_at INTEGER, expires_at INTEGER NOT NULL, PRIMARY KEY (scope, message_id)) STRICT, WITHOUT ROWID`), level: finding("primary key", aFault)},
		flaw{name: "blob key column", spoil: statements("DROP TABLE firsttime_keys", `CREATE TABLE firsttime_keys (scope TEXT NOT NULL, message_id BLOB NOT NULL,
			state TEXT NOT NULL, claimed_by TEXT NOT NULL, attempts INTEGER NOT NULL, recorded_at INTEGER NOT NULL, leased_until INTEGER NOT NULL,
			confirmed_at INTEGER, expires_at INTEGER NOT NULL, PRIMARY KEY (scope, message_id)) STRICT, WITHOUT ROWID`), level: finding("columns", aFault)},
		flaw{name: "no WAL", spoil: func(_ *testing.T, db *sql.DB) { db.Close() }, open: lite("?_pragma=journal_mode(DELETE)&_pragma=busy_timeout(5000)&_txlock=immediate"), level: finding("journal_mode", aWarning)},
		flaw{name: "no patience", open: lite("?_pragma=journal_mode(WAL)&_txlock=immediate"), level: finding("busy_timeout", aFault)},
		flaw{name: "little patience", open: lite("?_pragma=journal_mode(WAL)&_pragma=busy_timeout(50)&_txlock=immediate"), level: finding("busy_timeout", aWarning)},
		flaw{name: "deferred transactions", open: lite("?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"), level: finding("_txlock", aWarning)},
		flaw{name: "not synchronous", open: lite(sqliteSettings + "&_pragma=synchronous(OFF)"), level: finding("synchronous", aFault)},
		flaw{name: "in memory", open: func(*testing.T, string) string { return "file:memory-" + rand32() + "?mode=memory&cache=shared" }, level: finding("file", aFault)},
		flaw{name: "read-only", open: lite("?mode=ro&_pragma=busy_timeout(5000)"), level: finding("write", aFault)},
	)
}

const reader = "firsttime_check_reader"

func rand32() string { return fmt.Sprint(time.Now().UnixNano()) }

// asReader is the DSN of the user who may only read.
func asReader(t *testing.T, dsn string) string {
	if !strings.HasPrefix(dsn, "postgres") {
		return withConfig(t, dsn, func(c *mysql.Config) { c.User, c.Passwd = reader, "reader" })
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(reader, "reader")
	return u.String()
}

func isolationVariable(d database) string {
	if d.name == "MySQL" {
		return "transaction_isolation"
	}
	return "tx_isolation"
}

func dropExpiryIndex(d database) func(t *testing.T, db *sql.DB) {
	if d.dialect.Name() == "mysql" {
		return statements("DROP INDEX firsttime_keys_expires_at ON firsttime_keys")
	}
	return statements("DROP INDEX firsttime_keys_expires_at")
}

// Every flaw is found, and its remedy said.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for _, flaw := range flawsOf(d) {
				t.Run(flaw.name, func(t *testing.T) {
					db, dsn := d.migrated(t)
					if flaw.spoil != nil {
						flaw.spoil(t, db)
					}
					if strings.Contains(flaw.name, "right to write") {
						admin := db
						t.Cleanup(func() { dropReader(t, d, admin) })
					}
					if flaw.open != nil {
						db = d.open(t, flaw.open(t, dsn))
					}
					findings, err := store.Check(t.Context(), db, d.dialect)
					if err != nil {
						t.Fatal(err)
					}
					found := slices.ContainsFunc(findings, func(f store.Finding) bool {
						return f.Level == flaw.level.Level && f.Check == flaw.level.Check && f.Detail != "" && f.Remedy != ""
					})
					if !found {
						t.Errorf("no %v about %q: %+v", flaw.level.Level, flaw.level.Check, findings)
					}
				})
			}
		})
	}
}

func dropReader(t *testing.T, d database, db *sql.DB) {
	t.Helper()
	drop := "DROP USER " + reader
	if d.dialect.Name() == "postgres" {
		drop = "DROP OWNED BY " + reader + "; DROP ROLE " + reader
	}
	if _, err := db.ExecContext(context.WithoutCancel(t.Context()), drop); err != nil {
		t.Error(err)
	}
}

// A pool with one connection, settings that do not fit and a clock that is off are warnings.
func TestCheckWarnsOfSettings(t *testing.T) {
	t.Parallel()
	db, _ := postgresDB.migrated(t)
	for name, options := range map[string][]store.Option{
		"retention": {store.WithRetention(time.Minute), store.WithLease(30 * time.Second)},
		"time":      {store.WithLease(time.Second), store.WithTimeout(2 * time.Second)},
	} {
		findings, err := store.Check(t.Context(), db, postgresDB.dialect, options...)
		if err != nil || findings[len(findings)-1].Level != store.Warning || findings[len(findings)-1].Check != "settings" {
			t.Errorf("%s: %+v, %v", name, findings[len(findings)-1], err)
		}
	}
	if _, err := store.Check(t.Context(), db, postgresDB.dialect, store.WithLease(48*time.Hour)); err == nil {
		t.Error("a lease longer than the retention is no error")
	}
	for _, d := range []database{postgresDB, mariaDB} {
		db, _ := d.migrated(t)
		db.SetMaxOpenConns(1)
		findings, err := store.Check(t.Context(), db, d.dialect)
		if err != nil || !slices.ContainsFunc(findings, func(f store.Finding) bool { return f.Check == "pool" && f.Level == store.Warning }) {
			t.Errorf("%s: one connection is not warned of: %+v, %v", d.name, findings, err)
		}
	}
}

func TestCheckReportsTheClock(t *testing.T) {
	t.Parallel()
	server, err := servers.StartWithClock(t.Context(), servers.MariaDB, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	db := mariaDB.open(t, server.Database(t))
	if err := migrations.Up(t.Context(), db, mariaDB.dialect); err != nil {
		t.Fatal(err)
	}
	findings, err := store.Check(t.Context(), db, mariaDB.dialect)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Check == "clock" {
			if f.Level != store.Warning || !strings.Contains(f.Detail, "59m") && !strings.Contains(f.Detail, "1h0m") {
				t.Errorf("%+v", f)
			}
			return
		}
	}
	t.Error("nothing about the clock")
}

func TestSessionsThatReadWhatIsNotCommittedAreRefused(t *testing.T) {
	t.Parallel()
	for _, d := range []database{mariaDB, mySQL} {
		_, dsn := d.migrated(t)
		db := d.open(t, withConfig(t, dsn, func(c *mysql.Config) {
			c.Params = map[string]string{isolationVariable(d): "'READ-UNCOMMITTED'"}
		}))
		if _, err := store.New(db, d.dialect); err == nil || !strings.Contains(err.Error(), "transaction_isolation") {
			t.Errorf("%s: error %v", d.name, err)
		}
	}
}

// Whoever may only read gets every lock, which says nothing about how transactions begin.
func TestCheckOfAReadOnlyFileSaysNothingOfLocks(t *testing.T) {
	t.Parallel()
	_, dsn := sqliteDB.migrated(t)
	db := sqliteDB.open(t, strings.Replace(dsn, sqliteSettings, sqliteSettings+"&mode=ro", 1))
	findings, err := store.Check(t.Context(), db, sqliteDB.dialect)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(findings, func(f store.Finding) bool { return f.Level != store.Note && f.Check != "write" }) {
		t.Errorf("%+v", findings)
	}
}

// A binary log of statements lets claims and confirms pass, and refuses every purge.
func TestCheckFindsABinaryLogOfStatements(t *testing.T) {
	t.Parallel()
	server, err := servers.StartWithOptions(t.Context(), servers.MariaDB, "--log-bin=binlog", "--binlog-format=STATEMENT")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	for _, test := range []struct {
		d   database
		dsn string
	}{
		{mariaDB, server.Database(t)},
		{mySQL, withConfig(t, mySQL.dsn(t), func(c *mysql.Config) { c.Params = map[string]string{"binlog_format": "'STATEMENT'"} })},
	} {
		db := test.d.open(t, test.dsn)
		if err := migrations.Up(t.Context(), db, test.d.dialect); err != nil {
			t.Fatal(err)
		}
		findings, err := store.Check(t.Context(), db, test.d.dialect)
		if err != nil || !slices.ContainsFunc(findings, func(f store.Finding) bool { return f.Check == "binlog_format" && f.Level == store.Fault }) {
			t.Errorf("%s: nothing about the format: %+v, %v", test.d.name, findings, err)
		}
		s := test.d.store(t, db, store.WithLease(time.Millisecond), store.WithRetention(2*time.Millisecond))
		for n, err := int64(0), error(nil); err == nil; n, err = s.PurgeExpired(t.Context()) {
			if n > 0 {
				t.Fatalf("%s: a purge is not refused", test.d.name)
			}
			if err := s.Confirm(t.Context(), "order-1"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestCheckFindsAnEngineThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	server, err := servers.StartWithOptions(t.Context(), servers.MariaDB, "--innodb-read-only")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	findings, err := store.Check(t.Context(), mariaDB.open(t, server.Database(t)), mariaDB.dialect)
	if err != nil || !slices.ContainsFunc(findings, func(f store.Finding) bool { return f.Check == "server" && f.Level == store.Fault }) {
		t.Errorf("nothing about the server: %+v, %v", findings, err)
	}
}
