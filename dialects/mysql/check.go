package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/firsttime-go/firsttime/dialects"
)

// What the catalog says of a table that our migrations made. Servers differ in how wide they call a BIGINT.
var columns = []string{
	"scope varbinary(64) NO", "message_id varbinary(255) NO", "state varbinary(9) NO", "claimed_by varbinary(128) NO",
	"attempts bigint NO", "recorded_at datetime(6) NO", "leased_until datetime(6) NO", "confirmed_at datetime(6) YES",
	"expires_at datetime(6) NO",
}

func (d dialect) Check(ctx context.Context, db *sql.DB, _ dialects.StatementMode) (dialects.Findings, error) {
	var (
		f                                    dialects.Findings
		version, database, mode, engine      string
		autocommit, readOnly, innodbReadOnly int
	)
	err := db.QueryRowContext(ctx, `SELECT @@version, COALESCE(DATABASE(), ''), @@sql_mode, @@autocommit, @@read_only, @@innodb_read_only,
	COALESCE((SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'firsttime_keys'), '')`).
		Scan(&version, &database, &mode, &autocommit, &readOnly, &innodbReadOnly, &engine)
	if err != nil {
		return nil, normalize(err)
	}
	product := "MySQL"
	for _, other := range []string{"MariaDB", "TiDB"} {
		if strings.Contains(version, other) {
			product = other
		}
	}
	f.Note("server", "%s %s", product, version)
	if autocommit == 0 {
		f.Fault("autocommit", "it is off, so that no claim would ever be committed", "remove autocommit from the DSN and from init_connect")
	}
	if readOnly != 0 || innodbReadOnly != 0 {
		f.Fault("server", "it is read-only, as replicas are", "connect to the primary")
	}
	if strings.Contains(mode, "STRICT_") {
		f.Note("sql_mode", "strict")
	} else {
		f.Note("sql_mode", "not strict, which does not matter to the keys: their lengths are checked before")
	}
	if err := checkIsolation(ctx, db, &f); err != nil {
		return nil, normalize(err)
	}
	if err := checkText(ctx, db, &f); err != nil {
		return nil, normalize(err)
	}
	if err := checkBinlog(ctx, db, &f); err != nil {
		return nil, normalize(err)
	}
	if db.Stats().MaxOpenConnections == 1 {
		f.Warn("pool", "it has a single connection, which a handler's transaction keeps from heartbeats and other claims",
			"allow at least two connections for every handler")
	}
	switch engine {
	case "":
		f.TableMissing("database " + database)
		return f, nil
	case "InnoDB":
		f.Note("table", "in database %s", database)
	default:
		f.Fault("engine", "the table's engine is "+engine+", which has no transactions", "ALTER TABLE firsttime_keys ENGINE = InnoDB")
	}
	return f, normalize(checkTable(ctx, db, &f))
}

// isolation is the isolation level of new transactions.
func isolation(ctx context.Context, db *sql.DB) (level string, err error) {
	err = db.QueryRowContext(ctx, "SELECT @@transaction_isolation").Scan(&level)
	if isUnknownVariable(err) { // MariaDB before 11.1
		err = db.QueryRowContext(ctx, "SELECT @@tx_isolation").Scan(&level)
	}
	return level, err
}

func isUnknownVariable(err error) bool {
	var server *mysql.MySQLError
	return errors.As(err, &server) && server.Number == 1193
}

const readUncommitted = "READ-UNCOMMITTED"

func checkIsolation(ctx context.Context, db *sql.DB, f *dialects.Findings) error {
	isolation, err := isolation(ctx, db)
	if err != nil {
		return err
	}
	switch isolation {
	case "SERIALIZABLE":
		f.Warn("isolation", "it is SERIALIZABLE by default: reads of one transaction make others wait", "use READ COMMITTED or REPEATABLE READ")
	case readUncommitted:
		f.Fault("isolation", "it is READ UNCOMMITTED by default: a claim can be told of a confirm that is rolled back later, "+
			"and its message be acknowledged", "use READ COMMITTED or REPEATABLE READ")
	default:
		f.Note("isolation", "%s", isolation)
	}
	return nil
}

