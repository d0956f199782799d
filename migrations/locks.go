package migrations

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"
)

// goose has a session lock for PostgreSQL alone. These are the ones for the others.

var errLockTimeout = errors.New("another process has been migrating for a minute: wait for it, then try again")

// mysqlLocker uses a named lock of the server, which ends with its session.
type mysqlLocker struct{}

const mysqlLockName = "firsttime_migrations"

func (mysqlLocker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 60)", mysqlLockName).Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errLockTimeout
	}
	return nil
}

func (mysqlLocker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var released sql.NullInt64
	return conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", mysqlLockName).Scan(&released)
}

// sqliteLocker uses a table that exists while somebody migrates. SQLite's own locks would not do: the
// migrations are transactions of their own in the same session.
type sqliteLocker struct {
	owner string
}

// A lock whose process died is honoured for this long. A migration takes milliseconds.
const sqliteLockSeconds = 15

func newSQLiteLocker() sqliteLocker { return sqliteLocker{owner: rand.Text()} }

func (l sqliteLocker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errLockTimeout)
	defer cancel()
	for {
		locked, err := l.tryLock(ctx, conn)
		if locked {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tryLock fails while another process changes the schema or holds the file; either passes.
func (l sqliteLocker) tryLock(ctx context.Context, conn *sql.Conn) (bool, error) {
	_, err := conn.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS firsttime_goose_lock (
		id INTEGER PRIMARY KEY CHECK (id = 1), owner TEXT NOT NULL, until INTEGER NOT NULL) STRICT`)
	if err != nil {
		return false, err
	}
	result, err := conn.ExecContext(ctx, `INSERT INTO firsttime_goose_lock (id, owner, until)
		VALUES (1, ?, unixepoch() + ?)
		ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, until = excluded.until
		WHERE until < unixepoch()`, l.owner, sqliteLockSeconds)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}

// SessionUnlock leaves the lock alone if it ran out and is another process's now.
func (l sqliteLocker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after the commit there is nothing to roll back
	result, err := tx.ExecContext(ctx, "DELETE FROM firsttime_goose_lock WHERE owner = ?", l.owner)
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil || rows == 0 {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DROP TABLE firsttime_goose_lock"); err != nil {
		return err
	}
	return tx.Commit()
}
