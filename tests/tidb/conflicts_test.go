package tidb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	driversql "github.com/go-sql-driver/mysql"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/dialects/mysql"
	"github.com/firsttime-go/firsttime/store"
)

// sightings counts the errors of a server by their numbers.
type sightings struct {
	driver.Connector
	mu      sync.Mutex
	numbers map[uint16]int
}

func (s *sightings) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	return &watchedConn{conn, s}, err
}

func (s *sightings) note(err error) error {
	var server *driversql.MySQLError
	if errors.As(err, &server) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.numbers[server.Number]++
	}
	return err
}

type watchedConn struct {
	driver.Conn
	seen *sightings
}

func (c *watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
	return rows, c.seen.note(err)
}

func (c *watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	return result, c.seen.note(err)
}

func (c *watchedConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, options)
	return &watchedTx{tx, c.seen}, c.seen.note(err)
}

func (c *watchedConn) CheckNamedValue(v *driver.NamedValue) error {
	return c.Conn.(driver.NamedValueChecker).CheckNamedValue(v)
}

type watchedTx struct {
	driver.Tx
	seen *sightings
}

func (tx *watchedTx) Commit() error { return tx.seen.note(tx.Tx.Commit()) }

// watched opens the database of db with a driver that notes what the server refuses. Parameters are interpolated,
// so that every statement goes through the connection.
func watched(t *testing.T, db *sql.DB, mode string) (*sql.DB, *sightings) {
	t.Helper()
	var name string
	if err := db.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	c, err := driversql.ParseDSN(dsn(name, mode))
	if err != nil {
		t.Fatal(err)
	}
	c.InterpolateParams = true
	connector, err := driversql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	seen := &sightings{Connector: connector, numbers: make(map[uint16]int)}
	watched := sql.OpenDB(seen)
	t.Cleanup(func() { watched.Close() })
	watched.SetMaxIdleConns(64)
	return watched, seen
}

// Sessions claim the same keys, pay from one account in their transactions, purge, and change the schema, all at
// once. Whatever TiDB refuses then is something to try again.
func TestEveryConflictIsOneToTryAgain(t *testing.T) {
	const sessions, orders = 8, 20
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			plain := migrated(t, mode)
			for _, statement := range []string{"CREATE TABLE accounts (paid BIGINT NOT NULL)", "INSERT INTO accounts VALUES (0)"} {
				if _, err := plain.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			db, seen := watched(t, plain, mode)
			s := newStore(t, db, store.WithoutPreparedStatements(), store.WithLease(time.Second), store.WithRetention(2*time.Second))
			pay := func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), "UPDATE accounts SET paid = paid + 1")
				return mysql.Dialect.Normalize(err)
			}
			var (
				paid    atomic.Int64
				workers sync.WaitGroup
				others  sync.WaitGroup
			)
			for n := range sessions {
				workers.Go(func() {
					for i := range orders {
						// Every second order is one that others want, too.
						key := fmt.Sprintf("order-%d-of-%d", i, n*(i%2))
						c, err := s.Claim(t.Context(), key)
						for err == nil && c.Outcome().Held() {
							if err = c.InTx(t.Context(), db, pay); err == nil {
								paid.Add(1)
								break
							}
							if errors.Is(err, store.ErrRetryTx) || errors.Is(err, dialects.ErrRetryable) {
								err = nil
							} else if errors.Is(err, store.ErrClaimLost) {
								err = nil
								break
							}
						}
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			ctx, stop := context.WithCancel(t.Context())
			others.Go(func() {
				for ctx.Err() == nil {
					if _, err := s.PurgeExpired(ctx); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
			others.Go(func() {
				for ctx.Err() == nil {
					for _, change := range []string{"ADD COLUMN note INT", "DROP COLUMN note"} {
						if _, err := plain.ExecContext(t.Context(), "ALTER TABLE accounts "+change); err != nil {
							t.Error(err)
						}
					}
				}
			})
			workers.Wait()
			stop()
			others.Wait()
			var balance int64
			if err := plain.QueryRowContext(t.Context(), "SELECT paid FROM accounts").Scan(&balance); err != nil || balance != paid.Load() {
				t.Errorf("%d payments, %v; %d transactions were told that they are committed", balance, err, paid.Load())
			}
			t.Logf("%d payments; refused by number: %v", balance, seen.numbers)
			for number, times := range seen.numbers {
				err := mysql.Dialect.Normalize(&driversql.MySQLError{Number: number})
				if number != 1062 && !errors.Is(err, dialects.ErrRetryable) {
					t.Errorf("error %d, seen %d times, is not one to try again", number, times)
				}
			}
			if mode == "optimistic" && seen.numbers[9007] == 0 {
				t.Error("no transaction met a conflict: this test shows nothing")
			}
		})
	}
}