func checkBinlog(ctx context.Context, db *sql.DB, f *dialects.Findings) error {
	var on, format string
	err := db.QueryRowContext(ctx, "SELECT @@log_bin, @@binlog_format").Scan(&on, &format)
	if isUnknownVariable(err) { // TiDB has none
		return nil
	}
	if err == nil && on != "0" && format == "STATEMENT" {
		f.Fault("binlog_format", "it is STATEMENT: purges run in READ COMMITTED, which the server refuses then", "use ROW or MIXED")
	}
	return err
}

// keepsText reports whether text arrives at the server byte for byte. A session whose connection has another character
// set than its client converts parameters, even those for a column of bytes: MariaDB makes a question mark of every
// character that the other set lacks, and MySQL refuses it.
func keepsText(ctx context.Context, db *sql.DB) (bool, error) {
	const sent = "é日😀"
	var arrived string
	err := db.QueryRowContext(ctx, "SELECT HEX(?)", sent).Scan(&arrived)
	var server *mysql.MySQLError
	if errors.As(err, &server) && server.Number == 3988 { // MySQL: not every character can be converted
		return false, nil
	}
	return arrived == fmt.Sprintf("%X", sent), err
}

// textRemedy is what to do about a session that does not keep text.
const textRemedy = "remove character_set_client, character_set_connection and collation_connection from its DSN and from init_connect"

func checkText(ctx context.Context, db *sql.DB, f *dialects.Findings) error {
	kept, err := keepsText(ctx, db)
	if err != nil {
		return err
	}
	if !kept {
		f.Fault("character set", "the session turns text into another one: different keys can become one", textRemedy)
		return nil
	}
	f.Note("character set", "keys arrive byte by byte")
	return nil
}

func checkTable(ctx context.Context, db *sql.DB, f *dialects.Findings) error {
	have, err := dialects.Strings(ctx, db, `SELECT CONCAT(column_name, ' ', IF(data_type = 'bigint', 'bigint', column_type), ' ', is_nullable)
FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'firsttime_keys' ORDER BY ordinal_position`)
	if err != nil {
		return err
	}
	f.Columns(have, columns)
	const index = "FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'firsttime_keys'"
	key, err := dialects.Strings(ctx, db, "SELECT IF(sub_part IS NULL, column_name, CONCAT(column_name, '(', sub_part, ')')) "+index+
		" AND index_name = 'PRIMARY' ORDER BY seq_in_index")
	if err != nil {
		return err
	}
	f.PrimaryKey(key)
	var expiry int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) "+index+" AND column_name = 'expires_at' AND seq_in_index = 1").Scan(&expiry); err != nil {
		return err
	}
	f.ExpiryIndex(expiry > 0)
	f.Written(dialects.Undone(ctx, db, func(tx *sql.Tx) error { return tryToWrite(ctx, tx, f) }), dialects.GrantRights)
	return nil
}

func tryToWrite(ctx context.Context, tx *sql.Tx, f *dialects.Findings) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, expires_at)
VALUES ('firsttime check', UUID(), 'CLAIMED', 'check', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 DAY)`)
	if err != nil {
		return err
	}
	result, err := tx.ExecContext(ctx, "UPDATE firsttime_keys SET attempts = 1 WHERE scope = 'firsttime check'")
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err == nil && n > 0 {
		f.Note("clientFoundRows", "on; it does not matter to the keys")
	} else {
		f.Note("clientFoundRows", "off; it does not matter to the keys")
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM firsttime_keys WHERE scope = 'firsttime check'")
	return err
}

func (dialect) Clock(ctx context.Context, db *sql.DB) (us int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS SIGNED)").Scan(&us)
	return us, normalize(err)
}

func (dialect) Size(ctx context.Context, db *sql.DB) (s dialects.Size, err error) {
	err = db.QueryRowContext(ctx, `SELECT COALESCE(data_length, 0), COALESCE(index_length, 0) FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = 'firsttime_keys'`).Scan(&s.Table, &s.Index)
	if errors.Is(err, sql.ErrNoRows) {
		return s, dialects.ErrNotMigrated
	}
	if err != nil {
		return s, fmt.Errorf("size of the table: %w", normalize(err))
	}
	return s, nil
}
