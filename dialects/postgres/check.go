package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
)

// What the catalog says of a table that our migrations made.
var columns = []string{
	"scope text C not null", "message_id text C not null", "state text C not null", "claimed_by text C not null",
	"attempts bigint not null", "recorded_at timestamp with time zone not null",
	"leased_until timestamp with time zone not null", "confirmed_at timestamp with time zone",
	"expires_at timestamp with time zone not null",
}

func (d dialect) Check(ctx context.Context, db *sql.DB, mode dialects.StatementMode) (dialects.Findings, error) {
	var f dialects.Findings
	err := check(ctx, db, mode, &f)
	if handedRound(err) {
		f.Fault("pooler", "a pooler in transaction mode is in between, and hands the statements round that the driver prepares: "+err.Error(), withPooler)
		err = nil
	}
	return f, normalize(err)
}

func check(ctx context.Context, db *sql.DB, mode dialects.StatementMode, f *dialects.Findings) error {
	var (
		version, path, isolation   string
		schema                     sql.NullString
		elsewhere                  int
		standby, readOnly, durable bool
	)
	err := db.QueryRowContext(ctx, `SELECT current_setting('server_version'), current_setting('search_path'),
	current_setting('default_transaction_isolation'), pg_is_in_recovery(), current_setting('transaction_read_only')::boolean,
	current_setting('synchronous_commit') <> 'off',
	(SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = to_regclass('firsttime_keys')),
	(SELECT count(*) FROM pg_class WHERE relname = 'firsttime_keys' AND relkind = 'r' AND oid IS DISTINCT FROM to_regclass('firsttime_keys'))`).
		Scan(&version, &path, &isolation, &standby, &readOnly, &durable, &schema, &elsewhere)
	if err != nil {
		return err
	}
	f.Note("server", "PostgreSQL %s", version)
	switch {
	case standby:
		f.Fault("server", "it is a standby, which takes no writes", "connect to the primary")
	case readOnly:
		f.Fault("server", "transactions are read-only by default", "unset default_transaction_read_only for this user or database")
	}
	if !durable {
		f.Warn("synchronous_commit", "it is off: a crash of the server forgets the last keys, with work that was done elsewhere",
			"leave it on for this user")
	}
	if isolation == "read committed" {
		f.Note("isolation", "read committed")
	} else {
		f.Warn("isolation", "it is "+isolation+" by default: transactions that conflict are undone, with ErrRetryTx",
			"retry such transactions, or use read committed for this user")
	}
	if err := checkPooler(ctx, db, mode, f); err != nil {
		return err
	}
	if err := checkText(ctx, db, f); err != nil {
		return err
	}
	if !schema.Valid {
		where := "the search path " + path
		if elsewhere > 0 {
			where += ", but there is one in another schema: is search_path right?"
		}
		f.TableMissing(where)
		return nil
	}
	f.Note("table", "in schema %s", schema.String)
	if elsewhere > 0 {
		f.Warn("search_path", "there is a table firsttime_keys in another schema too: processes with another search_path use that one",
			"set the same search_path for all of them, or drop the other table")
	}
	return checkTable(ctx, db, f)
}

// keepsText reports whether text arrives in the database byte for byte. pgx sends UTF-8 whatever the session calls it: where
// the server takes it for something else, the key has other bytes than with a driver that says UTF8.
func keepsText(ctx context.Context, db *sql.DB) (bool, error) {
	const sent = "é日😀"
	var arrived string
	err := db.QueryRowContext(ctx, "SELECT encode(convert_to($1::text, getdatabaseencoding()::name), 'hex')", sent).Scan(&arrived)
	var server serverError
	if errors.As(err, &server) && strings.HasPrefix(server.SQLState(), "22") { // not every character can be converted
		return false, nil
	}
	return arrived == fmt.Sprintf("%x", sent), err
}

const keepText = "use a database in UTF8, and remove client_encoding from the DSN, the role and the database"

