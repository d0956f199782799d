package tests

import (
	"database/sql"
	"fmt"
	"testing"
)

// Statements are prepared once per connection, those in a caller's transaction included.
func TestATransactionPreparesNothingAgain(t *testing.T) {
	const transactions = 20
	for _, d := range []database{postgresDB, mariaDB, mySQL} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			db.SetMaxOpenConns(1)
			s := d.store(t, db)
			confirm := func(key string) {
				t.Helper()
				c := mustClaim(t, s.Scoped, key)
				if err := c.InTx(t.Context(), db, func(*sql.Tx) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			confirm("the first of its connection")
			before := prepared(t, d, db)
			for i := range transactions {
				confirm(fmt.Sprintf("order-%d", i))
			}
			if n := prepared(t, d, db) - before; n != 0 {
				t.Errorf("%d transactions prepared %d statements, want none", transactions, n)
			}
		})
	}
}

// prepared counts what the only connection of db ever prepared (MySQL), or keeps prepared (PostgreSQL).
func prepared(t *testing.T, d database, db *sql.DB) int {
	t.Helper()
	if d.driver == "pgx" {
		return count(t, db, "SELECT COUNT(*) FROM pg_prepared_statements")
	}
	var name string
	var n int
	if err := db.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE 'Com_stmt_prepare'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
