package explore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/store"
)

// scenario is a way to use the library, with the messages that are in the queue.
type scenario struct {
	name     string
	handler  func(p *process) consumer.Handler[string]
	messages []string // their keys
	mistake  mistake

	// outside says that the work is not in the transaction that confirms the key.
	outside bool
	// plain says that there is no wrapper: ConfirmTx may tell a claim that it is lost to itself.
	plain bool
	// small says that there is no Claimer: a key in progress looks like one that is done.
	small bool
	// beats says that leases are extended, and lets time pass for it.
	beats bool
	// readsTaken says that the dialect reads the row in the claim's round trip, as that of PostgreSQL does.
	readsTaken bool
}

// work does the work on a key in tx.
func (p *process) work(ctx context.Context, tx *sql.Tx, key string) error {
	d := ctx.Value(deliveryKey{}).(*delivery)
	_, err := tx.ExecContext(ctx, "", &statement{name: "work on", key: key, token: d.token, run: func(v view) string {
		p.w.rules.startsWork(p, d)
		v.write(change{key: key, by: v.by, effect: true})
		return "done"
	}})
	return err
}

// workOutside does the work on a key elsewhere.
func (p *process) workOutside(ctx context.Context, key string) consumer.Ack {
	d := ctx.Value(deliveryKey{}).(*delivery)
	err := p.await(context.WithoutCancel(ctx), &step{statement: &statement{name: "work on", key: key, token: d.token, run: func(v view) string {
		p.w.rules.startsWork(p, d)
		v.write(change{key: key, by: v.by, effect: true})
		return "done"
	}}})
	return consumer.FromError(err)
}

// inTx is the wrapper with the work in its transaction.
func inTx(p *process) consumer.Handler[string] {
	return p.wrap(p.store, consumer.InTx(p.db, p.work), consumer.WithoutHeartbeat())
}

// inTxWithHeartbeat is inTx with leases that are extended.
func inTxWithHeartbeat(p *process) consumer.Handler[string] {
	return p.wrap(p.store, consumer.InTx(p.db, p.work))
}

// outsideTx is the wrapper with the work elsewhere.
func outsideTx(p *process) consumer.Handler[string] {
	return p.wrap(p.store, p.workOutside, consumer.WithoutHeartbeat())
}

// smallContract is outsideTx on a store that has no claims.
func smallContract(p *process) consumer.Handler[string] {
	type contract interface {
		store.Store
		store.Confirmer
		store.Forgetter
	}
	return p.wrap(struct{ contract }{p.store}, p.workOutside, consumer.WithoutHeartbeat())
}

func (p *process) wrap(s store.Store, h consumer.Handler[string], options ...consumer.Option) consumer.Handler[string] {
	options = append(options, consumer.WithLogger(discard), consumer.WithMaxWait(lease), consumer.WithObserver(p))
	return consumer.Idempotent(s, func(key string) string { return key }, h, options...)
}

// Observe hears what the wrapper reports.
func (p *process) Observe(ctx context.Context, e consumer.Event) {
	if d, ok := ctx.Value(deliveryKey{}).(*delivery); ok && e.Kind == consumer.ClaimLost {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		p.w.rules.reportsLoss(p.w, p, d)
	}
}

// claims is a consumer on the claims themselves, as the documentation shows it.
func claims(p *process) consumer.Handler[string] {
	return func(ctx context.Context, key string) consumer.Ack {
		claim, err := p.store.Claim(ctx, key)
		if err != nil {
			return consumer.Retry(err)
		}
		switch claim.Outcome() {
		case store.Duplicate:
			return consumer.Accept()
		case store.InProgress:
			return consumer.RetryAfter(&consumer.InProgressError{Key: key, Holder: claim.Holder()}, claim.RetryAfter())
		}
		if err := p.confirmTx(ctx, claim); err != nil {
			err = p.confirmTx(ctx, claim) // once more
			if err != nil && !errors.Is(err, store.ErrConfirmed) {
				_ = claim.Forget(ctx)
				return consumer.Retry(err)
			}
		}
		return consumer.Accept()
	}
}

func (p *process) confirmTx(ctx context.Context, claim *store.Claim) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after the commit there is nothing to roll back
	if err := p.work(ctx, tx, claim.Key()); err != nil {
		return err
	}
	if err := claim.ConfirmTx(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}
