//go:build proof

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/tests/proof"
)

const (
	lease     = 5 * time.Second
	timeLimit = 2 * time.Second
	consumers = 8 // on each node
	// stretch is the orders between two disturbances.
	stretch = 100
	// patience is for a run to come to its end after its last disturbance.
	patience = 90 * time.Second
)

// load is consumers on all nodes that charge orders while the cluster is disturbed.
type load struct {
	t         *testing.T
	site      *site
	broker    *broker
	work      sync.WaitGroup
	stop      chan struct{} // closed when no more is to be published
	published chan struct{} // closed when no more is
	idle      context.CancelFunc

	mu       sync.Mutex
	outcomes map[consumer.Outcome]int
	failures map[string]int // deliveries that were not accepted, by the cause
	rounds   int
}

// startLoad lets consumers charge orders until settle.
func startLoad(t *testing.T, s *site) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{
		t: t, site: s, broker: newBroker(len(s.nodes)), stop: make(chan struct{}), published: make(chan struct{}), idle: cancel,
		outcomes: make(map[consumer.Outcome]int), failures: make(map[string]int),
	}
	s.clear(t)
	for i, n := range s.nodes {
		handle := consumer.Idempotent(n.payments, func(key string) string { return key }, consumer.InTx(n.db, s.charge),
			consumer.WithMaxWait(300*time.Millisecond), consumer.WithLogger(discard), consumer.WithObserver(l.observer(n)))
		for range consumers {
			l.work.Go(func() { l.consume(ctx, i, handle) })
		}
	}
	l.work.Go(func() {
		l.publish()
		close(l.published)
	})
	t.Cleanup(func() {
		l.idle()
		l.end()
		l.work.Wait()
	})
	return l
}

func (l *load) publish() {
	tick := time.NewTicker(l.site.pace)
	defer tick.Stop()
	for i := range maxOrders {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			l.broker.publish(fmt.Sprintf("%s-%d", l.t.Name(), i))
		}
	}
}

func (l *load) consume(ctx context.Context, node int, handle consumer.Handler[string]) {
	for {
		select {
		case <-ctx.Done():
			return
		case key := <-l.broker.queues[node]:
			l.broker.settle(node, key, handle(ctx, key))
		}
	}
}

// observer counts what happens to the deliveries of a node, and fails the test when a node confirms a key that
// could not even know whether it is still the database.
func (l *load) observer(n *node) consumer.Observer {
	return consumer.ObserverFunc(func(_ context.Context, e consumer.Event) {
		if e.Kind != consumer.Settled {
			return
		}
		if since := n.alone.Load(); since != nil && e.Started.After(*since) && e.Confirmed {
			l.t.Errorf("%s was confirmed on node %s while that was cut off", e.Key, n.name)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.outcomes[e.Outcome]++
		if !e.Ack.Accepted() && e.Outcome != consumer.InProgress {
			l.failures[cause(e.Err)]++
		}
	})
}

// disturb waits until the load is under way, and calls fault as often as it is to happen.
func (l *load) disturb(times int, fault func()) {
	l.t.Helper()
	for range times {
		l.advance()
		fault()
		l.advance()
		l.rounds++
	}
}

// advance waits until some more orders are accepted.
func (l *load) advance() {
	l.t.Helper()
	_, before, _ := l.broker.counts()
	poll(l.t, "progress", func() bool {
		_, now, _ := l.broker.counts()
		return now >= before+stretch
	})
}

// rest publishes no more and waits until everything is accepted.
func (l *load) rest() {
	l.t.Helper()
	l.end()
	<-l.published
	poll(l.t, "everything to be accepted", func() bool {
		_, _, open := l.broker.counts()
		return open == 0
	})
}

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
}

// settle publishes no more, waits until everything is accepted, and counts charges and keys on every node.
func (l *load) settle(fault string) {
	t := l.t
	t.Helper()
	l.end()
	<-l.published
	l.broker.end()
	select {
	case <-l.broker.quiet:
	case <-time.After(patience):
		orders, accepted, open := l.broker.counts()
		t.Fatalf("%d orders, %d accepted, %d copies still open after %v: %v", orders, accepted, open, patience, l.failures)
	}
	orders, accepted, _ := l.broker.counts()
	row := proof.Row{
		Fault: fault, Database: l.site.database, Runs: l.rounds, Effects: orders,
		Command: fmt.Sprintf("go test -tags=proof ./tests/cluster -rounds=%d", *rounds),
	}
	want := tally{charges: orders, charged: orders, confirmed: orders}
	for _, n := range l.site.nodes {
		var have tally
		poll(t, "node "+n.name+" to have all that was committed", func() bool {
			have = n.tally(t)
			return have == want || have.charges > orders
		})
		row.Lost, row.Doubled = max(row.Lost, orders-have.charged), max(row.Doubled, have.charges-have.charged)
		if have != want {
			t.Errorf("node %s has %+v, want %+v", n.name, have, want)
		}
	}
	proof.Add(row)
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%d orders, %d accepted, %d lost, %d doubled; deliveries: %s; not accepted: %s",
		orders, accepted, row.Lost, row.Doubled, list(l.outcomes), list(l.failures))
}

// list prints counts in the order of their names.
func list[K ~string](counts map[K]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, counts[k]))
	}
	return strings.Join(parts, ", ")
}

// cause names an error by its code, or else by its kind.
func cause(err error) string {
	var my *mysql.MySQLError
	var pg interface{ SQLState() string }
	name := ""
	for kind, sentinel := range map[string]error{
		" (retry the transaction)": store.ErrRetryTx, " (claim lost)": store.ErrClaimLost, " (commit unknown)": store.ErrCommitUnknown,
	} {
		if errors.Is(err, sentinel) {
			name += kind
		}
	}
	switch {
	case errors.As(err, &my):
		return fmt.Sprint(my.Number) + name
	case errors.As(err, &pg):
		return pg.SQLState() + name
	case errors.Is(err, context.DeadlineExceeded):
		return "time limit" + name
	case err == nil || name != "":
		return "none" + name
	}
	return "connection" + name
}
