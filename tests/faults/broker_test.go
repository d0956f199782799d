package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/firsttime-go/firsttime/consumer"
)

// message is delivered until it is accepted. Messages with one key are duplicates of each other.
type message struct {
	key      string
	accepted bool
}

// broker delivers messages at least once.
type broker struct {
	patience time.Duration // for an answer; without one the message is delivered again meanwhile

	mu       sync.Mutex
	waiting  []*message
	left     int // messages that are not accepted
	total    int
	rejected int
	changed  chan struct{} // closed and replaced when something changes
}

// publish makes a broker with orders different messages, of which some have duplicates: most next to
// the original, so that two consumers have them at once, some long after it.
func publish(orders int, patience time.Duration) *broker {
	b := &broker{patience: patience, changed: make(chan struct{})}
	var late []*message
	for i := range orders {
		key := fmt.Sprintf("order-%d", i)
		b.waiting = append(b.waiting, &message{key: key})
		switch rand.IntN(10) {
		case 0, 1:
			b.waiting = append(b.waiting, &message{key: key})
		case 2:
			b.waiting = append(b.waiting, &message{key: key}, &message{key: key})
		case 3:
			late = append(late, &message{key: key})
		}
	}
	b.waiting = append(b.waiting, late...)
	b.total = len(b.waiting)
	b.left = b.total
	return b
}

// consume lets handle have one message after the other, until all are accepted or ctx ends.
func (b *broker) consume(ctx context.Context, handle consumer.Handler[string]) {
	for {
		m := b.take(ctx)
		if m == nil {
			return
		}
		overdue := time.AfterFunc(b.patience, func() { b.putBack(m) })
		ack := handle(ctx, m.key)
		switch {
		case ack.Accepted():
			overdue.Stop()
			b.accept(m)
		case ack.Verdict() == consumer.VerdictReject:
			overdue.Stop()
			b.reject(m)
		case overdue.Stop():
			// No longer than a broker's first steps, so that a run is short; never at once, as one that
			// fails would fill the time with itself.
			pause := min(ack.Delay(), 500*time.Millisecond) + 20*time.Millisecond + rand.N(80*time.Millisecond)
			time.AfterFunc(pause, func() { b.putBack(m) })
		}
	}
}

// take waits for a message. It returns nil when all are accepted, or at the end of ctx.
func (b *broker) take(ctx context.Context) *message {
	for {
		b.mu.Lock()
		if b.left == 0 {
			b.mu.Unlock()
			return nil
		}
		if len(b.waiting) > 0 {
			m := b.waiting[0]
			b.waiting = b.waiting[1:]
			b.mu.Unlock()
			return m
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func (b *broker) putBack(m *message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !m.accepted {
		b.waiting = append(b.waiting, m)
		b.announce()
	}
}

func (b *broker) accept(m *message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !m.accepted {
		m.accepted = true
		b.left--
		b.announce()
	}
}

func (b *broker) reject(m *message) {
	b.mu.Lock()
	b.rejected++
	b.mu.Unlock()
	b.accept(m) // so that the load ends; it counts as a failure there
}

// announce needs the lock.
func (b *broker) announce() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// open reports whether there is a message that is not accepted.
func (b *broker) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left > 0
}

// await waits until at most this part of the messages is not accepted.
func (b *broker) await(ctx context.Context, part float64) error {
	for {
		b.mu.Lock()
		left, changed := b.left, b.changed
		b.mu.Unlock()
		if float64(left) <= part*float64(b.total) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d messages are not accepted: %w", left, b.total, context.Cause(ctx))
		case <-changed:
		}
	}
}
