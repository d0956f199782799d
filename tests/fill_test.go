package tests

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

// fill puts expired keys whose retention is over and kept ones whose retention runs into the table, all
// CONFIRMED, the way time does: the keys are random, 36 bytes like a UUID, and expired a millisecond after each
// other. The server makes them itself.
func (d database) fill(tb testing.TB, db *sql.DB, expired, kept int) {
	tb.Helper()
	for _, statement := range d.filling(expired, kept) {
		execute(tb, db, statement)
	}
}

// filling are the statements of fill. Where rows lie in the order of their keys, they go in sorted, and the
// index is made at the end: one by one they would take an hour for what takes a minute.
func (d database) filling(expired, kept int) []string {
	const columns = "INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, confirmed_at, expires_at) "
	total := expired + kept
	switch d.dialect.Name() {
	case "postgres": // whose rows lie in the order in which they came
		return []string{
			columns + fmt.Sprintf(`SELECT 'filled', left(encode(sha256(i::text::bytea), 'hex'), 36), 'CONFIRMED', '%s', 1, t, t, t, t
			FROM (SELECT i, now() + (i - %d - CASE WHEN i > %[2]d THEN 0 ELSE 1 END) * interval '1 millisecond'
				+ CASE WHEN i > %[2]d THEN interval '1 hour' ELSE interval '0' END AS t FROM generate_series(1, %d) AS i) AS numbered`,
				benchHolder, expired, total),
			"VACUUM (ANALYZE) firsttime_keys", // as autovacuum will have done
		}
	case "mysql":
		digits := make([]string, 8)
		for i := range digits {
			digits[i] = fmt.Sprintf("digits AS d%d", i)
		}
		return []string{
			// The defaults, of 128 and 96 MB, are not for a table of this size.
			"SET GLOBAL innodb_buffer_pool_size = 2 << 30",
			"SET GLOBAL innodb_log_file_size = 1 << 30",
			"ALTER TABLE firsttime_keys DROP INDEX firsttime_keys_expires_at",
			columns + fmt.Sprintf(`WITH digits AS (SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4
				UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9),
			numbers AS (SELECT 1 + d0.d + 10 * d1.d + 100 * d2.d + 1000 * d3.d + 10000 * d4.d + 100000 * d5.d + 1000000 * d6.d
				+ 10000000 * d7.d AS i FROM %s),
			numbered AS (SELECT i, UTC_TIMESTAMP(6) + INTERVAL (i - %d - IF(i > %[2]d, 0, 1)) * 1000 MICROSECOND
				+ INTERVAL IF(i > %[2]d, 1, 0) HOUR AS t FROM numbers WHERE i <= %d)
			SELECT 'filled', LEFT(SHA1(i), 36), 'CONFIRMED', '%s', 1, t, t, t, t FROM numbered ORDER BY 2`,
				strings.Join(digits, " CROSS JOIN "), expired, total, benchHolder),
			"ALTER TABLE firsttime_keys ADD INDEX firsttime_keys_expires_at (expires_at)",
			"ANALYZE TABLE firsttime_keys",
		}
	}
	return []string{
		"DROP INDEX firsttime_keys_expires_at",
		columns + fmt.Sprintf(`WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < %d),
			numbered AS (SELECT i, CAST(unixepoch('subsec') * 1000000 AS INTEGER) + (i - %d - iif(i > %[2]d, 0, 1)) * 1000
				+ iif(i > %[2]d, 3600000000, 0) AS t FROM numbers)
			SELECT 'filled', lower(hex(randomblob(18))), 'CONFIRMED', '%s', 1, t, t, t, t FROM numbered ORDER BY 2`,
			total, expired, benchHolder),
		"CREATE INDEX firsttime_keys_expires_at ON firsttime_keys (expires_at)",
	}
}
