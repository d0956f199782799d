// Package mysql is the dialect of MySQL and MariaDB with go-sql-driver/mysql. In its DSN parseTime, loc, clientFoundRows
// and interpolateParams may be as the application likes them. Open refuses sessions that would break the promises: those
// without autocommit, with dirty reads, or with character sets that change keys.
package mysql

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-sql-driver/mysql"

	"github.com/firsttime-go/firsttime/dialects"
	gen "github.com/firsttime-go/firsttime/gen/mysql"
)

// Dialect speaks to MySQL 8.0.16 and MariaDB 10.6, and to later versions of both.
var Dialect dialects.Dialect = dialect{}

type dialect struct{}

func (dialect) Name() string { return "mysql" }

func (d dialect) Open(ctx context.Context, db *sql.DB, mode dialects.StatementMode) (dialects.Queries, error) {
	plain := gen.New(db)
	if _, err := plain.ServerVersion(ctx); err != nil {
		var server *mysql.MySQLError
		return nil, dialects.Refused(ctx, d.Name(), normalize(err), errors.As(err, &server))
	}
	on, err := plain.Autocommit(ctx)
	switch {
	case err != nil:
		return nil, normalize(err)
	case on == 0:
		return nil, errors.New("autocommit is off in the sessions of db, so that no claim would ever be committed: " +
			"remove autocommit from its DSN")
	}
	level, err := isolation(ctx, db)
	switch {
	case err != nil:
		return nil, normalize(err)
	case level == readUncommitted:
		return nil, errors.New("the sessions of db read what is not committed, so that a message could be acknowledged " +
			"whose work is rolled back: remove transaction_isolation from its DSN, or set it to READ-COMMITTED")
	}
	kept, err := keepsText(ctx, db)
	switch {
	case err != nil:
		return nil, normalize(err)
	case !kept:
		return nil, errors.New("the sessions of db turn text into another character set, so that different keys can become one " +
			"and messages be acknowledged that nobody handled: " + textRemedy)
	}
	if mode == dialects.Unprepared {
		q := queries{plain, db}
		return q, dialects.CheckTable(ctx, q)
	}
	prepared, err := gen.Prepare(ctx, db)
	if err != nil {
		return nil, normalize(err)
	}
	return queries{prepared, db}, nil
}

func (dialect) Normalize(err error) error { return normalize(err) }

func normalize(err error) error {
	if err == nil || dialects.Marked(err) {
		return err
	}
	if errors.Is(err, sql.ErrNoRows) {
		return dialects.Mark(dialects.ErrNotFound, err)
	}
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		if sentinel := classify(server.Number); sentinel != nil {
			return dialects.Mark(sentinel, err)
		}
		return err
	}
	if errors.Is(err, mysql.ErrInvalidConn) || dialects.ConnectionLost(err) {
		return dialects.Mark(dialects.ErrOutcomeUnknown, err)
	}
	return err
}

// classify maps an error number to a sentinel, nil where there is none.
func classify(number uint16) error {
	switch number {
	case 1213, // deadlock; on Galera also the loser of a certification
		1205,       // lock wait time-out
		1020,       // record changed since the snapshot (MariaDB, snapshot isolation)
		1047,       // Galera: the node is not part of the primary component
		1969, 3024, // statement time-out (MariaDB, MySQL)
		3101,                   // Group Replication: the loser of a certification
		3572,                   // NOWAIT found a lock
		9007, 8022, 8002, 8028: // TiDB: write conflict, retryable commit, lost lock, schema changed
		return dialects.ErrRetryable
	case 1040, // too many connections
		1021, 1114, // disk full, table full
		1290, 1836: // the server is read-only, as a node is that has left its group
		return dialects.Mark(dialects.ErrRetryable, dialects.ErrUnavailable)
	case 1180, // COMMIT failed, for a cause that stands in the text alone
		1053, // the server shuts down
		1927, // MariaDB: the connection was killed
		3100, // Group Replication: the node has no majority, while the others may have got the transaction
		3169: // MySQL: the session was killed
		return dialects.ErrOutcomeUnknown
	case 1146, 1054, 1049: // no such table, column, database
		return dialects.ErrNotMigrated
	}
	return nil
}

func isUniqueViolation(err error) bool {
	if err == nil {
		return false // before the variable below is allocated
	}
	var server *mysql.MySQLError
	return errors.As(err, &server) && (server.Number == 1062 || server.Number == 1586)
}
