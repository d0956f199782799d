package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/firsttime-go/firsttime/dialects"
	mysqldialect "github.com/firsttime-go/firsttime/dialects/mysql"
	"github.com/firsttime-go/firsttime/dialects/postgres"
	"github.com/firsttime-go/firsttime/dialects/sqlite"
)

// database is an opened database and how to speak to it.
type database struct {
	*sql.DB
	dialect dialects.Dialect
	name    string // for people; without user and password
}

const (
	postgresURL = "postgres://user:password@host:5432/database, with special characters in the password percent-encoded"
	mysqlURL    = "mysql://user:password@host:3306/database, with special characters in the password percent-encoded"
)

const knownSchemes = "postgres://user:password@host/database, mysql://user:password@host/database, " +
	"user:password@tcp(host:3306)/database or sqlite:path"

// openDatabase opens what a --db flag names. It does not connect. No error contains the password.
func openDatabase(dsn string) (database, error) {
	scheme, rest, found := strings.Cut(dsn, ":")
	rest, isURL := strings.CutPrefix(rest, "//")
	switch {
	case isURL && (scheme == "postgres" || scheme == "postgresql"):
		return openPostgres(dsn)
	case isURL && (scheme == "mysql" || scheme == "mariadb"):
		return openMySQL(rest)
	case scheme == "sqlite" && found:
		return openSQLite(rest)
	case strings.Contains(dsn, ")/"): // as go-sql-driver writes it
		return openMySQL(dsn)
	case isURL:
		return database{}, wrongUse{fmt.Errorf("unknown database scheme %q: write %s", scheme, knownSchemes)}
	}
	return database{}, wrongUse{errors.New("the database has no scheme: write " + knownSchemes)} // and may be a password
}

func openPostgres(dsn string) (database, error) {
	config, err := pgx.ParseConfig(dsn)
	// There may be a part of the password in it, or a parameter with a password that follows no question mark.
	if err != nil || strings.ContainsAny(config.Host+config.Database, "@=") {
		return database{}, wrongUse{fmt.Errorf("the URL of PostgreSQL is malformed%s: write %s", reason(err), postgresURL)}
	}
	if !strings.Contains(dsn, "default_query_exec_mode") {
		config.DefaultQueryExecMode = pgx.QueryExecModeExec // a command runs few statements, and works through any pooler
	}
	return database{
		DB: stdlib.OpenDB(*config), dialect: postgres.Dialect,
		name: fmt.Sprintf("PostgreSQL %s at %s:%d", config.Database, config.Host, config.Port),
	}, nil
}

// reason is why pgx refuses a URL. It leaves out the URL, in which pgx hides only what it takes for the password, and
// everything from the first quotation mark on, where parts of the URL are quoted.
func reason(err error) string {
	var refused *pgconn.ParseConfigError
	if !errors.As(err, &refused) || refused.Unwrap() == nil {
		return ""
	}
	text, _, _ := strings.Cut(refused.Unwrap().Error(), `"`)
	return " (" + strings.TrimSpace(text) + ")"
}

// openMySQL takes what follows mysql://, as a URL or as go-sql-driver writes it: user@tcp(host:3306)/db.
func openMySQL(rest string) (database, error) {
	config, err := mysqlConfig(rest)
	if err != nil {
		return database{}, wrongUse{err}
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return database{}, wrongUse{fmt.Errorf("mysql: %w", err)}
	}
	return database{
		DB: sql.OpenDB(connector), dialect: mysqldialect.Dialect,
		name: fmt.Sprintf("MySQL %s at %s", config.DBName, config.Addr),
	}, nil
}

func mysqlConfig(rest string) (*mysql.Config, error) {
	if strings.Contains(rest, ")/") {
		config, err := mysql.ParseDSN(rest)
		if err != nil {
			return nil, errors.New("the DSN of MySQL is malformed: write user:password@tcp(host:3306)/database")
		}
		return config, nil
	}
	u, err := url.Parse("mysql://" + rest)
	// The parser's error repeats the URL. An @ after the host is the end of a password that began before it, and so is
	// what follows a #, which has no meaning here.
	if err != nil || u.Host == "" || len(u.Path) < 2 || strings.Contains(u.Path, "@") || u.Fragment != "" || u.User == nil && strings.Contains(rest, "@") {
		return nil, errors.New("the URL of MySQL is malformed: write " + mysqlURL)
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", u.Host, u.Path[1:]
	if u.Port() == "" {
		config.Addr += ":3306"
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	if u.RawQuery == "" {
		return config, nil
	}
	withParameters, err := mysql.ParseDSN(config.FormatDSN() + "?" + u.RawQuery)
	if err != nil {
		return nil, errors.New("the URL of MySQL has parameters after ? that are not go-sql-driver's")
	}
	return withParameters, nil
}

func openSQLite(path string) (database, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") {
		return database{}, wrongUse{errors.New("sqlite needs a file: write sqlite:path")}
	}
	escaped := (&url.URL{Path: path}).EscapedPath()
	db, err := sql.Open("sqlite", "file:"+escaped+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return database{}, err
	}
	return database{DB: db, dialect: sqlite.Dialect, name: "SQLite " + path}, nil
}

// answer waits until the database answers. The first processes of a new SQLite file keep each other out while one
// of them switches it to WAL, whatever the busy timeout.
func (d database) answer(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := d.PingContext(ctx)
	for errors.Is(d.dialect.Normalize(err), dialects.ErrBusy) && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
		err = d.PingContext(ctx)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s does not answer within %v: see --timeout", d.name, timeout)
	}
	return fmt.Errorf("%s cannot be reached: %w", d.name, err)
}

// parameter is the placeholder of the i-th parameter of a statement, from 1.
func (d database) parameter(i int) string {
	if d.dialect.Name() == "postgres" {
		return fmt.Sprintf("$%d", i)
	}
	return "?"
}
