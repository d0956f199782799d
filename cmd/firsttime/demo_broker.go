package main

import (
	"context"
	"sync"
	"time"
)

// broker is an at-least-once broker in memory: a delivery comes back until it is acknowledged.
type broker struct {
	mu         sync.Mutex
	ready      []payment
	open       int           // deliveries that are not acknowledged, waiting ones included
	wake       chan struct{} // closed and replaced when ready or open changes
	deliveries int
}

func newBroker() *broker { return &broker{wake: make(chan struct{})} }

// publish adds copies of one message, side by side, so that several consumers get it at once.
func (b *broker) publish(p payment, copies int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range copies {
		b.ready = append(b.ready, p)
	}
	b.open += copies
	b.changed()
}

// next waits for a delivery. It reports false when everything is acknowledged or ctx ends.
func (b *broker) next(ctx context.Context) (payment, bool) {
	for {
		b.mu.Lock()
		if len(b.ready) > 0 && ctx.Err() == nil {
			p := b.ready[0]
			b.ready = b.ready[1:]
			b.deliveries++
			b.mu.Unlock()
			return p, true
		}
		wake, done := b.wake, b.open == 0
		b.mu.Unlock()
		if done {
			return payment{}, false
		}
		select {
		case <-ctx.Done():
			return payment{}, false
		case <-wake:
		}
	}
}

// ack settles a delivery for good.
func (b *broker) ack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	b.changed()
}

// redeliver puts a delivery back after a delay: because its consumer said so, or died.
func (b *broker) redeliver(p payment, after time.Duration) {
	time.AfterFunc(after, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ready = append(b.ready, p)
		b.changed()
	})
}

// progress is how many deliveries there were and how many wait for their acknowledgement.
func (b *broker) progress() (deliveries, open int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.deliveries, b.open
}

func (b *broker) changed() {
	close(b.wake)
	b.wake = make(chan struct{})
}
