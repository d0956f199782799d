package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/tests/servers"
)

// A confirm touches no indexed column and finds room on its page, so it writes no index entry.
func TestConfirmIsAHOTUpdateOnPostgres(t *testing.T) {
	const keys = 2000
	for _, pattern := range []struct {
		name  string
		ahead int // how many keys are claimed before the first of them is confirmed
	}{{"one at a time", 1}, {"64 in flight", 64}} {
		t.Run(pattern.name, func(t *testing.T) {
			t.Parallel()
			db, _ := postgresDB.migrated(t)
			s := postgresDB.store(t, db)
			var claims []*store.Claim
			for i := range keys {
				c, err := s.Claim(t.Context(), fmt.Sprintf("order-%d", i))
				if err != nil {
					t.Fatal(err)
				}
				if claims = append(claims, c); len(claims) < pattern.ahead {
					continue
				}
				if err := claims[0].Confirm(t.Context()); err != nil {
					t.Fatal(err)
				}
				claims = claims[1:]
			}
			done := keys - len(claims)
			var updates, hot int
			poll(t, "the statistics are in", func() bool {
				err := db.QueryRowContext(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
					WHERE relname = 'firsttime_keys'`).Scan(&updates, &hot)
				return err == nil && updates >= done
			})
			// A page that is full is cleaned on the way, unless a session that begins at that moment may still
			// see its old rows: under load that happens to a few in two thousand.
			if updates-hot > updates/100 {
				t.Errorf("%d of %d updates were HOT, want all but one in a hundred", hot, updates)
			}
		})
	}
}

// A duplicate costs the server nothing that lasts: no dead tuple, no transaction id, no line in the log.
func TestADuplicateLeavesNoTraceOnPostgres(t *testing.T) {
	const duplicates = 300
	server, err := servers.Start(t.Context(), servers.Postgres) // of its own: others would use up transaction ids
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	d := postgresDB
	d.dsn = func(tb testing.TB) string { return server.Database(tb) }
	db, _ := d.migrated(t)
	execute(t, db, "ALTER TABLE firsttime_keys SET (autovacuum_enabled = false)")
	s := d.store(t, db)
	if err := s.Confirm(t.Context(), "order-1"); err != nil {
		t.Fatal(err)
	}
	// Warm up: the first statements of a session may set hint bits and write to the log.
	claimDuplicates(t, s, 10)

	logged := logLines(t, server)
	poll(t, "the statistics are in", func() bool { return serverState(t, db).inserted == 1 })
	before := serverState(t, db)
	claimDuplicates(t, s, duplicates)
	poll(t, "the statistics are in", func() bool { return serverState(t, db).scans >= before.scans+2*duplicates })
	after := serverState(t, db)
	if after.nextXID != before.nextXID {
		t.Errorf("%d duplicates used %d transaction ids, want none", duplicates, after.nextXID-before.nextXID)
	}
	if after.dead != before.dead || after.inserted != before.inserted {
		t.Errorf("dead tuples %d -> %d, inserted %d -> %d; want no change", before.dead, after.dead, before.inserted, after.inserted)
	}
	if lines := logLines(t, server); lines != logged {
		t.Errorf("the server logged %d lines, want none", lines-logged)
	}
}

func claimDuplicates(t *testing.T, s *store.SQL, n int) {
	t.Helper()
	for range n {
		c, err := s.Claim(t.Context(), "order-1")
		if err != nil {
			t.Fatal(err)
		}
		if c.Outcome() != store.Duplicate {
			t.Fatalf("outcome %v, want duplicate", c.Outcome())
		}
	}
}

type pgState struct{ nextXID, dead, inserted, scans int64 }

func serverState(t *testing.T, db *sql.DB) (s pgState) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
		n_dead_tup, n_tup_ins, idx_scan FROM pg_stat_user_tables WHERE relname = 'firsttime_keys'`).
		Scan(&s.nextXID, &s.dead, &s.inserted, &s.scans)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func logLines(t *testing.T, server *servers.Server) int {
	t.Helper()
	text, err := os.ReadFile(server.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// A transaction that failed before is the caller's affair: the driver's error comes through.
func TestConfirmInAnAbortedTransactionFailsOnPostgres(t *testing.T) {
	t.Parallel()
	db, _ := postgresDB.migrated(t)
	s := postgresDB.store(t, db)
	c, err := s.Claim(t.Context(), "order-1")
	if err != nil {
		t.Fatal(err)
	}
	err = c.InTx(t.Context(), db, func(tx *sql.Tx) error {
		_, _ = tx.ExecContext(context.Background(), "SELECT 1/0")
		return nil
	})
	var state interface{ SQLState() string }
	if !asError(err, &state) || state.SQLState() != "25P02" {
		t.Errorf("InTx in an aborted transaction: %v, want SQLSTATE 25P02", err)
	}
	if err := c.Confirm(t.Context()); err != nil {
		t.Errorf("the claim did not survive: %v", err)
	}
}

// A server that ends idle sessions says so to the next statement of the session, with pgx if that comes soon. Nothing
// was done, and all is well in another session.
func TestTheEndOfAnIdleSessionOfPostgresIsNoFailure(t *testing.T) {
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			watch, dsn := postgresDB.migrated(t)
			d := postgresDB
			d.driver = driver
			limited := func(setting string) *sql.DB {
				db := d.open(t, withQuery(t, dsn, setting, "200"))
				db.SetMaxOpenConns(1)
				return db
			}
			session := func(row *sql.Row) (pid int) {
				t.Helper()
				if err := row.Scan(&pid); err != nil {
					t.Fatal(err)
				}
				return pid
			}
			ended := func(pid int) {
				t.Helper()
				poll(t, "the session is ended", func() bool {
					return count(t, watch, fmt.Sprintf("SELECT COUNT(*) FROM pg_stat_activity WHERE pid = %d", pid)) == 0
				})
			}

			db := limited("idle_in_transaction_session_timeout")
			s := d.store(t, db)
			c, err := s.Claim(t.Context(), "order-1")
			if err != nil {
				t.Fatal(err)
			}
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			ended(session(tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()")))
			if err := c.ConfirmTx(t.Context(), tx); !errors.Is(err, store.ErrRetryTx) {
				t.Errorf("ConfirmTx: %v, want ErrRetryTx", err)
			}
			_ = tx.Rollback() // it ended with its session

			if count(t, watch, "SELECT COUNT(*) FROM pg_settings WHERE name = 'idle_session_timeout'") == 0 {
				t.Skip("PostgreSQL before 14 ends no session outside of a transaction")
			}
			db = limited("idle_session_timeout")
			s = d.store(t, db)
			ended(session(db.QueryRowContext(t.Context(), "SELECT pg_backend_pid()")))
			if c, err := s.Claim(t.Context(), "order-2"); err != nil || c.Outcome() != store.First {
				t.Errorf("claim: %v, %v; want first", c, err)
			}
		})
	}
}
