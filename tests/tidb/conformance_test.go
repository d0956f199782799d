package tidb

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/dialects/mysql"
	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/store/storetest"
)

// modes are the two ways of TiDB to run transactions: locks as they go, or conflicts found at COMMIT.
var modes = []string{"pessimistic", "optimistic"}

func dsn(database, mode string) string {
	return "root@tcp(" + address + ")/" + database + "?tidb_txn_mode=%27" + mode + "%27"
}

func migrated(t *testing.T, mode string) *sql.DB {
	t.Helper()
	name := "firsttime_test_" + strings.ToLower(rand.Text())
	admin, err := sql.Open("mysql", "root@tcp("+address+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", dsn(name, mode))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxIdleConns(64)
	var is string
	if err := db.QueryRowContext(t.Context(), "SELECT @@tidb_txn_mode").Scan(&is); err != nil || is != mode {
		t.Fatalf("the mode is %q, %v; want %q", is, err, mode)
	}
	up, err := os.ReadFile("../../migrations/mysql/00001_firsttime_keys.sql") // goose's module and TiDB's need different gRPCs
	if err != nil {
		t.Fatal(err)
	}
	statement, _, _ := strings.Cut(string(up), "-- +goose Down")
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	return db
}

func newStore(t *testing.T, db *sql.DB, options ...store.Option) *store.SQL {
	t.Helper()
	s, err := store.New(db, mysql.Dialect, append([]store.Option{store.WithTimeout(30 * time.Second)}, options...)...)
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
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := migrated(t, mode)
			open := func(options ...store.Option) storetest.Open {
				return func(t *testing.T) store.Store { return newStore(t, db, options...) }
			}
			storetest.Run(t, open(),
				storetest.Expiring(lease, retention, open(store.WithLease(lease), store.WithRetention(retention))),
				storetest.Transactions(db))
		})
	}
}

// race lets many sessions claim the same keys, and fails unless each key has exactly one claim with the outcome.
func race(t *testing.T, s *store.SQL, keys int, want store.Outcome) {
	t.Helper()
	const sessions = 32
	winners := make([]atomic.Int32, keys)
	var workers sync.WaitGroup
	for range sessions {
		workers.Go(func() {
			for i := range keys {
				c, err := s.Claim(t.Context(), fmt.Sprintf("order-%d", i))
				if err != nil {
					t.Error(err)
					return
				}
				if c.Outcome().Held() {
					if c.Outcome() != want {
						t.Errorf("key %d: %v, want %v", i, c.Outcome(), want)
					}
					winners[i].Add(1)
				}
			}
		})
	}
	workers.Wait()
	for i := range winners {
		if n := winners[i].Load(); n != 1 {
			t.Errorf("key %d: %d claims won, want 1", i, n)
		}
	}
}

func TestEveryKeyHasOneFirst(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			race(t, newStore(t, migrated(t, mode)), 500, store.First)
		})
	}
}

func TestEveryStaleClaimIsTakenOverOnce(t *testing.T) {
	const keys = 50
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := migrated(t, mode)
			s := newStore(t, db, store.WithLease(5*time.Minute))
			race(t, s, keys, store.First)
			if _, err := db.ExecContext(t.Context(), "UPDATE firsttime_keys SET leased_until = '2001-01-01'"); err != nil {
				t.Fatal(err)
			}
			race(t, s, keys, store.TakenOver)
		})
	}
}

func TestCheckFindsNoFault(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			findings, err := newStore(t, migrated(t, mode)).Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				t.Logf("%v: %s: %s", f.Level, f.Check, f.Detail)
				if f.Level == store.Fault {
					t.Error("this is no fault")
				}
			}
		})
	}
}
