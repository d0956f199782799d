package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/store"
)

// failing is work that executes statements until one fails.
func failing(statements ...string) func(ctx context.Context, tx *sql.Tx, id string) error {
	return func(ctx context.Context, tx *sql.Tx, _ string) error {
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}
}

// raise is a statement that PostgreSQL refuses as if for a SQLSTATE.
func raise(state string) string {
	return "DO $$ BEGIN RAISE EXCEPTION 'as if' USING ERRCODE = '" + state + "'; END $$"
}

// raiseNumber is a statement that MySQL and MariaDB refuse with the number of an error.
func raiseNumber(number int) string {
	return fmt.Sprintf("SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = %d", number)
}

// A message that meets a database which is full or read-only is retried however often: it must not end among the
// dead letters for that. What its own statements met spends an attempt.
func TestOnlyTheMessagesOwnFailuresSpendAttempts(t *testing.T) {
	const insert = "INSERT INTO effects VALUES ('A-1')"
	type workCase struct {
		work  func(ctx context.Context, tx *sql.Tx, id string) error
		spend bool
	}
	signals := map[string]workCase{
		"disk full":          {failing(raiseNumber(1021)), false},
		"table full":         {failing(raiseNumber(1114)), false},
		"server read-only":   {failing(raiseNumber(1290)), false},
		"deadlock":           {failing(raiseNumber(1213)), true},
		"statement time-out": {failing(raiseNumber(1969)), true},
		"its own mistake":    {failing("INSERT INTO nowhere VALUES (1)"), true},
	}
	for _, c := range []struct {
		database
		cases map[string]workCase
	}{
		{postgresDB, map[string]workCase{
			"disk full":                   {failing(raise("53100")), false},
			"read-only at a statement":    {failing("SET TRANSACTION READ ONLY", insert), false},
			"read-only at the confirm":    {failing("SET TRANSACTION READ ONLY"), false},
			"deadlock":                    {failing(raise("40P01")), true},
			"statement time-out":          {failing("SET LOCAL statement_timeout = 50", "SELECT pg_sleep(5)"), true},
			"its own mistake":             {failing("INSERT INTO nowhere VALUES (1)"), true},
			"a constraint, at the commit": {failing("CREATE TEMPORARY TABLE twice (n int UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP", "INSERT INTO twice VALUES (1), (1)"), true},
		}},
		{mariaDB, signals},
		{mySQL, signals},
		{sqliteDB, map[string]workCase{
			"read-only at a statement": {failing("PRAGMA query_only = 1", insert), false},
			"read-only at the confirm": {failing("PRAGMA query_only = 1"), false},
			"full":                     {failing("PRAGMA max_page_count = 1", "INSERT INTO effects VALUES (hex(zeroblob(100000)))"), false},
			"its own mistake":          {failing("INSERT INTO nowhere VALUES (1)"), true},
		}},
	} {
		for name, work := range c.cases {
			t.Run(c.name+" "+name, func(t *testing.T) {
				t.Parallel()
				db, _ := c.migrated(t)
				effects(t, db)
				db.SetMaxOpenConns(1) // which is thrown away with its settings
				s := c.store(t, db)
				ack := consumer.Idempotent(s, messageID, consumer.InTx(db, work.work), quiet)(t.Context(), "A-1")
				if ack.Verdict() != consumer.VerdictRetry || ack.SpendsAttempt() != work.spend || errors.Is(ack.Err(), store.ErrUnavailable) == work.spend {
					t.Errorf("answer %v; it spends an attempt: %v, want %v", ack, ack.SpendsAttempt(), work.spend)
				}
			})
		}
	}
}

// The confirm in the transaction runs into a time limit, because somebody else has the key's row locked.
func TestATimeLimitThatTheConfirmMeetsSpendsNoAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		database
		limit string
	}{
		"PostgreSQL, lock":      {postgresDB, "SET LOCAL lock_timeout = 50"},
		"PostgreSQL, statement": {postgresDB, "SET LOCAL statement_timeout = 50"},
		"MariaDB, lock":         {mariaDB, "SET SESSION innodb_lock_wait_timeout = 1"},
		"MariaDB, statement":    {mariaDB, "SET SESSION max_statement_time = 0.05"},
		"MySQL, lock":           {mySQL, "SET SESSION innodb_lock_wait_timeout = 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, _ := c.migrated(t)
			other, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Rollback() //nolint:errcheck // it changes nothing
			s := c.store(t, db, store.WithTimeout(2*time.Second))
			ack := consumer.Idempotent(s, messageID, consumer.InTx(db, func(ctx context.Context, tx *sql.Tx, id string) error {
				if _, err := other.ExecContext(ctx, "UPDATE firsttime_keys SET attempts = attempts + 1 WHERE message_id = '"+id+"'"); err != nil {
					return err
				}
				return failing(c.limit)(ctx, tx, id)
			}), quiet)(t.Context(), "A-1")
			if ack.Verdict() != consumer.VerdictRetry || ack.SpendsAttempt() || !errors.Is(ack.Err(), store.ErrRetryTx) {
				t.Errorf("answer %v; it spends an attempt: %v, want a retry of the transaction that spends none", ack, ack.SpendsAttempt())
			}
		})
	}
}
