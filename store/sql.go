package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
)

// SQL is a store in the table firsttime_keys of a database. It is safe for concurrent use. It claims in
// the scope "default" itself; Scope gives every consumer one of its own.
type SQL struct {
	*Scoped
	db      *sql.DB
	dialect dialects.Dialect
	queries dialects.Queries
	closed  atomic.Bool
}

// New returns a store in db, which stays the caller's. It is NewContext without a context; it takes at
// most the time limit of WithTimeout.
func New(db *sql.DB, dialect dialects.Dialect, options ...Option) (*SQL, error) {
	return NewContext(context.Background(), db, dialect, options...)
}

// NewContext returns a store in db. It talks to the database, so that what is wrong with the set-up is
// an error at start and not at the first message: a server that cannot be reached, a dialect that does
// not fit it (ErrWrongDialect), a table that is missing or from another version (ErrNotMigrated), an
// option that makes no sense. It changes nothing. db stays the caller's; Close the store before it.
func NewContext(ctx context.Context, db *sql.DB, dialect dialects.Dialect, options ...Option) (*SQL, error) {
	set, err := defaults().apply(options)
	switch {
	case err != nil:
		return nil, opError("new", "", "", err)
	case db == nil:
		return nil, opError("new", "", "", errors.New("db is nil: pass what sql.Open returned"))
	case dialect == nil:
		return nil, opError("new", "", "", errors.New("dialect is nil: pass postgres.Dialect, mysql.Dialect or sqlite.Dialect"))
	}
	ctx, cancel := context.WithTimeout(ctx, set.timeout)
	defer cancel()
	if err := ping(ctx, db, dialect); err != nil {
		return nil, opError("new", "", "", fmt.Errorf("the database cannot be reached: check its address and that it runs: %w", err))
	}
	s := &SQL{db: db, dialect: dialect}
	if s.queries, err = dialect.Open(ctx, db, set.mode); err != nil {
		return nil, opError("new", "", "", err)
	}
	s.Scoped, err = newScoped(s, DefaultScope, set, newOwnClaims())
	return s, err
}

// ping waits for those who keep others out for a moment, such as the first process of a new SQLite file, which
// switches it to WAL whatever the busy timeout of others.
func ping(ctx context.Context, db *sql.DB, dialect dialects.Dialect) error {
	for {
		err := dialect.Normalize(db.PingContext(ctx))
		if !errors.Is(err, dialects.ErrBusy) || ctx.Err() != nil {
			return err
		}
		time.Sleep(firstBackoff)
	}
}

// Close releases the prepared statements. It does not touch the claims and leaves the database open.
// Calls after it fail with ErrClosed; those that are under way may fail.
func (s *SQL) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return opError("close", "", "", s.queries.Close())
}

// claim is the protocol of a claim. See Scoped.Claim for what it promises.
func (s *SQL) claim(ctx context.Context, c *Claim) error {
	if s.closed.Load() {
		return ErrClosed
	}
	// A caller who goes away does not interrupt the statement: its fate would be unknown, and the key might
	// be claimed after all when nobody is there to give it back.
	limited, cancel := c.in.set.limits.detached(ctx)
	defer cancel()
	unsure := false // whether a try that failed may have claimed the key all the same
	err := retry(limited, fewTries, func(limited context.Context) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.tryClaim(limited, c)
		unsure = unsure || err != nil && (limited.Err() != nil || errors.Is(err, dialects.ErrOutcomeUnknown))
		return err
	})
	if err == nil && c.outcome.Held() && ctx.Err() != nil {
		err, unsure = ctx.Err(), true
	}
	if err == nil || !unsure {
		return err
	}
	return s.rescue(ctx, c, err)
}

// maxChanges bounds how often a claim starts again because the key changed hands between two of its
// statements. Each time means that somebody else made progress.
const maxChanges = 20

var errContended = dialects.Mark(dialects.ErrRetryable, errors.New("the key keeps changing hands"))

