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
	tx, err := s.begin(ctx, c)
	if err != nil {
		return err
	}
	err = runTx(tx.Tx, tx.Rollback, work, func() error {
		if err := s.confirmTx(ctx, tx.Tx, c); err != nil {
			return s.afterLostClaim(ctx, tx, c, err)
		}
		if err := tx.Commit(); err != nil {
			return s.afterFailedCommit(ctx, c, s.dialect.Normalize(err))
		}
		return nil
	})
	if err != nil {
		err = s.blame(err)
	}
	return err
}

// begin tries again, because a connection of the pool may have died long ago.
func (s *SQL) begin(ctx context.Context, c *Claim) (tx *dialects.Tx, err error) {
	limited, cancel := context.WithTimeout(ctx, c.in.set.timeout)
	defer cancel()
	err = retry(limited, fewTries, func(context.Context) error {
		tx, err = dialects.BeginTx(ctx, s.db, nil, s.dialect.Normalize) // not limited, whose end would roll it back
		return s.dialect.Normalize(err)
	})
	if err != nil && healsWithTime(err) {
		err = dialects.Mark(ErrRetryTx, dialects.Mark(ErrUnavailable, err))
	}
	return tx, err
}

// blame says so if the database is to blame for an error of the work. Others stay as they are.
func (s *SQL) blame(err error) error {
	if failed, ok := errors.AsType[workError](err); ok {
		if marked := s.dialect.Normalize(failed.error); errors.Is(marked, ErrUnavailable) {
			return workError{marked}
		}
	}
	return err
}

// runTx calls work and then finish, which is to commit tx, and rolls tx back on every other way out, a
// panic included.
func runTx(tx *sql.Tx, rollback func() error, work func(tx *sql.Tx) error, finish func() error) error {
	defer rollback() //nolint:errcheck // after the commit there is nothing to roll back
	if err := work(tx); err != nil {
		return workError{err}
	}
	return finish()
}

// afterLostClaim finds out whether the claim is lost because it was confirmed in an earlier transaction, whose
// commit nobody could learn of, for example: that work is done, and this one must not be added to it.
func (s *SQL) afterLostClaim(ctx context.Context, tx *dialects.Tx, c *Claim, err error) error {
	if !errors.Is(err, ErrClaimLost) {
		return err
	}
	_ = tx.Rollback() // whose locks the look-up would wait for
	if confirmed, _ := s.committed(ctx, c); confirmed {
		c.confirmed.Store(true)
		return ErrConfirmed
	}
	return err
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
	}
	return dialects.Mark(ErrRetryTx, err) // the claim is still ours and unconfirmed: nothing was committed
}

// committed looks up by the claim's token whether the transaction that confirmed it was committed.
//
// A read alone could not tell: the server may still be committing, or not have noticed yet that the
// client is gone. An UPDATE of the key's row waits for that transaction to end either way.
func (s *SQL) committed(ctx context.Context, c *Claim) (committed bool, err error) {
	ctx, cancel := c.in.set.limits.detached(ctx)
	defer cancel()
	err = retry(ctx, untilLimit, func(ctx context.Context) error {
		committed, err = s.extendOrConfirmed(ctx, c)
		return err
	})
	return committed, err
}
