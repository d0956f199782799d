package histories

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

// client does one operation after the other. It keeps every claim that it ever got, and uses those that are
// lost as if they were not: that is what a worker does who stood still.
type client struct {
	history *history
	number  int
	random  *rand.Rand
	store   *store.Scoped
	whole   *store.SQL // for purges
	db      *sql.DB
	claims  []held
}

type held struct {
	*store.Claim
	key, number int
}

// work does n operations, with pauses between some of them.
func (c *client) work(ctx context.Context, n int) error {
	for range n {
		if c.random.IntN(3) == 0 {
			time.Sleep(time.Duration(c.random.Int64N(int64(c.history.plan.pause))))
		}
		if err := c.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// next chooses an operation and does it.
func (c *client) next(ctx context.Context) error {
	key := c.random.IntN(len(c.history.keys))
	chance := c.random.IntN(100)
	switch {
	case chance < 5:
		return c.do(ctx, operation{action: reads, key: key}, c.read)
	case chance < 10:
		return c.do(ctx, operation{action: purges}, c.purge)
	case chance < 13 && !c.history.plan.loses:
		return c.do(ctx, operation{action: confirmKey, key: key}, c.confirmKey)
	case chance < 45 || len(c.claims) == 0:
		return c.do(ctx, operation{action: claims, key: key}, c.claim)
	}
	// Mostly the latest claim, sometimes one that is probably lost.
	claim := c.claims[len(c.claims)-1]
	if c.random.IntN(4) == 0 {
		claim = c.claims[c.random.IntN(len(c.claims))]
	}
	op := operation{key: claim.key, claim: claim.number}
	switch chance = c.random.IntN(100); {
	case chance < 25, chance < 65 && claim.Confirmed(): // which needs no more transactions, and says so without asking
		op.action = extends
	case chance < 38:
		op.action = commits
	case chance < 52:
		op.action = rollsBack
	case chance < 65:
		op.action = worksInTx
	case chance < 80:
		op.action = confirms
	default:
		op.action = forgets
	}
	return c.do(ctx, op, func(ctx context.Context, o operation) (answer, error) { return c.use(ctx, o.action, claim.Claim) })
}

// do runs an operation and enters it into the history.
func (c *client) do(ctx context.Context, o operation, run func(context.Context, operation) (answer, error)) error {
	o.client = c.number
	if o.claim == 0 {
		o.claim = c.history.newNumber()
	}
	sent := c.history.now()
	a, err := run(ctx, o)
	if err != nil {
		return fmt.Errorf("%v of client %d: %w", o, c.number, err)
	}
	a.sent, a.gotten = sent, c.history.now()
	c.history.add(o, a)
	return nil
}

func (c *client) claim(ctx context.Context, o operation) (answer, error) {
	claim, err := c.store.Claim(ctx, c.history.keys[o.key])
	if err != nil {
		return answer{}, err
	}
	if claim.Outcome().Held() {
		c.claims = append(c.claims, held{claim, o.key, o.claim})
	}
	return answer{
		result: result(claim.Outcome().String()), attempt: claim.Attempt(), worker: claim.Holder(), left: claim.RetryAfter(),
	}, nil
}

func (c *client) read(ctx context.Context, o operation) (answer, error) {
	r, err := c.store.Get(ctx, c.history.keys[o.key])
	if errors.Is(err, store.ErrNotFound) {
		return answer{result: notFound}, nil
	}
	a := answer{result: claimed, attempt: r.Attempts, worker: r.Worker, left: r.LeaseLeft}
	if r.Confirmed {
		a.result = confirmed
	}
	return a, err
}

func (c *client) purge(ctx context.Context, _ operation) (answer, error) {
	_, err := c.whole.PurgeExpired(ctx)
	return answer{result: done}, err
}

func (c *client) confirmKey(ctx context.Context, o operation) (answer, error) {
	return answer{result: done}, c.store.Confirm(ctx, c.history.keys[o.key])
}

// use does to a claim what may be refused because it is lost.
func (c *client) use(ctx context.Context, action action, claim *store.Claim) (answer, error) {
	var err error
	a := answer{result: done}
	switch action {
	case extends:
		if err = claim.Extend(ctx); err == nil && claim.Confirmed() {
			a = answer{result: confirmed}
		}
	case confirms:
		err = claim.Confirm(ctx)
	case commits:
		err = c.inTx(ctx, claim, (*sql.Tx).Commit)
	case rollsBack:
		err = c.inTx(ctx, claim, (*sql.Tx).Rollback)
	case worksInTx:
		err = claim.InTx(ctx, c.db, func(*sql.Tx) error {
			c.dawdle()
			return nil
		})
	case forgets:
		err = claim.Forget(ctx)
	}
	switch {
	case errors.Is(err, store.ErrClaimLost):
		return answer{result: lost}, nil
	case errors.Is(err, store.ErrConfirmed):
		return answer{result: confirmed}, nil
	case errors.Is(err, store.ErrRetryTx):
		return answer{result: undone}, nil
	}
	return a, err
}

// inTx confirms a claim in a transaction of the caller's own and ends it.
func (c *client) inTx(ctx context.Context, claim *store.Claim, end func(*sql.Tx) error) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := claim.ConfirmTx(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	c.dawdle()
	return end(tx)
}

// dawdle is what a handler does in its transaction.
func (c *client) dawdle() {
	if c.random.IntN(2) == 0 {
		time.Sleep(time.Duration(c.random.Int64N(int64(2 * time.Millisecond))))
	}
}
