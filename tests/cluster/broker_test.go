//go:build proof

package cluster

import (
	"sync"
	"time"

	"github.com/firsttime-go/firsttime/consumer"
)

// broker delivers every message at least once: two copies of it, at the same time, to consumers on different nodes,
// and each copy again, to the next node, until it is accepted.
type broker struct {
	queues []chan string // of each node
	mu     sync.Mutex
	orders int
	open   int // copies that were not accepted yet
	done   map[string]int
	quiet  chan struct{} // closed when no more is published and nothing is open
	ended  bool
}

// maxOrders bounds the orders of one broker.
const maxOrders = 1 << 16

func newBroker(nodes int) *broker {
	b := &broker{done: make(map[string]int), quiet: make(chan struct{})}
	for range nodes {
		b.queues = append(b.queues, make(chan string, 2*maxOrders))
	}
	return b
}

// publish hands the copies out to two nodes, which differ from order to order.
func (b *broker) publish(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.orders % len(b.queues)
	b.orders++
	b.open += 2
	b.queues[first] <- key
	b.queues[(first+1)%len(b.queues)] <- key
}

// redeliver hands out one more copy of orders that were accepted.
func (b *broker) redeliver(orders []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, key := range orders {
		b.open++
		b.queues[i%len(b.queues)] <- key
	}
}

// settle takes the answer to a copy that a node had.
func (b *broker) settle(node int, key string, ack consumer.Ack) {
	if !ack.Accepted() {
		next := b.queues[(node+1)%len(b.queues)]
		time.AfterFunc(max(ack.Delay(), 20*time.Millisecond), func() { next <- key })
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[key]++
	b.open--
	b.close()
}

// end says that no more is published.
func (b *broker) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.close()
}

func (b *broker) close() {
	if b.ended && b.open == 0 {
		close(b.quiet)
	}
}

// accepted is the orders of which a copy was accepted.
func (b *broker) accepted() map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	orders := make(map[string]bool)
	for key := range b.done {
		orders[key] = true
	}
	return orders
}

func (b *broker) counts() (orders, accepted, open int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.orders, len(b.done), b.open
}
