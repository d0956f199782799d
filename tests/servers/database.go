package servers

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
)

// Database creates an empty database with a name of its own, returns its DSN, and drops it when the test
// ends. It fails the test on a server that has no databases.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	if s.engine.driver == "" {
		tb.Fatalf("%s has no databases", s.kind)
	}
	name := "firsttime_test_" + strings.ToLower(rand.Text())
	dsn, err := s.engine.database(s.admin, name)
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.exec("CREATE DATABASE " + name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		drop := "DROP DATABASE " + name
		if s.engine.driver == "pgx" {
			drop += " WITH (FORCE)"
		}
		if err := s.exec(drop); err != nil && !s.stopped() {
			tb.Error(err)
		}
	})
	return dsn
}

// At is the DSN of a PostgreSQL database at this server instead: its standby, or the pooler before it.
func (s *Server) At(tb testing.TB, dsn string) string {
	tb.Helper()
	there, err := url.Parse(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	here, err := url.Parse(s.URL())
	if err != nil {
		tb.Fatal(err)
	}
	there.Host = here.Host
	return there.String()
}

func (s *Server) exec(statement string) error {
	db, err := sql.Open(s.engine.driver, s.admin)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// ask returns the answer to a query for one string.
func ask(ctx context.Context, driver, dsn, query string) (answer string, err error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return "", err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, query).Scan(&answer)
	return answer, err
}
