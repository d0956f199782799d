package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
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

const knownSchemes = "postgres://user:password@host/database, mysql://user:password@host/database, " +
	"user:password@tcp(host:3306)/database or sqlite:path"

// openDatabase opens what a --db flag names. It does not connect. No error contains the password.
func openDatabase(dsn string) (database, error) {
	if strings.Contains(dsn, ")/") && !strings.Contains(dsn, "://") { // as go-sql-driver writes it
		return openMySQL(dsn)
	}
	scheme, rest, found := strings.Cut(dsn, ":")
	if !found {
		return database{}, wrongUse{errors.New("the database has no scheme: write " + knownSchemes)}
	}
	switch scheme {
	case "postgres", "postgresql":
		return openPostgres(dsn)
	case "mysql", "mariadb":
		return openMySQL(strings.TrimPrefix(rest, "//"))
	case "sqlite":
		return openSQLite(strings.TrimPrefix(rest, "//"))
	}
	return database{}, wrongUse{fmt.Errorf("unknown database scheme %q: write %s", scheme, knownSchemes)}
}

func openPostgres(dsn string) (database, error) {
	config, err := pgx.ParseConfig(dsn) // its errors hide the password
	if err != nil {
		return database{}, wrongUse{err}
	}
	return database{
		DB: stdlib.OpenDB(*config), dialect: postgres.Dialect,
		name: fmt.Sprintf("PostgreSQL %s at %s:%d", config.Database, config.Host, config.Port),
	}, nil
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
			return nil, errors.New("mysql: the DSN is malformed: write mysql://user:password@tcp(host:3306)/database")
		}
		return config, nil
	}
	u, err := url.Parse("mysql://" + rest)
	if err != nil || u.Host == "" || len(u.Path) < 2 { // the parser's error repeats the URL
		return nil, errors.New("mysql: the URL is malformed: write mysql://user:password@host:3306/database, " +
			"with special characters in the password percent-encoded")
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
		return nil, errors.New("mysql: the parameters after ? are not go-sql-driver's")
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

// parameter is the placeholder of the i-th parameter of a statement, from 1.
func (d database) parameter(i int) string {
	if d.dialect.Name() == "postgres" {
		return fmt.Sprintf("$%d", i)
	}
	return "?"
}
