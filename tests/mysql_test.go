package tests

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/firsttime-go/firsttime/store"
)

func mySQLs() []database { return []database{mariaDB, mySQL} }

// In a REPEATABLE READ transaction that had read before, a SELECT still sees the claim as one's own after
// it was taken over. The fence must not be such a SELECT.
func TestAnOvertakenHolderIsToldSoInsideAnOldSnapshot(t *testing.T) {
	for _, d := range mySQLs() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			execute(t, db, "CREATE TABLE charges (order_id VARCHAR(40) NOT NULL)")
			s := d.store(t, db, store.WithLease(300*time.Millisecond))
			first, err := s.Claim(t.Context(), "order-1")
			if err != nil {
				t.Fatal(err)
			}
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback() //nolint:errcheck // it is rolled back below
			claimedBy := func() (holder string) {
				t.Helper()
				if err := tx.QueryRow("SELECT claimed_by FROM firsttime_keys WHERE message_id = 'order-1'").Scan(&holder); err != nil {
					t.Fatal(err)
				}
				return holder
			}
			before := claimedBy()
			if _, err := tx.Exec("INSERT INTO charges VALUES ('order-1')"); err != nil {
				t.Fatal(err)
			}
			poll(t, "the claim is taken over", func() bool {
				c, err := s.Claim(t.Context(), "order-1")
				return err == nil && c.Outcome() == store.TakenOver
			})
			if claimedBy() != before {
				t.Fatal("the snapshot is not old: this test shows nothing")
			}
			err = first.ConfirmTx(t.Context(), tx)
			if refusesOldSnapshots(t, db) {
				var server *mysql.MySQLError
				if !errors.Is(err, store.ErrRetryTx) || !errors.As(err, &server) || server.Number != 1020 {
					t.Errorf("ConfirmTx: %v, want ErrRetryTx for error 1020", err)
				}
			} else if !errors.Is(err, store.ErrClaimLost) {
				t.Errorf("ConfirmTx: %v, want ErrClaimLost", err)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if n := count(t, db, "SELECT COUNT(*) FROM charges"); n != 0 {
				t.Errorf("%d charges, want none", n)
			}
		})
	}
}

// refusesOldSnapshots reports whether the server lets no transaction write what changed since its snapshot. So does
// MariaDB from 11.6 on, unless it is told otherwise. Others have no such variable.
func refusesOldSnapshots(t *testing.T, db *sql.DB) bool {
	t.Helper()
	var name, value string
	err := db.QueryRowContext(t.Context(), "SHOW VARIABLES LIKE 'innodb_snapshot_isolation'").Scan(&name, &value)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatal(err)
	}
	return value == "ON"
}

// The hour that comes twice when daylight saving time ends must not make a lease an hour longer or shorter.
// The sessions stand still at chosen moments of it: MySQL's session variable timestamp is their clock.
func TestTheEndOfDaylightSavingTimeMovesNoLease(t *testing.T) {
	const (
		// 2026-10-25 00:59:30 UTC is 02:59:30 in Berlin; 30 s later it is 02:00:00 there, once more.
		beforeTheHour = 1792889970
		lease         = 60
	)
	for _, d := range mySQLs() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			_, dsn := d.migrated(t)
			berlin := 2 * 3600
			at := func(second int64) *store.SQL {
				// A fixed offset that changes at the switch is what a zone with daylight saving time is to
				// one statement; so the server needs no zone tables.
				zone := berlin
				if second >= beforeTheHour+30 {
					zone = berlin - 3600
				}
				db := d.open(t, withConfig(t, dsn, func(c *mysql.Config) {
					c.Params = map[string]string{
						"timestamp": fmt.Sprint(second),
						"time_zone": fmt.Sprintf("'+%02d:00'", zone/3600),
					}
				}))
				return d.store(t, db, store.WithLease(lease*time.Second))
			}
			claim := func(second int64) *store.Claim {
				t.Helper()
				c, err := at(second).Claim(t.Context(), "order-1")
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			if got := claim(beforeTheHour).Outcome(); got != store.First {
				t.Fatalf("outcome %v, want first", got)
			}
			for _, after := range []int64{1, 29, 30, 31, lease - 1} {
				c := claim(beforeTheHour + after)
				if want := time.Duration(lease-after) * time.Second; c.Outcome() != store.InProgress || c.RetryAfter() != want {
					t.Errorf("%d s later: %v, %v left; want in progress, %v left", after, c.Outcome(), c.RetryAfter(), want)
				}
			}
			if got := claim(beforeTheHour + lease).Outcome(); got != store.TakenOver {
				t.Errorf("after the lease: %v, want taken over", got)
			}
		})
	}
}

// 35 minutes are 2^31 microseconds: sqlc types the numbers of TIMESTAMPADD and TIMESTAMPDIFF as 32 bits.
func TestLongLeasesDoNotOverflow(t *testing.T) {
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			const lease = 1000 * 24 * time.Hour
			s := d.store(t, db, store.WithLease(lease), store.WithRetention(20*lease))
			if _, err := s.Claim(t.Context(), "order-1"); err != nil {
				t.Fatal(err)
			}
			c, err := s.Claim(t.Context(), "order-1")
			if err != nil {
				t.Fatal(err)
			}
			if left := c.RetryAfter(); left > lease || left < lease-time.Minute {
				t.Errorf("%v left of a lease of %v", left, lease)
			}
		})
	}
}

func execute(tb testing.TB, db *sql.DB, statement string) {
	tb.Helper()
	if _, err := db.ExecContext(tb.Context(), statement); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

func count(tb testing.TB, db *sql.DB, query string) (n int) {
	tb.Helper()
	if err := db.QueryRowContext(tb.Context(), query).Scan(&n); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return n
}
