package tests

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/firsttime-go/firsttime/store"
)

// The floor is what anybody would write by hand: the same two statements, prepared, through the same
// driver and pool. Compare the columns of one run, see `make bench`.
type floor struct{ claim, confirm string }

func floorOf(d database) floor {
	switch d.dialect.Name() {
	case "postgres":
		return floor{
			`INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, expires_at)
			VALUES ($1, $2, 'CLAIMED', $3, 1, clock_timestamp(), clock_timestamp() + $4::bigint * interval '1 microsecond',
				clock_timestamp() + $5::bigint * interval '1 microsecond') ON CONFLICT DO NOTHING`,
			`UPDATE firsttime_keys SET state = 'CONFIRMED', confirmed_at = clock_timestamp()
			WHERE scope = $1 AND message_id = $2 AND claimed_by = $3`,
		}
	case "mysql":
		return floor{
			`INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, expires_at)
			VALUES (?, ?, 'CLAIMED', ?, 1, UTC_TIMESTAMP(6), TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6)),
				TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(6)))`,
			`UPDATE firsttime_keys SET state = 'CONFIRMED', confirmed_at = UTC_TIMESTAMP(6)
			WHERE scope = ? AND message_id = ? AND claimed_by = ?`,
		}
	}
	return floor{
		`INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, expires_at)
		VALUES (?, ?, 'CLAIMED', ?, 1, unixepoch('subsec') * 1000000, unixepoch('subsec') * 1000000 + ?,
			unixepoch('subsec') * 1000000 + ?) ON CONFLICT DO NOTHING`,
		`UPDATE firsttime_keys SET state = 'CONFIRMED', confirmed_at = unixepoch('subsec') * 1000000
		WHERE scope = ? AND message_id = ? AND claimed_by = ?`,
	}
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
			b.Run(name+"floor", func(b *testing.B) {
				db := d.pool(b)
				f := floorOf(d)
				claim, confirm := prepare(b, db, f.claim), prepare(b, db, f.confirm)
				parallel(b, goroutines, func(ctx context.Context, key string) error {
					if _, err := claim.ExecContext(ctx, "bench", key, "bench/0123456789abcdef0123456789abcdef", 300e6, 86400e6); err != nil {
						return err
					}
					_, err := confirm.ExecContext(ctx, "bench", key, "bench/0123456789abcdef0123456789abcdef")
					return err
				})
			})
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
				if _, err := claim.ExecContext(ctx, "default", "order-1", "bench", 300e6, 86400e6); err == nil {
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
	insert = floorOf(d).claim
	now := map[string]string{"postgres": "clock_timestamp()", "mysql": "UTC_TIMESTAMP(6)", "sqlite": "unixepoch('subsec') * 1000000"}[d.dialect.Name()]
	takeover = "UPDATE firsttime_keys SET claimed_by = ?, attempts = attempts + 1 WHERE scope = ? AND message_id = ? AND state = 'CLAIMED' AND leased_until <= " + now
	const ignoring = "ON CONFLICT DO NOTHING"
	if n := len(insert) - len(ignoring); insert[n:] == ignoring {
		insert = insert[:n]
	}
	if d.dialect.Name() == "postgres" {
		takeover = "UPDATE firsttime_keys SET claimed_by = $1, attempts = attempts + 1 WHERE scope = $2 AND message_id = $3 AND state = 'CLAIMED' AND leased_until <= " + now
	}
	return insert, takeover
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
