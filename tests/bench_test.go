package tests

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/firsttime-go/firsttime/store"
)

// floor is what the library adds to: the same two statements, prepared by hand, through the same driver and
// pool. Compare the columns of one run, see `make bench`.
type floor struct {
	claim, confirm string
	returnsRow     bool // the claim's statement does
}

const (
	benchHolder    = "bench/0123456789abcdef0123456789abcdef"
	benchLease     = 300e6
	benchRetention = 86400e6
)

func floorOf(d database) floor {
	const insert = `INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, expires_at) `
	switch d.dialect.Name() {
	case "postgres":
		return floor{returnsRow: true,
			claim: `WITH claimed AS (` + plainPostgresClaim + ` ON CONFLICT DO NOTHING RETURNING 1)
			SELECT EXISTS (SELECT 1 FROM claimed), COALESCE(k.state, ''), COALESCE(k.claimed_by, ''), COALESCE(k.attempts, 0),
				COALESCE((EXTRACT(EPOCH FROM k.leased_until - clock_timestamp()) * 1000000)::bigint, 0)
			FROM (SELECT 1) AS one LEFT JOIN firsttime_keys AS k ON k.scope = $1 AND k.message_id = $2`,
			confirm: `UPDATE firsttime_keys SET state = 'CONFIRMED', confirmed_at = clock_timestamp()
			WHERE scope = $1 AND message_id = $2 AND claimed_by = $3`,
		}
	case "mysql":
		return floor{
			claim: insert + `VALUES (?, ?, 'CLAIMED', ?, 1, UTC_TIMESTAMP(6), TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6)),
				TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6)))`,
			confirm: `UPDATE firsttime_keys SET state = 'CONFIRMED', confirmed_at = UTC_TIMESTAMP(6)
			WHERE scope = ? AND message_id = ? AND claimed_by = ?`,
		}
	}
	return floor{
		claim: insert + `VALUES (?, ?, 'CLAIMED', ?, 1, unixepoch('subsec') * 1000000, unixepoch('subsec') * 1000000 + ?,
			unixepoch('subsec') * 1000000 + ?) ON CONFLICT DO NOTHING`,
		confirm: `UPDATE firsttime_keys SET state = 'CONFIRMED', confirmed_at = unixepoch('subsec') * 1000000
		WHERE scope = ? AND message_id = ? AND claimed_by = ?`,
	}
}

const plainPostgresClaim = `INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, expires_at)
	VALUES ($1, $2, 'CLAIMED', $3, 1, clock_timestamp(), clock_timestamp() + $4::bigint * interval '1 microsecond',
		clock_timestamp() + $5::bigint * interval '1 microsecond')`

// run claims and confirms key with prepared statements.
func (f floor) run(ctx context.Context, claim, confirm *sql.Stmt, key string) error {
	if f.returnsRow {
		var (
			won              bool
			state, claimedBy string
			attempts, left   int64
		)
		err := claim.QueryRowContext(ctx, "bench", key, benchHolder, int64(benchLease), int64(benchRetention)).
			Scan(&won, &state, &claimedBy, &attempts, &left)
		if err != nil {
			return err
		}
	} else if _, err := claim.ExecContext(ctx, "bench", key, benchHolder, int64(benchLease), int64(benchRetention)); err != nil {
		return err
	}
	_, err := confirm.ExecContext(ctx, "bench", key, benchHolder)
	return err
}

func benchmarked() []database { return []database{sqliteDB, postgresDB, mariaDB} }

// pool is a new database with the pool that fits it: SQLite has one writer, and more connections would only
// sleep until it is their turn.
func (d database) pool(b *testing.B) *sql.DB {
	b.Helper()
	db, _ := d.migrated(b)
	if d.name == "SQLite" {
		db.SetMaxOpenConns(1)
	}
	return db
}

