package dialects

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

var (
	// ErrRetryable is matched by the failure of a statement, or of a COMMIT, that the database
	// undid for certain and that may succeed when it is tried again: deadlocks, serialization
	// failures, time-outs of locks and statements, a busy file, a refusal to write for now.
	ErrRetryable = errors.New("undone by the database, may be tried again")

	// ErrBusy is matched if a statement had to wait because another session has the whole database
	// locked: nobody else could write meanwhile either. With ErrRetryable it was undone; without, its
	// context ended first.
	ErrBusy = errors.New("the database is locked by another writer")

	// ErrUnavailable is matched, with ErrRetryable, if the database does not take work at present, whatever the
	// work is: it has no connection left, its disk is full, or it is read-only.
	ErrUnavailable = errors.New("the database did not take it, for a reason of its own")

	// ErrOutcomeUnknown is matched by failures that leave open whether the statement took effect,
	// because the connection or the server ended before the answer.
	ErrOutcomeUnknown = errors.New("no answer from the database, the outcome is unknown")

	// ErrNotFound is returned by Queries.Get for a key without a row.
	ErrNotFound = errors.New("no such key")

	// ErrNotMigrated is matched when the table firsttime_keys is missing or lacks a column.
	ErrNotMigrated = errors.New("table firsttime_keys is missing or from another version: " +
		"call migrations.Up, or run goose on the files of migrations.FS")

	// ErrWrongDialect is matched by Dialect.Open when another kind of database answers.
	ErrWrongDialect = errors.New("the database does not speak the dialect")
)

// Mark returns an error that matches sentinel and everything that err matches.
func Mark(sentinel, err error) error {
	return fmt.Errorf("%w: %w", sentinel, err)
}

// Marked reports whether err matches a sentinel of this package already.
func Marked(err error) bool {
	for _, sentinel := range []error{ErrRetryable, ErrBusy, ErrUnavailable, ErrOutcomeUnknown, ErrNotFound, ErrNotMigrated, ErrWrongDialect} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// ConnectionLost reports whether err, of whatever driver, says that a connection ended or could not be
// made. The end of a context is not such an error: drivers report it by the context's own error.
func ConnectionLost(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	for _, lost := range []error{
		driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.ECONNABORTED, syscall.EPIPE, syscall.ETIMEDOUT,
	} {
		if errors.Is(err, lost) {
			return true
		}
	}
	var netErr net.Error
	return errors.As(err, &netErr)
}

// Refused explains why a server did not answer the question that only the dialect called name
// understands. own says whether err, which is normalized, came from a server of that kind: if not, and
// neither a lost connection nor the end of ctx explains it, db leads to another kind of server.
func Refused(ctx context.Context, name string, err error, own bool) error {
	if own || ctx.Err() != nil || Marked(err) {
		return err
	}
	return fmt.Errorf("%w %q: pass the one that fits the driver of db: %w", ErrWrongDialect, name, err)
}
