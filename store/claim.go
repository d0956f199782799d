package store

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"
)

// Outcome is a store's answer to a claim.
type Outcome int

const (
	// First means that the key was new: do the work.
	First Outcome = iota + 1
	// TakenOver means that a claim which never finished was taken over after its lease: do the work.
	TakenOver
	// InProgress means that somebody else holds the key with a live lease: put the message back.
	InProgress
	// Duplicate means that the key is confirmed: the work is done.
	Duplicate
)

// String returns "first", "taken over", "in progress" or "duplicate".
func (o Outcome) String() string {
	switch o {
	case First:
		return "first"
	case TakenOver:
		return "taken over"
	case InProgress:
		return "in progress"
	case Duplicate:
		return "duplicate"
	}
	return "unknown"
}

// Held reports whether the claim holds its key, so that the caller is to do the work.
func (o Outcome) Held() bool { return o == First || o == TakenOver }

// Claim is the answer to a claim and, if its outcome is First or TakenOver, the right to work on the
// key until the lease is over. Its methods are safe for concurrent use: a heartbeat may extend it while
// the handler confirms it.
type Claim struct {
	in      *Scoped
	key     string
	holder  string // ours
	outcome Outcome
	attempt int
	other   string        // the worker who holds or confirmed the key instead of us
	left    time.Duration // of the other's lease

	taken     time.Time    // when the claim was sent, with the monotonic clock
	leasedTo  atomic.Int64 // nanoseconds after taken
	confirmed atomic.Bool
}

// Outcome says whether the caller is to do the work, and why not if not.
func (c *Claim) Outcome() Outcome { return c.outcome }

// Scope is the consumer that the key belongs to.
func (c *Claim) Scope() string { return c.in.name }

// Key is the key that was claimed.
func (c *Claim) Key() string { return c.key }

// Attempt counts the times that work on the key was started, this one included: 1 for First, one more
// for every takeover. For InProgress and Duplicate it is the holder's number.
func (c *Claim) Attempt() int { return c.attempt }

// Holder is the name of the worker who holds the key or confirmed it: this store's own if the outcome is
// First or TakenOver.
func (c *Claim) Holder() string {
	if c.outcome.Held() {
		return workerOf(c.holder)
	}
	return c.other
}

// RetryAfter is what is left of the other holder's lease, if the outcome is InProgress, and otherwise 0.
// It was measured by the database's clock when the key was claimed.
func (c *Claim) RetryAfter() time.Duration { return c.left }

// Lease is the length of the lease that Claim and Extend ask for.
func (c *Claim) Lease() time.Duration { return c.in.set.lease }

// LeaseEnd is a moment before which nobody can have taken the claim over, by this process's monotonic
// clock. It moves with every successful Extend, and is the zero time for a claim that does not hold its
// key.
func (c *Claim) LeaseEnd() time.Time {
	if !c.outcome.Held() {
		return time.Time{}
	}
	return c.taken.Add(time.Duration(c.leasedTo.Load()))
}

// extended notes that a lease was granted by a request sent at sent.
func (c *Claim) extended(sent time.Time) {
	c.leasedTo.Store(int64(sent.Add(c.in.set.lease).Sub(c.taken)))
}

// Confirmed reports whether this claim was confirmed by Confirm or InTx. A ConfirmTx does not count, before
// Extend has seen that its transaction was committed.
func (c *Claim) Confirmed() bool { return c.confirmed.Load() }

// Confirm records that the work is done. It may be repeated. It runs to its end, within the store's time
// limit, even if ctx is over: shutting down must not leave a finished piece of work unconfirmed.
// It returns ErrClaimLost if the claim does not hold the key any more.
func (c *Claim) Confirm(ctx context.Context) error {
	if err := c.held(); err != nil {
		return c.failed("confirm", err)
	}
	if err := c.in.engine.confirm(ctx, c); err != nil {
		return c.failed("confirm", err)
	}
	c.confirmed.Store(true)
	return nil
}

// ConfirmTx records, as part of tx, that the work is done: both are committed or neither is. Call it last
// before the commit, because from here on other deliveries of the same message wait for tx. tx must come
// from the *sql.DB that the store was made with.
//
// It succeeds once: ErrConfirmed says that this claim is confirmed, so that what it did is committed already.
// It returns ErrClaimLost if the claim does not hold the key any more: roll back, somebody else does
// the work, or did it, or this claim did in another transaction. It is never retried; an error that matches
// ErrRetryTx says that the whole transaction may be.
//
// A node of a Galera cluster that is cut off refuses COMMIT and ROLLBACK and leaves tx open, in a connection that
// package sql gives to its next user. InTx closes such a connection; whoever begins tx himself has to.
func (c *Claim) ConfirmTx(ctx context.Context, tx *sql.Tx) error {
	if err := c.unconfirmed(); err != nil {
		return c.failed("confirm in transaction", err)
	}
	return c.failed("confirm in transaction", c.in.engine.confirmTx(ctx, tx, c))
}

// InTx begins a transaction on db, which is the one that the store was made with, calls work in it,
// confirms the key in it and commits: the work is committed exactly if the key is confirmed. It rolls back
// when work fails, which is then the error, when work panics, and when the claim turns out to be lost
// (ErrClaimLost). A claim has one transaction: ErrConfirmed says that it had it.
//
// If the reply to the commit is lost, InTx asks the database, by the claim's token, what became of it,
// and answers truly; it waits for that at most as long as the store's time limit. ErrCommitUnknown says
// that even this failed, ErrRetryTx that the database undid the transaction.
//
// A claim of Memory is confirmed right after the commit instead of in it.
func (c *Claim) InTx(ctx context.Context, db *sql.DB, work func(tx *sql.Tx) error) error {
	if err := c.unconfirmed(); err != nil {
		return c.failed("transaction", err)
	}
	if db == nil {
		return c.failed("transaction", errors.New("db is nil: pass the database that the work is in"))
	}
	err := c.in.engine.inTx(ctx, db, c, work)
	if err != nil {
		var failed workError
		if errors.As(err, &failed) {
			return failed.error
		}
		return c.failed("transaction", err)
	}
	c.confirmed.Store(true)
	return nil
}

// Extend lets the lease, and with it the retention, start anew; it never shortens them. There is nothing
// to extend any more, and no error, once the key is confirmed by this claim, be it in a transaction:
// Confirmed says so from then on. It returns ErrClaimLost if the claim does not hold the key any more.
func (c *Claim) Extend(ctx context.Context) error {
	if err := c.held(); err != nil {
		return c.failed("extend", err)
	}
	sent := time.Now()
	confirmed, err := c.in.engine.extend(ctx, c)
	switch {
	case err != nil:
		return c.failed("extend", err)
	case confirmed:
		c.confirmed.Store(true)
	default:
		c.extended(sent)
	}
	return nil
}

// Forget gives the key back, so that a retry runs at once. It changes nothing, and returns nil, if the
// claim is confirmed or does not hold the key any more. It runs to its end, within the store's time
// limit, even if ctx is over.
func (c *Claim) Forget(ctx context.Context) error {
	if !c.outcome.Held() {
		return nil
	}
	return c.failed("forget", c.in.engine.forget(ctx, c))
}

func (c *Claim) held() error {
	if c.outcome.Held() {
		return nil
	}
	return ErrClaimLost
}

// unconfirmed is held for what may happen only once.
func (c *Claim) unconfirmed() error {
	if c.confirmed.Load() {
		return ErrConfirmed
	}
	return c.held()
}

func (c *Claim) failed(op string, err error) error {
	return opError(op, c.in.name, c.key, err)
}