func BenchmarkClaimConfirm(b *testing.B) {
	for _, d := range benchmarked() {
		for _, goroutines := range []int{1, 16, 64} {
			name := fmt.Sprintf("db=%s/goroutines=%d/impl=", d.name, goroutines)
			b.Run(name+"floor", func(b *testing.B) { benchmarkFloor(b, d, floorOf(d), goroutines) })
			if d.name == "PostgreSQL" { // whose floor does more than it must, for the sake of duplicates
				f := floorOf(d)
				f.claim, f.returnsRow = plainPostgresClaim+" ON CONFLICT DO NOTHING", false
				b.Run(name+"plain", func(b *testing.B) { benchmarkFloor(b, d, f, goroutines) })
			}
			b.Run(name+"firsttime", func(b *testing.B) {
				db := d.pool(b)
				s := d.store(b, db)
				parallel(b, goroutines, func(ctx context.Context, key string) error {
					c, err := s.Claim(ctx, key)
					if err != nil {
						return err
					}
					return c.Confirm(ctx)
				})
			})
		}
	}
}

func benchmarkFloor(b *testing.B, d database, f floor, goroutines int) {
	db := d.pool(b)
	claim, confirm := prepare(b, db, f.claim), prepare(b, db, f.confirm)
	parallel(b, goroutines, func(ctx context.Context, key string) error { return f.run(ctx, claim, confirm, key) })
}

// BenchmarkDuplicate compares a claim on a key that is CONFIRMED with the widespread way of an INSERT that
// fails and an UPDATE that is guarded by state and lease.
func BenchmarkDuplicate(b *testing.B) {
	const goroutines = 16
	for _, d := range benchmarked() {
		b.Run("db="+d.name+"/impl=floor", func(b *testing.B) {
			db := d.pool(b)
			confirmed(b, d, db)
			insert, takeover := failingInsert(d)
			claim, update := prepare(b, db, insert), prepare(b, db, takeover)
			parallel(b, goroutines, func(ctx context.Context, _ string) error {
				if _, err := claim.ExecContext(ctx, "default", "order-1", benchHolder, int64(benchLease), int64(benchRetention)); err == nil {
					return fmt.Errorf("a duplicate was inserted")
				}
				_, err := update.ExecContext(ctx, "bench", "default", "order-1")
				return err
			})
		})
		b.Run("db="+d.name+"/impl=firsttime", func(b *testing.B) {
			db := d.pool(b)
			s := confirmed(b, d, db)
			parallel(b, goroutines, func(ctx context.Context, _ string) error {
				c, err := s.Claim(ctx, "order-1")
				if err == nil && c.Outcome() != store.Duplicate {
					err = fmt.Errorf("outcome %v", c.Outcome())
				}
				return err
			})
		})
	}
}

func confirmed(b *testing.B, d database, db *sql.DB) *store.SQL {
	b.Helper()
	s := d.store(b, db)
	if err := s.Confirm(b.Context(), "order-1"); err != nil {
		b.Fatal(err)
	}
	return s
}

func failingInsert(d database) (insert, takeover string) {
	insert = strings.TrimSuffix(floorOf(d).claim, "ON CONFLICT DO NOTHING")
	update := "UPDATE firsttime_keys SET claimed_by = %s, attempts = attempts + 1 WHERE scope = %s AND message_id = %s AND state = 'CLAIMED' AND leased_until <= %s"
	switch d.dialect.Name() {
	case "postgres":
		return plainPostgresClaim, fmt.Sprintf(update, "$1", "$2", "$3", "clock_timestamp()")
	case "mysql":
		return insert, fmt.Sprintf(update, "?", "?", "?", "UTC_TIMESTAMP(6)")
	}
	return insert, fmt.Sprintf(update, "?", "?", "?", "unixepoch('subsec') * 1000000")
}

func prepare(b *testing.B, db *sql.DB, query string) *sql.Stmt {
	b.Helper()
	stmt, err := db.PrepareContext(b.Context(), query)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stmt.Close() })
	return stmt
}

// parallel runs op b.N times with a new key each, on that many goroutines, after a warm-up that opens and
// prepares the connections. The context can be cancelled, as a consumer's can.
func parallel(b *testing.B, goroutines int, op func(ctx context.Context, key string) error) {
	b.Helper()
	run := func(prefix string, n int) {
		var (
			next    atomic.Int64
			workers sync.WaitGroup
		)
		for range goroutines {
			workers.Go(func() {
				for {
					i := next.Add(1)
					if i > int64(n) {
						return
					}
					if err := op(b.Context(), fmt.Sprintf("%s-%d", prefix, i)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		workers.Wait()
	}
	run(fmt.Sprintf("warm-up-%d", b.N), 4*goroutines)
	b.ReportAllocs()
	b.ResetTimer()
	run(fmt.Sprintf("order-%d", b.N), b.N)
}
