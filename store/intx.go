package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/firsttime-go/firsttime/dialects"
)

// workError is an error of the work itself, which InTx returns as it is.
type workError struct{ error }

func (s *SQL) inTx(ctx context.Context, db *sql.DB, c *Claim, work func(tx *sql.Tx) error) error {
	if db != s.db {
		return errors.New("db is not the one that the store was made with: the key and the work must be in one transaction")
	}
	return runTx(ctx, db, work, s.undone, func(tx *sql.Tx) error {
		if err := s.confirmTx(ctx, tx, c); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return s.afterFailedCommit(ctx, c, s.dialect.Normalize(err))
		}
		return nil
	})
}

// undone marks the errors of a transaction that never got as far as the work.
func (s *SQL) undone(err error) error {
	if err = s.dialect.Normalize(err); healsWithTime(err) {
		return dialects.Mark(ErrRetryTx, err)
	}
	return err
}

// runTx begins a transaction, calls work and then finish, which is to commit. It rolls back on every
// other way out, a panic included.
func runTx(ctx context.Context, db *sql.DB, work func(tx *sql.Tx) error, undone func(error) error, finish func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return undone(err)
	}
	defer tx.Rollback() //nolint:errcheck // after the commit there is nothing to roll back
	if err := work(tx); err != nil {
		return workError{err}
	}
	return finish(tx)
}

// afterFailedCommit finds out what became of a transaction whose COMMIT failed with err.
func (s *SQL) afterFailedCommit(ctx context.Context, c *Claim, err error) error {
	if errors.Is(err, dialects.ErrRetryable) {
		return dialects.Mark(ErrRetryTx, err)
	}
	committed, lookupErr := s.committed(ctx, c)
	switch {
	case committed:
		return nil
	case errors.Is(lookupErr, ErrClaimLost):
		return dialects.Mark(ErrClaimLost, err)
	case lookupErr != nil:
		return dialects.Mark(ErrCommitUnknown, errors.Join(err, lookupErr))
	case errors.Is(err, dialects.ErrOutcomeUnknown):
		return dialects.Mark(ErrRetryTx, err)
	}
	return err
}

// committed looks up by the claim's token whether the transaction that confirmed it was committed.
//
// A read alone could not tell: the server may still be committing, or not have noticed yet that the
// client is gone. An UPDATE of the key's row waits for that transaction to end either way.
func (s *SQL) committed(ctx context.Context, c *Claim) (committed bool, err error) {
	ctx, cancel := detached(ctx, c.in.set.timeout)
	defer cancel()
	err = retry(ctx, untilLimit, func(ctx context.Context) error {
		claimed, err := s.queries.Extend(ctx, c.extendParams())
		if err != nil || claimed {
			return err
		}
		row, err := s.queries.Get(ctx, dialects.GetParams{Scope: c.in.name, MessageID: c.key})
		if err != nil && !errors.Is(err, dialects.ErrNotFound) {
			return err
		}
		committed = row.State == dialects.Confirmed && row.ClaimedBy == c.holder
		return lostUnless(committed, nil)
	})
	return committed, err
}
