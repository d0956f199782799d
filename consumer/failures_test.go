package consumer_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/store"
)

func TestAMessageWithoutUsableKeyIsRejected(t *testing.T) {
	keys := map[string]struct {
		key  func(order) string
		want error
	}{
		"empty":     {func(order) string { return "" }, consumer.ErrNoKey},
		"panics":    {func(order) string { panic("no header") }, consumer.ErrNoKey},
		"too long":  {func(order) string { return strings.Repeat("k", store.MaxKeyLen+1) }, store.ErrInvalidKey},
		"NUL":       {func(order) string { return "a\x00b" }, store.ErrInvalidKey},
		"not UTF-8": {func(order) string { return "\xff" }, store.ErrInvalidKey},
	}
	bothStores(t, func(t *testing.T, m *store.Memory, s store.Store) {
		for name, k := range keys {
			t.Run(name, func(t *testing.T) {
				seen := new(events)
				h := &handler{}
				ack := consumer.Idempotent(s, k.key, h.handle, consumer.WithObserver(seen))(t.Context(), order{})
				var fatal *consumer.FatalError
				if ack.Verdict() != consumer.VerdictReject || !errors.As(ack.Err(), &fatal) || !errors.Is(ack.Err(), k.want) {
					t.Errorf("answer %v, want a rejection with a FatalError and %v", ack, k.want)
				}
				if h.calls != 0 || m.Len() != 0 {
					t.Errorf("%d calls, %d keys", h.calls, m.Len())
				}
				if e := seen.of(consumer.Settled); len(e) != 1 || e[0].Outcome != consumer.Rejected {
					t.Errorf("events %+v", e)
				}
			})
		}
	})
}

// failing is a store that fails.
type failing struct{}

func (failing) FirstTime(context.Context, string) (bool, error)     { return false, errStore }
func (failing) Claim(context.Context, string) (*store.Claim, error) { return nil, errStore }

func TestAFailingStoreMeansRetryWithoutSpendingAnAttempt(t *testing.T) {
	for name, s := range map[string]store.Store{"claimer": failing{}, "small contract": onlyFirstTime{failing{}}} {
		t.Run(name, func(t *testing.T) {
			seen := new(events)
			h := &handler{}
			ack := consumer.Idempotent(s, consumer.MessageID, h.handle, consumer.WithObserver(seen))(t.Context(), order{"A-1"})
			if ack.Verdict() != consumer.VerdictRetry || !errors.Is(ack.Err(), consumer.ErrStoreFailed) || !errors.Is(ack.Err(), errStore) {
				t.Errorf("answer %v", ack)
			}
			if ack.SpendsAttempt() || h.calls != 0 {
				t.Errorf("spends an attempt: %v, %d calls", ack.SpendsAttempt(), h.calls)
			}
			if e := seen.of(consumer.Settled); len(e) != 1 || e[0].Outcome != consumer.StoreError || !errors.Is(e[0].Err, errStore) {
				t.Errorf("events %+v", e)
			}
		})
	}
}

func TestAPanicGivesTheKeyBackAndGoesOn(t *testing.T) {
	bothStores(t, func(t *testing.T, m *store.Memory, s store.Store) {
		seen := new(events)
		handle := consumer.Idempotent(s, consumer.MessageID,
			func(context.Context, order) consumer.Ack { panic(errHandler) }, consumer.WithObserver(seen))
		func() {
			defer func() {
				if v := recover(); v != errHandler { //nolint:errorlint // the very value
					t.Errorf("recovered %v, want the handler's own value", v)
				}
			}()
			handle(t.Context(), order{"A-1"})
		}()
		if m.Len() != 0 {
			t.Error("the key was not given back")
		}
		if e := seen.of(consumer.Settled); len(e) != 1 || e[0].Ack.Accepted() || e[0].Err == nil {
			t.Errorf("events %+v", e)
		}
	})
}

func TestAHandlerThatEndsItsGoroutineGivesTheKeyBack(t *testing.T) {
	m := newMemory(t)
	var done sync.WaitGroup
	done.Go(func() {
		consumer.Idempotent(m, consumer.MessageID, func(context.Context, order) consumer.Ack {
			runtime.Goexit()
			return consumer.Accept()
		})(t.Context(), order{"A-1"})
	})
	done.Wait()
	if m.Len() != 0 {
		t.Error("the key was not given back")
	}
}

// stubborn is a store of the small contract that cannot be told how the work ended.
type stubborn struct {
	store.Store
	confirms, forgets int
	failures          int // of Confirm, before it succeeds
}

func (s *stubborn) Confirm(context.Context, string) error {
	if s.confirms++; s.confirms <= s.failures {
		return errStore
	}
	return nil
}

func (s *stubborn) Forget(context.Context, string) error {
	s.forgets++
	return errStore
}

func TestAConfirmThatFailsIsTriedAgain(t *testing.T) {
	for failures, gaveUp := range map[int]bool{3: false, 1000: true} {
		synctest.Test(t, func(t *testing.T) {
			seen, s := new(events), &stubborn{Store: newMemory(t), failures: failures}
			started := time.Now()
			ack := consumer.Idempotent(s, consumer.MessageID, (&handler{answer: answers(consumer.Accept())}).handle,
				consumer.WithObserver(seen), quiet())(t.Context(), order{"A-1"})
			if ack != consumer.Accept() {
				t.Errorf("answer %v: the work was done", ack)
			}
			failed := seen.of(consumer.ConfirmFailed)
			if gaveUp != (len(failed) == 1) || gaveUp && !errors.Is(failed[0].Err, errStore) {
				t.Errorf("%d failures reported: %+v", len(failed), failed)
			}
			if took := time.Since(started); took > 30*time.Second || gaveUp && (took < 15*time.Second || s.confirms < 5) {
				t.Errorf("%d tries in %v", s.confirms, took)
			}
		})
	}
}

func TestAKeyThatCannotBeGivenBackIsReported(t *testing.T) {
	seen, s := new(events), &stubborn{Store: newMemory(t)}
	ack := consumer.Idempotent(s, consumer.MessageID, (&handler{answer: answers(consumer.Reject(errHandler))}).handle,
		consumer.WithObserver(seen), quiet())(t.Context(), order{"A-1"})
	if ack != consumer.Reject(errHandler) || s.forgets != 1 || len(seen.of(consumer.ForgetFailed)) != 1 {
		t.Errorf("answer %v, %d forgets, events %+v", ack, s.forgets, seen.all)
	}
}
