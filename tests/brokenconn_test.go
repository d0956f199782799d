package tests

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

var errBroken = errors.New("the cable is broken")

// brokenDriver is the driver of a real database in which one statement fails, wherever it runs.
type brokenDriver struct {
	real     driver.Driver
	dsn      string
	spare    string       // part of a statement that is not counted; "" for none
	failing  int64        // the number of the statement that fails
	executed atomic.Int64 // all so far
}

func (d *brokenDriver) Driver() driver.Driver { return d.real }

func (d *brokenDriver) Connect(context.Context) (driver.Conn, error) {
	conn, err := d.real.Open(d.dsn)
	return &brokenConn{conn, d}, err
}

// next counts a statement and returns errBroken if it is the one that fails.
func (d *brokenDriver) next(statement string) error {
	if d.spare != "" && strings.Contains(statement, d.spare) || d.executed.Add(1) != d.failing {
		return nil
	}
	return errBroken
}

// failed reports whether the statement that is to fail was reached.
func (d *brokenDriver) failed() bool { return d.executed.Load() >= d.failing }

// brokenConn hands on what the drivers of this test's databases can do.
type brokenConn struct {
	driver.Conn
	of *brokenDriver
}

func (c *brokenConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.of.next(query); err != nil {
		return nil, err
	}
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c *brokenConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.of.next(query); err != nil {
		return nil, err
	}
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *brokenConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.of.next(query); err != nil {
		return nil, err
	}
	return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
}

func (c *brokenConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	if err := c.of.next("BEGIN"); err != nil {
		return nil, err
	}
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, options)
}

func (c *brokenConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// breaking calls do once for every statement that it executes, with a pool in which that statement fails.
func (d database) breaking(t *testing.T, dsn, spare string, do func(db *sql.DB, failed func() bool)) {
	t.Helper()
	real := d.open(t, dsn).Driver()
	const most = 100
	for n := int64(1); n < most; n++ {
		broken := &brokenDriver{real: real, dsn: dsn, spare: spare, failing: n}
		db := sql.OpenDB(broken)
		do(db, broken.failed)
		db.Close()
		if !broken.failed() {
			if n == 1 {
				t.Error("nothing was executed: this test shows nothing")
			}
			return
		}
	}
	t.Errorf("it executes more than %d statements", most)
}

// Whatever a preflight cannot find out is an error or a fault, never passed over.
func TestCheckPassesOverNoStatementThatFails(t *testing.T) {
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			_, dsn := d.migrated(t)
			spare := "PRAGMA busy_timeout = 5000" // gives a connection of SQLite its own setting back; nobody is told
			d.breaking(t, dsn, spare, func(db *sql.DB, failed func() bool) {
				findings, err := store.Check(t.Context(), db, d.dialect)
				told := errors.Is(err, errBroken) || slices.ContainsFunc(findings, func(f store.Finding) bool {
					return f.Level == store.Fault && strings.Contains(f.Detail, errBroken.Error())
				})
				if failed() != told {
					t.Errorf("a statement failed: %v; error %v, findings %+v", failed(), err, findings)
				}
			})
		})
	}
}

// What an operation tells of a failure is the driver's own error.
func TestErrorsOfTheDriverReachTheCaller(t *testing.T) {
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, dsn := d.migrated(t)
			healthy := d.store(t, db, store.WithLease(time.Millisecond)) // so that there is something to release
			for name, do := range map[string]func(s *store.SQL, db *sql.DB) error{
				"Stats":        func(s *store.SQL, _ *sql.DB) error { _, err := s.Stats(t.Context()); return err },
				"Stale":        func(s *store.SQL, _ *sql.DB) error { _, err := s.Stale(t.Context(), 10); return err },
				"Get":          func(s *store.SQL, _ *sql.DB) error { _, err := s.Get(t.Context(), "order-1"); return err },
				"Size":         func(s *store.SQL, _ *sql.DB) error { _, err := s.Size(t.Context()); return err },
				"PurgeExpired": func(s *store.SQL, _ *sql.DB) error { _, err := s.PurgeExpired(t.Context()); return err },
				"Release":      func(s *store.SQL, _ *sql.DB) error { _, err := s.Release(t.Context(), "order-1"); return err },
				"ForceRelease": func(s *store.SQL, _ *sql.DB) error { _, err := s.ForceRelease(t.Context(), "order-2"); return err },
				"InTx": func(s *store.SQL, db *sql.DB) error {
					c, err := s.Claim(t.Context(), rand.Text())
					if err != nil {
						return err
					}
					return c.InTx(t.Context(), db, func(*sql.Tx) error { return nil })
				},
			} {
				d.breaking(t, dsn, "", func(db *sql.DB, failed func() bool) {
					for _, key := range []string{"order-1", "order-2"} {
						if _, err := healthy.Claim(t.Context(), key); err != nil {
							t.Fatal(err)
						}
					}
					s, err := store.New(db, d.dialect, store.WithoutPreparedStatements())
					if err == nil {
						err = do(s, db)
					}
					if failed() != errors.Is(err, errBroken) {
						t.Errorf("%s: a statement failed: %v; error %v", name, failed(), err)
					}
				})
			}
		})
	}
}