func checkText(ctx context.Context, db *sql.DB, f *dialects.Findings) error {
	kept, err := keepsText(ctx, db)
	if err != nil {
		return err
	}
	if !kept {
		f.Fault("encoding", "text is converted on its way: one key can be two to different processes, or cannot be stored", keepText)
		return nil
	}
	f.Note("encoding", "keys arrive byte by byte")
	return nil
}

func checkTable(ctx context.Context, db *sql.DB, f *dialects.Findings) error {
	have, err := dialects.Strings(ctx, db, `SELECT concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), c.collname,
	CASE WHEN a.attnotnull THEN 'not null' END)
FROM pg_attribute AS a LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass('firsttime_keys') AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum`)
	if err != nil {
		return err
	}
	f.Columns(have, columns)
	const index = `FROM pg_index AS i
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = to_regclass('firsttime_keys') AND i.indisvalid`
	key, err := dialects.Strings(ctx, db, "SELECT a.attname "+index+" AND i.indisprimary ORDER BY array_position(i.indkey::int[], a.attnum::int)")
	if err != nil {
		return err
	}
	f.PrimaryKey(key)
	var expiry bool
	if err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT "+index+
		" AND a.attname = 'expires_at' AND i.indkey[0] = a.attnum AND i.indpred IS NULL)").Scan(&expiry); err != nil {
		return err
	}
	f.ExpiryIndex(expiry)
	f.Written(dialects.Undone(ctx, db, func(tx *sql.Tx) error {
		for _, statement := range []string{
			`INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, expires_at)
VALUES ('firsttime check', gen_random_uuid()::text, 'CLAIMED', 'check', 1, now(), now(), now() + interval '1 day')`,
			`UPDATE firsttime_keys SET attempts = 2 WHERE scope = 'firsttime check'`,
			`DELETE FROM firsttime_keys WHERE scope = 'firsttime check'`,
		} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}), dialects.GrantRights)
	return nil
}

const withPooler = "use store.WithoutPreparedStatements and default_query_exec_mode=simple_protocol (or exec) in the DSN, " +
	"or max_prepared_statements in pgbouncer 1.21 and later"

// handedRound reports whether a statement was prepared already, or is not, as only happens to those who share a
// process of the server.
func handedRound(err error) bool {
	var server serverError
	return errors.As(err, &server) && (server.SQLState() == "42P05" || server.SQLState() == "26000")
}

// checkPooler finds out whether two connections have the same server process: a pooler hands it round between
// transactions then, and with it the statements that others have prepared. A driver that prepares by itself
// fails here.
func checkPooler(ctx context.Context, db *sql.DB, mode dialects.StatementMode, f *dialects.Findings) error {
	if db.Stats().MaxOpenConnections == 1 {
		f.Warn("pool", "it has a single connection, which a handler's transaction keeps from heartbeats and other claims",
			"allow at least two connections for every handler")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	first, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer first.Close()
	var idle, busy int
	if err := first.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&idle); err != nil {
		return err
	}
	second, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer second.Rollback() //nolint:errcheck // it has changed nothing
	if err := second.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&busy); err != nil {
		return err
	}
	if idle == busy && mode == dialects.Prepared {
		f.Warn("pooler", "two connections share a process of the server: a pooler in transaction mode is in between, "+
			"and prepared statements only work if it keeps track of them",
			withPooler)
	}
	return nil
}

func (d dialect) Clock(ctx context.Context, db *sql.DB) (us int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint").Scan(&us)
	return us, d.Normalize(err)
}

func (d dialect) Size(ctx context.Context, db *sql.DB) (s dialects.Size, err error) {
	err = db.QueryRowContext(ctx, `SELECT pg_table_size('firsttime_keys'), pg_indexes_size('firsttime_keys')`).Scan(&s.Table, &s.Index)
	return s, d.Normalize(err)
}