func (s *SQL) tryClaim(ctx context.Context, c *Claim) error {
	for range maxChanges {
		won, taken, err := s.queries.Claim(ctx, dialects.ClaimParams{
			Scope: c.in.name, MessageID: c.key, ClaimedBy: c.holder,
			LeaseUs: c.in.set.lease.Microseconds(), RetentionUs: c.in.set.retention.Microseconds(),
		})
		if err != nil {
			return err
		}
		if won {
			c.hold(First, 1)
			return nil
		}
		decided, err := s.tryTaken(ctx, c, taken)
		if err != nil || decided {
			return err
		}
	}
	return errContended
}

// tryTaken decides a claim on a key that has a row, which is read unless it is known. It reports false if
// the row changed under it.
func (s *SQL) tryTaken(ctx context.Context, c *Claim, known *dialects.Row) (decided bool, err error) {
	var row dialects.Row
	if known != nil {
		row = *known
	} else if row, err = s.queries.Get(ctx, dialects.GetParams{Scope: c.in.name, MessageID: c.key}); err != nil {
		if errors.Is(err, dialects.ErrNotFound) {
			return false, nil // given back or purged meanwhile
		}
		return false, err
	}
	if c.judge(row) {
		return true, nil
	}
	won, err := s.queries.Takeover(ctx, dialects.TakeoverParams{
		Scope: c.in.name, MessageID: c.key, ClaimedBy: c.holder, StaleClaimedBy: row.ClaimedBy,
		LeaseUs: c.in.set.lease.Microseconds(), RetentionUs: c.in.set.retention.Microseconds(),
	})
	if won {
		c.hold(TakenOver, row.Attempts+1)
	}
	return won, err
}

// judge decides the claim by the key's row. It reports false if the row is a stale claim.
func (c *Claim) judge(row dialects.Row) bool {
	switch {
	case row.ClaimedBy == c.holder: // an earlier try of this very claim won, and its reply was lost
		if row.Attempts > 1 {
			c.hold(TakenOver, row.Attempts)
		} else {
			c.hold(First, row.Attempts)
		}
	case row.State == dialects.Confirmed:
		c.lose(Duplicate, row)
	case row.LeaseLeftUs > 0:
		c.lose(InProgress, row)
		c.left = microseconds(row.LeaseLeftUs)
	default:
		return false
	}
	return true
}

func (c *Claim) hold(outcome Outcome, attempts int64) {
	c.outcome = outcome
	c.attempt = int(attempts)
	c.extended(c.taken)
}

func (c *Claim) lose(outcome Outcome, row dialects.Row) {
	c.outcome = outcome
	c.attempt = int(row.Attempts)
	c.other = workerOf(row.ClaimedBy)
}

// rescue ends a claim that failed with err and left open whether the key is claimed. If the caller still
// waits, a read may answer the claim: it does not have to wait for other sessions. Otherwise what may
// have been claimed is given back.
func (s *SQL) rescue(ctx context.Context, c *Claim, err error) error {
	cleanup, cancel := c.in.set.limits.detached(ctx)
	defer cancel()
	if ctx.Err() == nil {
		row, readErr := s.queries.Get(cleanup, dialects.GetParams{Scope: c.in.name, MessageID: c.key})
		if readErr == nil && c.judge(row) {
			return nil
		}
	}
	_, forgetErr := s.queries.Forget(cleanup, dialects.ForgetParams{
		Scope: c.in.name, MessageID: c.key, ClaimedBy: c.holder,
	})
	if forgetErr != nil {
		return fmt.Errorf("%w (and what it may have claimed could not be given back: %w)", err, forgetErr)
	}
	return err
}

func (s *SQL) confirm(ctx context.Context, c *Claim) error {
	return s.cleanUp(ctx, c, func(ctx context.Context) error {
		held, err := s.queries.Confirm(ctx, c.confirmParams())
		return lostUnless(held, err)
	})
}

func (s *SQL) confirmTx(ctx context.Context, tx *sql.Tx, c *Claim) error {
	return s.inCallersTx(tx, func(q dialects.Queries) error {
		held, err := q.ConfirmOnce(ctx, c.confirmParams())
		return lostUnless(held, err)
	})
}

func (s *SQL) extend(ctx context.Context, c *Claim) (confirmed bool, err error) {
	if s.closed.Load() {
		return false, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, c.in.set.timeout)
	defer cancel()
	err = retry(ctx, fewTries, func(ctx context.Context) error {
		confirmed, err = s.extendOrConfirmed(ctx, c)
		return err
	})
	return confirmed, err
}

