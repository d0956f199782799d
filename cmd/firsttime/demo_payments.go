package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

const (
	demoLease = time.Second
	// noticed is how long the broker takes to see that a consumer is dead.
	noticed = 100 * time.Millisecond
)

// paymentDemo is one run of the demo.
type paymentDemo struct {
	db        database
	store     *store.SQL
	keys      *store.Scoped
	ledger    ledger
	broker    *broker
	messages  int
	consumers int
	seed      uint64

	handled, duplicates, inProgress, takeovers, crashes atomic.Int64
}

func newPaymentDemo(ctx context.Context, db database, payments []payment, o demoOptions) (*paymentDemo, error) {
	s, err := store.NewContext(ctx, db.DB, db.dialect, store.WithLease(demoLease), store.WithTimeout(10*time.Second))
	if err != nil {
		return nil, err
	}
	// Names of its own: on a server there may be other keys, and other demos.
	suffix := strings.ToLower(rand.Text()[:12])
	keys, err := s.Scope("demo-" + suffix)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	d := &paymentDemo{
		db: db, store: s, keys: keys, ledger: ledger{db, "firsttime_demo_charges_" + suffix},
		broker: newBroker(), messages: len(payments), consumers: o.consumers, seed: o.seed,
	}
	if err := d.ledger.create(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	chance := mathrand.New(mathrand.NewPCG(o.seed, 0))
	for _, p := range payments {
		d.broker.publish(p, 1+chance.IntN(4))
	}
	return d, nil
}

// run consumes until every delivery is acknowledged.
func (d *paymentDemo) run(ctx context.Context, progress io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var consumers sync.WaitGroup
	for range d.consumers {
		consumers.Go(func() {
			for {
				p, ok := d.broker.next(ctx)
				if !ok {
					return
				}
				if err := d.consume(ctx, p); err != nil {
					cancel(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		consumers.Wait()
		close(done)
	}()
	d.showProgress(progress, done)
	return context.Cause(ctx)
}

// consume settles one delivery. Its error ends the demo.
func (d *paymentDemo) consume(ctx context.Context, p payment) error {
	claim, err := d.keys.Claim(ctx, p.ID)
	if err != nil {
		return err
	}
	switch claim.Outcome() {
	case store.Duplicate:
		d.duplicates.Add(1)
		d.broker.ack()
		return nil
	case store.InProgress:
		// Never acknowledged: if the holder dies, this delivery is the only copy left.
		d.inProgress.Add(1)
		d.broker.redeliver(p, claim.RetryAfter())
		return nil
	case store.TakenOver:
		d.takeovers.Add(1)
	}

	death := d.fate(p, claim.Attempt())
	err = errDied
	if death != beforeWork {
		err = claim.InTx(ctx, d.db.DB, func(tx *sql.Tx) error {
			if err := d.ledger.charge(ctx, tx, p); err != nil {
				return err
			}
			if death == inWork {
				return errDied // the server rolls a dead client's transaction back
			}
			return nil
		})
	}
	if err == nil {
		d.handled.Add(1)
		if death == afterWork {
			err = errDied
		}
	}
	switch {
	case err == nil:
		d.broker.ack()
	case errors.Is(err, errDied):
		// Nobody forgets the claim, nobody acknowledges: the consumer is dead.
		d.crashes.Add(1)
		d.broker.redeliver(p, noticed)
	case errors.Is(err, store.ErrClaimLost), errors.Is(err, store.ErrRetryTx), errors.Is(err, store.ErrCommitUnknown):
		d.broker.redeliver(p, noticed)
		return claim.Forget(ctx)
	default:
		return errors.Join(err, claim.Forget(ctx))
	}
	return nil
}

var errDied = errors.New("the handler died")

// fate is when a handler dies.
type fate int

const (
	survives fate = iota
	beforeWork
	inWork
	afterWork
)

// fate kills about one handler in twenty, the same ones for the same seed.
func (d *paymentDemo) fate(p payment, attempt int) fate {
	h := fnv.New64a()
	fmt.Fprint(h, p.ID, attempt)
	chance := mathrand.New(mathrand.NewPCG(d.seed, h.Sum64()))
	if chance.IntN(20) > 0 {
		return survives
	}
	return beforeWork + fate(chance.IntN(3))
}

// showProgress shows a line that changes on a terminal, and a line a second otherwise, until done.
func (d *paymentDemo) showProgress(w io.Writer, done <-chan struct{}) {
	interval, start, end := time.Second, "", "\n"
	if isTerminal(w) {
		interval, start, end = 100*time.Millisecond, "\r\x1b[K", ""
		defer fmt.Fprint(w, start)
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			deliveries, open := d.broker.progress()
			fmt.Fprintf(w, "%s%d of %d payments handled, %d deliveries, %d still open%s",
				start, d.handled.Load(), d.messages, deliveries, open, end)
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (d *paymentDemo) result() demoResult {
	deliveries, _ := d.broker.progress()
	return demoResult{
		Messages: d.messages, Deliveries: deliveries,
		Handled: int(d.handled.Load()), Duplicates: int(d.duplicates.Load()), InProgress: int(d.inProgress.Load()),
		Takeovers: int(d.takeovers.Load()), Crashes: int(d.crashes.Load()),
	}
}

// cleanUp removes what the demo left in the database.
func (d *paymentDemo) cleanUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_, err := d.db.ExecContext(ctx, "DELETE FROM firsttime_keys WHERE scope = "+d.db.parameter(1), d.keys.Name())
	return errors.Join(err, d.ledger.drop(ctx), d.store.Close())
}
