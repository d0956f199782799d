package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/store"
)

const (
	consumers = 8
	lease     = time.Second
	timeLimit = 3 * time.Second // of the store's operations
	// patience is for a load to come to its end after its last disturbance.
	patience = 2 * time.Minute
)

// handlers are the consumers of one process, half of them of each way to confirm in a transaction.
func handlers(s *store.SQL, db *sql.DB, number int, seen consumer.Observer, c charge) []consumer.Handler[string] {
	key := func(order string) string { return order }
	options := []consumer.Option{consumer.WithObserver(seen), consumer.WithLogger(slog.New(slog.DiscardHandler))}
	ways := []consumer.Handler[string]{
		consumer.Idempotent(s, key, consumer.InTx(db, c), options...),
		consumer.Idempotent(s, key, byHand(db, c), options...),
	}
	all := make([]consumer.Handler[string], number)
	for i := range all {
		all[i] = ways[i%len(ways)]
	}
	return all
}

// newStore makes a store with the settings of these tests.
func newStore(d database, db *sql.DB, lease time.Duration) (*store.SQL, error) {
	return store.New(db, d.dialect, store.WithLease(lease), store.WithTimeout(timeLimit))
}

// charge is the effect.
type charge func(ctx context.Context, tx *sql.Tx, order string) error

// charging writes charges with a note of so many bytes, and takes its time, so that faults find transactions open.
func charging(note int, pause time.Duration) charge {
	return func(ctx context.Context, tx *sql.Tx, order string) error {
		text := make([]byte, (note+1)/2)
		for i := range text {
			text[i] = byte(rand.IntN(256)) // a database could compress what repeats itself
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO charges VALUES ('%s', '%x')", order, text))
		time.Sleep(pause)
		return err
	}
}

func byHand(db *sql.DB, c charge) consumer.Handler[string] {
	return func(ctx context.Context, order string) consumer.Ack {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return consumer.Retry(err)
		}
		defer tx.Rollback() //nolint:errcheck // after the commit there is nothing to roll back
		if err := c(ctx, tx, order); err != nil {
			return consumer.Retry(err)
		}
		if err := consumer.ClaimFrom(ctx).ConfirmTx(ctx, tx); err != nil {
			return consumer.Retry(err)
		}
		return consumer.FromError(tx.Commit())
	}
}

// load is consumers at work on a site.
type load struct {
	t      *testing.T
	site   *site
	orders int
	broker *broker
	seen   *sightings
	ctx    context.Context
	ended  sync.WaitGroup
}

// startLoad starts consumers in this process, on a pool to the site that set may change. The site is idle
// when the test ends.
func startLoad(t *testing.T, s *site, set ...func(db *sql.DB)) *load {
	t.Helper()
	db := s.open(t, s.dsn)
	for _, set := range set {
		set(db)
	}
	return startLoadOn(t, s, db)
}

// startLoadOn is startLoad on a pool that there is.
func startLoadOn(t *testing.T, s *site, db *sql.DB) *load {
	t.Helper()
	st, err := newStore(s.database, db, lease)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Logf("closing the store: %v", err) // statements on connections that the fault took
		}
	})
	seen := newSightings()
	return startHandlers(t, s, messages(), seen, handlers(st, db, consumers, seen, s.charge))
}

func startHandlers(t *testing.T, s *site, orders int, seen *sightings, handlers []consumer.Handler[string]) *load {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the load does not come to its end"))
	l := &load{t: t, site: s, orders: orders, broker: publish(orders, 2*lease), seen: seen, ctx: ctx}
	for _, handle := range handlers {
		l.ended.Go(func() { l.broker.consume(ctx, handle) })
	}
	t.Cleanup(func() {
		cancel()
		l.ended.Wait()
	})
	return l
}

// disturb calls once a number of times, always when another part of the messages is accepted. It ends early: the last
// messages are duplicates.
func (l *load) disturb(times int, once func()) {
	l.t.Helper()
	for n := range times {
		l.await(1 - (float64(n)+0.5)/float64(times+1))
		once()
	}
}

// await waits until at most this part of the messages is not accepted.
func (l *load) await(part float64) {
	l.t.Helper()
	if err := l.broker.await(l.ctx, part); err != nil {
		l.t.Fatalf("%v; seen: %v", err, l.seen)
	}
}

// finish waits for the end of the load and counts the effects. Every message was accepted; so every key
// must be confirmed, and have its effect.
func (l *load) finish() outcome {
	l.t.Helper()
	l.await(0)
	l.ended.Wait()
	l.t.Logf("%d messages of %d orders; seen: %v", l.broker.total, l.orders, l.seen)
	if l.broker.rejected > 0 {
		l.t.Errorf("%d messages were rejected", l.broker.rejected)
	}
	s := l.site
	confirmed := s.count(l.t, "SELECT COUNT(*) FROM firsttime_keys WHERE state = 'CONFIRMED'")
	if rows := s.count(l.t, "SELECT COUNT(*) FROM firsttime_keys"); rows != l.orders || confirmed != l.orders {
		l.t.Errorf("%d keys of %d are confirmed, and there are %d", confirmed, l.orders, rows)
	}
	charged := s.count(l.t, "SELECT COUNT(DISTINCT order_id) FROM charges")
	return outcome{effects: l.orders, lost: l.orders - charged, doubled: s.count(l.t, "SELECT COUNT(*) FROM charges") - charged}
}