// extendOrConfirmed extends the claim, or finds out that it is confirmed, or that it is lost. The UPDATE
// waits for a transaction that confirms the key; the read after it sees what became of that.
func (s *SQL) extendOrConfirmed(ctx context.Context, c *Claim) (confirmed bool, err error) {
	held, err := s.queries.Extend(ctx, c.extendParams())
	if err != nil || held {
		return false, err
	}
	row, err := s.queries.Get(ctx, dialects.GetParams{Scope: c.in.name, MessageID: c.key})
	if err != nil && !errors.Is(err, dialects.ErrNotFound) {
		return false, err
	}
	confirmed = row.State == dialects.Confirmed && row.ClaimedBy == c.holder
	return confirmed, lostUnless(confirmed, nil)
}

func (s *SQL) forget(ctx context.Context, c *Claim) error {
	return s.cleanUp(ctx, c, func(ctx context.Context) error {
		_, err := s.queries.Forget(ctx, dialects.ForgetParams{Scope: c.in.name, MessageID: c.key, ClaimedBy: c.holder})
		return err
	})
}

func (s *SQL) confirmKey(ctx context.Context, c *Claim) error {
	return s.cleanUp(ctx, c, func(ctx context.Context) error { return recordFact(ctx, s.queries, c) })
}

func (s *SQL) confirmKeyTx(ctx context.Context, tx *sql.Tx, c *Claim) error {
	return s.inCallersTx(tx, func(q dialects.Queries) error { return recordFact(ctx, q, c) })
}

// recordFact confirms a key whoever holds it, and inserts it where it has no row. A row can come and go
// between the two statements.
func recordFact(ctx context.Context, q dialects.Queries, c *Claim) error {
	for range maxChanges {
		found, err := q.ConfirmKey(ctx, dialects.ConfirmKeyParams{
			ClaimedBy: c.holder, Scope: c.in.name, MessageID: c.key,
		})
		if err != nil || found {
			return err
		}
		won, err := q.InsertConfirmed(ctx, dialects.InsertConfirmedParams{
			Scope: c.in.name, MessageID: c.key, ClaimedBy: c.holder,
			RetentionUs: c.in.set.retention.Microseconds(),
		})
		if err != nil || won {
			return err
		}
	}
	return errContended
}

// cleanUp retries op in a context that outlives ctx, for what a shutdown must not leave undone.
func (s *SQL) cleanUp(ctx context.Context, c *Claim, op func(ctx context.Context) error) error {
	if s.closed.Load() {
		return ErrClosed
	}
	ctx, cancel := c.in.set.limits.detached(ctx)
	defer cancel()
	return retry(ctx, untilLimit, op)
}

// inCallersTx runs op once in tx.
func (s *SQL) inCallersTx(tx *sql.Tx, op func(q dialects.Queries) error) error {
	switch {
	case s.closed.Load():
		return ErrClosed
	case tx == nil:
		return errors.New("tx is nil: pass the transaction that the work is in")
	}
	err := op(s.queries.WithTx(tx))
	switch {
	case errors.Is(err, dialects.ErrRetryable):
		return dialects.Mark(ErrRetryTx, dialects.Mark(ErrUnavailable, err))
	case errors.Is(err, dialects.ErrOutcomeUnknown): // which may be because the work took too long for its connection
		return dialects.Mark(ErrRetryTx, err)
	}
	return err
}

func (c *Claim) confirmParams() dialects.ConfirmParams {
	return dialects.ConfirmParams{Scope: c.in.name, MessageID: c.key, ClaimedBy: c.holder}
}

func (c *Claim) extendParams() dialects.ExtendParams {
	return dialects.ExtendParams{
		LeaseUs: c.in.set.lease.Microseconds(), RetentionUs: c.in.set.retention.Microseconds(),
		Scope: c.in.name, MessageID: c.key, ClaimedBy: c.holder,
	}
}

func lostUnless(held bool, err error) error {
	if err == nil && !held {
		return ErrClaimLost
	}
	return err
}
