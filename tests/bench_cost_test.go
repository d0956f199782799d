package tests

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/tests/servers"
)

// BenchmarkCost measures what a message costs a server, for the arithmetic of docs/scaling.md: the processor
// time that a claim and a confirm take, what they write to the server's log, and what the key takes in the
// table afterwards. Others on the machine change none of the three by much, so they say more than a rate does.
func BenchmarkCost(b *testing.B) {
	const goroutines = 16
	for _, measured := range []struct {
		database
		kind    servers.Kind
		logged  string // bytes that the server wrote to its log so far
		analyze string // brings the server's knowledge of sizes up to date
	}{
		{postgresDB, servers.Postgres, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn", "ANALYZE firsttime_keys"},
		{mariaDB, servers.MariaDB, "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status " +
			"WHERE variable_name = 'Innodb_os_log_written'", "ANALYZE TABLE firsttime_keys"},
	} {
		for _, key := range []struct {
			name string
			make func() string
		}{
			{"short", func() string { return rand.Text()[:22] }}, // 16 random bytes in base64 are as long
			{"UUIDv4", newKey},
			{"UUIDv7", func() string { return fmt.Sprintf("%012x", time.Now().UnixMilli()) + newKey()[12:] }},
		} {
			b.Run("db="+measured.name+"/key="+key.name, func(b *testing.B) {
				server := servers.Shared(b, measured.kind)
				db := measured.pool(b)
				s := measured.store(b, db)
				message := func(ctx context.Context, _ string) error {
					c, err := s.Claim(ctx, key.make())
					if err != nil {
						return err
					}
					return c.Confirm(ctx)
				}
				cpu, log := processorTime(b, server), number(b, db, measured.logged)
				parallel(b, goroutines, message)
				b.StopTimer()
				keys := number(b, db, "SELECT COUNT(*) FROM firsttime_keys")
				b.ReportMetric((processorTime(b, server)-cpu)/keys, "server-cpu-µs/msg")
				b.ReportMetric((number(b, db, measured.logged)-log)/keys, "log-B/msg")
				if _, err := db.ExecContext(b.Context(), measured.analyze); err != nil {
					b.Fatal(err)
				}
				size, err := s.Size(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(size.Table+size.Index)/keys, "table-B/key")
			})
		}
	}
}

// processorTime is what the server has used so far, in microseconds.
func processorTime(b *testing.B, s *servers.Server) float64 {
	b.Helper()
	used, err := s.ProcessorTime()
	if err != nil {
		b.Fatal(err)
	}
	return float64(used.Microseconds())
}

func number(b *testing.B, db *sql.DB, query string) (n float64) {
	b.Helper()
	if err := db.QueryRowContext(b.Context(), query).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}
