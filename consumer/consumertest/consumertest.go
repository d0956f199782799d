// Package consumertest tests a message handler of yours against what a broker and a crash do to it: the
// same message is delivered again, before, while and after it is handled, and the process dies in between.
//
//	func TestCharge(t *testing.T) {
//		kit := consumertest.New(t, consumer.MessageID[Order], charge)
//		kit.Deliver(order)
//		kit.CrashAt(consumertest.AfterHandler)
//		...
//	}
//
// The keys are in memory, no clock runs and no broker is needed: leases end when the test says so.
package consumertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/store"
)

// Point is a moment at which a process can die.
type Point int

const (
	// BeforeHandler is after the key was claimed and before the handler is called.
	BeforeHandler Point = iota + 1
	// AfterHandler is after the handler returned and before its key is confirmed or given back.
	AfterHandler
	// AfterCommit is AfterHandler for a handler that committed its work and the key with InTx. It is
	// passed by other handlers without a crash.
	AfterCommit
	// BeforeAck is after the key was confirmed or given back and before the broker hears of it.
	BeforeAck
)

// String is the point's name.
func (p Point) String() string {
	switch p {
	case BeforeHandler:
		return "before the handler"
	case AfterHandler:
		return "after the handler"
	case AfterCommit:
		return "after the commit"
	case BeforeAck:
		return "before the ack"
	}
	return fmt.Sprintf("Point(%d)", int(p))
}

// Points are all points, in the order in which a delivery passes them, for tests that crash at each.
func Points() []Point { return []Point{BeforeHandler, AfterHandler, AfterCommit, BeforeAck} }

// ErrCrashed is matched by the error of the answer to a delivery whose consumer died.
var ErrCrashed = errors.New("the consumer died")

// Kit delivers messages to one handler. It is safe for concurrent use.
type Kit[M any] struct {
	tb     testing.TB
	memory *store.Memory
	handle consumer.Handler[M]

	mu     sync.Mutex
	crash  Point // 0: none
	calls  int
	died   chan struct{} // closed at the end of the test, when the dead may go
	burial sync.WaitGroup
}

// New wraps handler with consumer.Idempotent, on a store in memory and with the options, but for a heartbeat:
// no time passes here.
func New[M any](tb testing.TB, key func(M) string, handler consumer.Handler[M], options ...consumer.Option) *Kit[M] {
	tb.Helper()
	memory, err := store.NewMemory()
	if err != nil {
		tb.Fatal(err)
	}
	k := &Kit[M]{tb: tb, memory: memory, died: make(chan struct{})}
	// The dead must not extend their leases.
	k.handle = consumer.Idempotent(memory, key, k.watched(handler), append(options, consumer.WithoutHeartbeat())...)
	tb.Cleanup(func() {
		close(k.died)
		k.burial.Wait()
	})
	return k
}

// Store is where the keys are, to look at them.
func (k *Kit[M]) Store() *store.Memory { return k.memory }

// Calls is how often the handler was called.
func (k *Kit[M]) Calls() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls
}

// CrashAt lets the consumer of the next delivery that comes to p die there. Nothing of it is executed after
// that: its claim stays as it is, until EndLeases.
func (k *Kit[M]) CrashAt(p Point) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.crash = p
}

// EndLeases lets the time pass after which claims of the dead may be taken over.
func (k *Kit[M]) EndLeases() { k.memory.EndLeases() }

// Deliver delivers message once and returns the answer. If the consumer died, it is a retry with ErrCrashed,
// because the broker delivers again what was not acknowledged.
func (k *Kit[M]) Deliver(message M) consumer.Ack {
	return k.DeliverContext(context.Background(), message)
}

// DeliverContext is Deliver with the delivery's context.
func (k *Kit[M]) DeliverContext(ctx context.Context, message M) consumer.Ack {
	ends := make(chan end, 3) // the first one counts
	k.burial.Go(func() {
		defer func() { ends <- end{ack: consumer.Retry(errEnded), panic: recover()} }()
		ack := k.handle(context.WithValue(ctx, endsKey{}, ends), message)
		k.mayCrash(BeforeAck, ends)
		ends <- end{ack: ack}
	})
	first := <-ends
	if first.panic != nil {
		panic(first.panic)
	}
	return first.ack
}

// end is how a delivery ended.
type end struct {
	ack   consumer.Ack
	panic any
}

type endsKey struct{}

var errEnded = errors.New("the handler ended its goroutine")

// DeliverUntilAccepted delivers message as a broker does, again and again until it is accepted, and lets
// leases end in between. It fails the test after limit deliveries, and when the message is rejected.
func (k *Kit[M]) DeliverUntilAccepted(message M, limit int) {
	k.tb.Helper()
	var ack consumer.Ack
	for range limit {
		if ack = k.Deliver(message); ack.Accepted() {
			return
		}
		if ack.Verdict() == consumer.VerdictReject {
			break
		}
		k.EndLeases()
	}
	k.tb.Fatalf("the message is not accepted; the last answer is %v", ack)
}

// watched counts the handler's calls and lets it die on the way.
func (k *Kit[M]) watched(handler consumer.Handler[M]) consumer.Handler[M] {
	return func(ctx context.Context, message M) consumer.Ack {
		ends := ctx.Value(endsKey{}).(chan end)
		k.mayCrash(BeforeHandler, ends)
		k.mu.Lock()
		k.calls++
		k.mu.Unlock()
		ack := handler(ctx, message)
		k.mayCrash(AfterHandler, ends)
		if claim := consumer.ClaimFrom(ctx); claim != nil && claim.Confirmed() {
			k.mayCrash(AfterCommit, ends)
		}
		return ack
	}
}

// mayCrash stops the delivery's goroutine for the rest of the test if it is to die at p: a dead process
// executes nothing, not even what is deferred.
func (k *Kit[M]) mayCrash(p Point, ends chan<- end) {
	k.mu.Lock()
	dies := k.crash == p
	if dies {
		k.crash = 0
	}
	k.mu.Unlock()
	if !dies {
		return
	}
	ends <- end{ack: consumer.Retry(fmt.Errorf("%w %v", ErrCrashed, p))}
	<-k.died
	runtime.Goexit()
}
