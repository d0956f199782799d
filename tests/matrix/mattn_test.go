package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/dialects/sqlite"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/store/storetest"
)

var dialect = sqlite.WithErrorCode(func(err sqlite3.Error) int { return int(err.ExtendedCode) })

func openFile(t *testing.T, path, settings string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

const recommended = "?_journal_mode=WAL&_busy_timeout=5000&_txlock=immediate&_synchronous=FULL"

func migrated(t *testing.T) (db *sql.DB, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys.db")
	db = openFile(t, path, recommended)
	if err := migrations.Up(t.Context(), db, dialect); err != nil {
		t.Fatal(err)
	}
	var version string
	if err := db.QueryRowContext(t.Context(), "SELECT sqlite_version()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	t.Attr("database", "SQLite "+version)
	t.Attr("driver", "github.com/mattn/go-sqlite3")
	return db, path
}

func newStore(t *testing.T, db *sql.DB, options ...store.Option) *store.SQL {
	t.Helper()
	s, err := store.New(db, dialect, append([]store.Option{store.WithTimeout(30 * time.Second)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	const lease, retention = time.Second, 5 * time.Second
	db, _ := migrated(t)
	open := func(options ...store.Option) storetest.Open {
		return func(t *testing.T) store.Store { return newStore(t, db, options...) }
	}
	storetest.Run(t, open(),
		storetest.Expiring(lease, retention, open(store.WithLease(lease), store.WithRetention(retention))),
		storetest.Transactions(db))
}

func TestEveryKeyHasOneFirst(t *testing.T) {
	const goroutines, keys = 32, 500
	db, _ := migrated(t)
	s := newStore(t, db)
	var (
		first   [keys]atomic.Int32
		workers sync.WaitGroup
	)
	for range goroutines {
		workers.Go(func() {
			for i := range keys {
				c, err := s.Claim(t.Context(), fmt.Sprintf("order-%d", i))
				if err != nil {
					t.Error(err)
					return
				}
				if c.Outcome() == store.First {
					first[i].Add(1)
				}
			}
		})
	}
	workers.Wait()
	for i := range first {
		if n := first[i].Load(); n != 1 {
			t.Errorf("key %d: %d claims were first, want 1", i, n)
		}
	}
}

func TestCheckFindsNothingWrongWithTheRecommendedSettings(t *testing.T) {
	db, _ := migrated(t)
	findings, err := newStore(t, db).Check(t.Context())
	if err != nil || len(findings) < 6 {
		t.Fatalf("%d findings, %v", len(findings), err)
	}
	for _, f := range findings {
		if f.Level != store.Note {
			t.Errorf("%v: %s: %s → %s", f.Level, f.Check, f.Detail, f.Remedy)
		}
	}
}

// Without the code, a busy file would be no reason to try again.
func TestADriverWhoseErrorsHaveNoKnownCodeIsRefusedAtStart(t *testing.T) {
	db, _ := migrated(t)
	s, err := store.New(db, sqlite.Dialect)
	if err == nil || !strings.Contains(err.Error(), "sqlite.WithErrorCode") {
		t.Errorf("New: %v, %v; want an error that names WithErrorCode", s, err)
	}
}

func TestABusyFileIsAReasonToTryAgain(t *testing.T) {
	db, path := migrated(t)
	impatient := openFile(t, path, "?_journal_mode=WAL&_busy_timeout=1&_txlock=immediate")
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it changes nothing
	_, err = impatient.ExecContext(t.Context(), "DELETE FROM firsttime_keys")
	if err = dialect.Normalize(err); !errors.Is(err, dialects.ErrBusy) || !errors.Is(err, dialects.ErrRetryable) {
		t.Errorf("%v, want ErrBusy and ErrRetryable", err)
	}
}

// The driver waits for the lock as long as the busy timeout says: the store's time limit does not interrupt it.
func TestAClaimThatWaitsForAWriterAnswersAfterTheBusyTimeout(t *testing.T) {
	const limit, busy = 50 * time.Millisecond, 500 * time.Millisecond
	db, path := migrated(t)
	held, err := newStore(t, db).Claim(t.Context(), "order-1")
	if err != nil {
		t.Fatal(err)
	}
	patient := openFile(t, path, "?_journal_mode=WAL&_busy_timeout=500&_txlock=immediate")
	s := newStore(t, patient, store.WithTimeout(limit))
	var waited time.Duration
	err = held.InTx(t.Context(), db, func(*sql.Tx) error {
		asked := time.Now()
		c, err := s.Claim(t.Context(), "order-1")
		waited = time.Since(asked)
		if err == nil && c.Outcome() != store.InProgress {
			t.Errorf("outcome %v, want in progress", c.Outcome())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if waited < busy {
		t.Errorf("the claim waited %v: the time limit of %v ends it now, before the busy timeout of %v", waited, limit, busy)
	}
}

func TestAMissingTableIsAnErrorAtStart(t *testing.T) {
	db := openFile(t, filepath.Join(t.TempDir(), "keys.db"), recommended)
	if s, err := store.New(db, dialect); !errors.Is(err, store.ErrNotMigrated) {
		t.Errorf("New: %v, %v; want ErrNotMigrated", s, err)
	}
}
