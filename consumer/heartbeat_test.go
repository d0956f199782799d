package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/store"
)

const lease = 30 * time.Second

func TestASlowHandlerIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, store.WithLease(lease))
		seen := new(events)
		var runs atomic.Int32
		handle := consumer.Idempotent(m, consumer.MessageID, func(context.Context, order) consumer.Ack {
			runs.Add(1)
			time.Sleep(3*lease - time.Second)
			return consumer.Accept()
		}, consumer.WithObserver(seen))
		first := make(chan consumer.Ack)
		go func() { first <- handle(t.Context(), order{"A-1"}) }()
		for range 8 {
			time.Sleep(lease / 3)
			if ack := handle(t.Context(), order{"A-1"}); !errors.Is(ack.Err(), consumer.ErrInProgress) {
				t.Errorf("a redelivery is answered %v", ack)
			}
		}
		if ack := <-first; ack != consumer.Accept() {
			t.Errorf("the first delivery is answered %v", ack)
		}
		if ack := handle(t.Context(), order{"A-1"}); ack != consumer.Accept() || runs.Load() != 1 {
			t.Errorf("afterwards: %v, %d runs", ack, runs.Load())
		}
		if beats := len(seen.of(consumer.Heartbeat)); beats != 8 {
			t.Errorf("%d heartbeats in three leases, want 8", beats)
		}
	})
}

func TestWithoutHeartbeatASlowHandlerIsOvertakenAndFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, store.WithLease(lease))
		seen := new(events)
		handle := func(work time.Duration) consumer.Ack {
			return consumer.Idempotent(m, consumer.MessageID, func(ctx context.Context, _ order) consumer.Ack {
				time.Sleep(work)
				return consumer.FromError(consumer.ClaimFrom(ctx).Confirm(ctx))
			}, consumer.WithoutHeartbeat(), consumer.WithObserver(seen), quiet())(t.Context(), order{"A-1"})
		}
		slow := make(chan consumer.Ack)
		go func() { slow <- handle(2 * lease) }()
		time.Sleep(lease + time.Second)
		if ack := handle(0); ack != consumer.Accept() {
			t.Errorf("the delivery after the lease is answered %v", ack)
		}
		if ack := <-slow; ack.Verdict() != consumer.VerdictRetry || !errors.Is(ack.Err(), store.ErrClaimLost) {
			t.Errorf("the overtaken delivery is answered %v, want a retry with ErrClaimLost", ack)
		}
		if len(seen.of(consumer.Heartbeat)) != 0 || len(seen.of(consumer.ClaimLost)) != 1 {
			t.Errorf("events %+v", seen.all)
		}
	})
}

func TestALostClaimCancelsItsHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, store.WithLease(lease))
		seen := new(events)
		handle := consumer.Idempotent(m, consumer.MessageID, func(ctx context.Context, _ order) consumer.Ack {
			m.EndLeases()
			if c, err := m.Claim(t.Context(), "A-1"); err != nil || c.Outcome() != store.TakenOver {
				t.Error(c, err)
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), store.ErrClaimLost) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return consumer.Retry(context.Cause(ctx))
		}, consumer.WithObserver(seen), quiet())
		ack := handle(t.Context(), order{"A-1"})
		if !errors.Is(ack.Err(), store.ErrClaimLost) || len(seen.of(consumer.ClaimLost)) != 1 {
			t.Errorf("answer %v, events %+v", ack, seen.all)
		}
		if r, err := m.Get(t.Context(), "A-1"); err != nil || r.Attempts != 2 {
			t.Errorf("the other's claim was touched: %+v, %v", r, err)
		}
	})
}

func TestAProcessThatStoodStillAsksBeforeItGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, store.WithLease(lease))
		stalled := make(chan struct{})
		block := consumer.ObserverFunc(func(_ context.Context, e consumer.Event) {
			if e.Kind == consumer.Heartbeat {
				select {
				case <-stalled:
				default:
					close(stalled)
					time.Sleep(2 * lease) // the beats stand still, well past the lease
				}
			}
		})
		handle := consumer.Idempotent(m, consumer.MessageID, func(ctx context.Context, _ order) consumer.Ack {
			<-stalled
			time.Sleep(3 * lease)
			return consumer.FromError(context.Cause(ctx))
		}, consumer.WithObserver(block))
		if ack := handle(t.Context(), order{"A-1"}); ack != consumer.Accept() {
			t.Errorf("nobody took the claim over, and the delivery is answered %v", ack)
		}
	})
}

func TestManyHandlersBeatInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, store.WithLease(lease))
		var runs atomic.Int32
		handle := consumer.Idempotent(m, consumer.MessageID, func(_ context.Context, o order) consumer.Ack {
			runs.Add(1)
			var n int
			if _, err := fmt.Sscan(o.id, &n); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(n%7) * lease / 2) // 0 to 3 leases
			return consumer.Accept()
		}, consumer.WithHeartbeat(lease/5))
		const messages = 500
		done := make(chan consumer.Ack)
		for n := range 2 * messages {
			go func() {
				time.Sleep(time.Duration(n%messages) * lease / messages)
				ack := handle(t.Context(), order{fmt.Sprint(n % messages)})
				for ack.Delay() > 0 {
					time.Sleep(ack.Delay())
					ack = handle(t.Context(), order{fmt.Sprint(n % messages)})
				}
				done <- ack
			}()
		}
		for range 2 * messages {
			if ack := <-done; ack != consumer.Accept() {
				t.Fatal(ack)
			}
		}
		if runs.Load() != messages {
			t.Errorf("%d runs of %d messages", runs.Load(), messages)
		}
	})
}
