package store

import (
	"errors"
	"fmt"

	"github.com/firsttime-go/firsttime/dialects"
)

var (
	// ErrInvalidKey is matched when a key can never be stored: it is empty, longer than MaxKeyLen
	// bytes, not valid UTF-8, or contains a NUL. No SQL was run.
	ErrInvalidKey = errors.New("invalid key")

	// ErrInvalidScope is matched when a scope's name is empty, longer than MaxScopeLen bytes, not
	// valid UTF-8, or contains a NUL.
	ErrInvalidScope = errors.New("invalid scope")

	// ErrClaimLost is matched by Confirm, ConfirmTx, Extend and InTx when the claim does not hold its
	// key: another holder took it over after its lease, it was given back or purged, or it never held
	// it. Roll back and let the message be delivered again.
	ErrClaimLost = errors.New("the claim does not hold the key any more: roll back and retry the message")

	// ErrBusy is matched when SQLite could not write because of another writer. As long as there is one,
	// nobody takes a claim over.
	ErrBusy = dialects.ErrBusy

	// ErrRetryTx is matched by ConfirmTx and InTx when the database undid the caller's transaction,
	// or will: nothing of it is committed, and the whole of it may be tried again.
	ErrRetryTx = errors.New("retry the whole transaction")

	// ErrUnavailable is matched by InTx and ConfirmTx if the database is to blame and not the work: it is full,
	// read-only, or has no connection left, or it did not let the store's own statements in the transaction
	// through. Retry the message, however often.
	ErrUnavailable = dialects.ErrUnavailable

	// ErrCommitUnknown is matched by InTx when the reply to COMMIT was lost and the key could not be
	// looked up either. Retry the message: the next claim on the key finds out what happened.
	ErrCommitUnknown = errors.New("the outcome of the commit is unknown")

	// ErrNotFound is matched by Get for a key that is not in the table.
	ErrNotFound = dialects.ErrNotFound

	// ErrConfirmed is matched by Release and ForceRelease for a key that is confirmed, and by ConfirmTx and
	// InTx of a claim that is: there is nothing more to do for it.
	ErrConfirmed = errors.New("the key is confirmed")

	// ErrLive is matched by Release for a claim whose lease is still running.
	ErrLive = errors.New("the claim's lease is still running")

	// ErrPurgeUnfinished is matched by Purge when its time is over before everything was deleted.
	ErrPurgeUnfinished = errors.New("the time of the purge is over, there are more keys to delete")

	// ErrNotMigrated is matched when the table firsttime_keys is missing or lacks a column.
	ErrNotMigrated = dialects.ErrNotMigrated

	// ErrWrongDialect is matched by New when another kind of database answers.
	ErrWrongDialect = dialects.ErrWrongDialect

	// ErrClosed is matched by every call to a store that was closed.
	ErrClosed = errors.New("the store is closed")
)

// Error is what every method of a store and of a claim returns: it says which operation failed on
// which key, and wraps the cause, down to the driver's own error.
type Error struct {
	Op    string // "claim", "confirm", "extend", "forget", "get", "purge", ...
	Scope string // empty where the operation concerns no single scope
	Key   string // empty where the operation concerns no single key
	Err   error
}

func (e *Error) Error() string {
	switch {
	case e.Scope == "":
		return fmt.Sprintf("firsttime: %s: %v", e.Op, e.Err)
	case e.Op == "scope":
		return fmt.Sprintf("firsttime: scope %q: %v", e.Scope, e.Err)
	}
	return fmt.Sprintf("firsttime: %s %q in scope %q: %v", e.Op, e.Key, e.Scope, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// opError is nil for no error.
func opError(op, scope, key string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Scope: scope, Key: key, Err: err}
}
