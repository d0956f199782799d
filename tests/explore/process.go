package explore

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/store"
)

// process is a worker: a process with a store, a pool of connections and a handler of its own. Beyond its
// statements, which wait for their turn, everything in it is the real code.
type process struct {
	w        *world
	number   int // from 1; 0 purges
	db       *sql.DB
	store    *store.SQL
	handle   consumer.Handler[string]
	job      *delivery // nil if it is idle
	memory   []event   // of former deliveries, where the store keeps their claims
	sessions []*session
	dead     bool
	tx       *transaction // the one that a claim has begun, with the mistake claimInsideTheTransaction
}

// delivery is a message that a process handles.
type delivery struct {
	key       string
	ctx       context.Context
	cancel    context.CancelFunc
	cancelled bool
	token     string
	history   []event
	answer    consumer.Ack
	// unclean excuses a claim that stays behind: what would have given it back has failed.
	unclean bool
}

// event is what a delivery has seen: with the code being deterministic, its events are its state.
type event struct {
	text  string
	token string // that came with it
}

type deliveryKey struct{}

// start starts a process.
func (w *world) start(number int) *process {
	p := &process{w: w, number: number}
	p.db = sql.OpenDB(connector{p})
	var err error
	p.store, err = store.New(p.db, dialect{p}, store.WithLease(lease), store.WithRetention(retention),
		store.WithTimeout(timeout), store.WithWorker(fmt.Sprintf("worker %d", number)), store.WithLogger(discard))
	if err != nil {
		panic(err)
	}
	p.handle = w.scenario.handler(p)
	return p
}

var discard = slog.New(slog.DiscardHandler)

func (p *process) String() string { return fmt.Sprintf("worker %d", p.number) }

func (p *process) token() string {
	if p.job == nil {
		return ""
	}
	return p.job.token
}

// deliver lets p handle a message.
func (p *process) deliver(key string) {
	d := &delivery{key: key}
	ctx := context.WithValue(context.Background(), deliveryKey{}, d)
	d.ctx, d.cancel = context.WithCancel(ctx)
	p.job = d
	go func() {
		defer d.cancel()
		d.answer = p.handle(d.ctx, key)
		_ = p.await(context.Background(), &step{answer: true, statement: &statement{
			name: "answer", key: key, run: func(view) string { return p.w.settle(p, d) },
		}})
	}()
}

// await waits until it is the turn of s, or ctx ends. It returns what the client of a database is told.
func (p *process) await(ctx context.Context, s *step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.process, s.reply = p, make(chan error, 1)
	_, s.limited = ctx.Deadline()
	if err := p.w.park(s); err != nil {
		return err
	}
	select {
	case err := <-s.reply:
		return err
	case <-ctx.Done():
		p.w.giveUp(s)
		return ctx.Err()
	}
}

// stop ends p as a crash does: what it runs comes to its end without an effect.
func (p *process) stop() {
	p.w.mu.Lock()
	p.dead = true
	for _, s := range p.sessions {
		s.breaks()
	}
	if p.tx != nil {
		p.w.table.rollback(p.tx)
	}
	for _, s := range p.w.parked {
		if s.process == p {
			s.reply <- errCrashed
		}
	}
	p.w.parked = slices.DeleteFunc(p.w.parked, func(s *step) bool { return s.process == p })
	p.w.mu.Unlock()
	p.db.Close()
}

// early is the transaction that the next BEGIN finds begun.
func (p *process) early() *transaction {
	if p.tx == nil {
		p.tx = p.w.table.begin()
	}
	return p.tx
}

// adopt is the transaction of a BEGIN.
func (p *process) adopt() *transaction {
	if tx := p.tx; tx != nil {
		p.tx = nil
		return tx
	}
	return p.w.table.begin()
}

// skew is how far the process's clock is from the database's.
func (p *process) skew() time.Duration { return time.Duration(p.number-1) * (lease + lease/10) }
