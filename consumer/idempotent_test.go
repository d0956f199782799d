package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/store"
)

type order struct{ id string }

func (o order) MessageID() string { return o.id }

var (
	errHandler = errors.New("the handler failed")
	errStore   = errors.New("the database is away")
)

func newMemory(t testing.TB, options ...store.Option) *store.Memory {
	t.Helper()
	m, err := store.NewMemory(options...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// small is a store that offers only the small contract.
type small struct {
	store.Store
	store.Confirmer
	store.Forgetter
}

func smallOf(s *store.Memory) store.Store { return small{s, s, s} }

// handler is a handler that counts its calls and answers what it is told.
type handler struct {
	calls  int
	answer func(ctx context.Context) consumer.Ack
}

func (h *handler) handle(ctx context.Context, _ order) consumer.Ack {
	h.calls++
	return h.answer(ctx)
}

func answers(ack consumer.Ack) func(context.Context) consumer.Ack {
	return func(context.Context) consumer.Ack { return ack }
}

// events collects what an observer is told.
type events struct {
	mu  sync.Mutex
	all []consumer.Event
}

func (e *events) Observe(_ context.Context, event consumer.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

func (e *events) of(kind consumer.EventKind) []consumer.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var of []consumer.Event
	for _, event := range e.all {
		if event.Kind == kind {
			of = append(of, event)
		}
	}
	return of
}

// quiet keeps expected warnings out of the output.
func quiet() consumer.Option { return consumer.WithLogger(slog.New(slog.DiscardHandler)) }

// prepare brings the key "A-1" into a state before the delivery.
type prepare func(t *testing.T, m *store.Memory)

func absent(*testing.T, *store.Memory) {}

func claimed(t *testing.T, m *store.Memory) {
	if c, err := m.Claim(t.Context(), "A-1"); err != nil || c.Outcome() != store.First {
		t.Fatal(c, err)
	}
}

func stale(t *testing.T, m *store.Memory) {
	claimed(t, m)
	m.EndLeases()
}

func confirmed(t *testing.T, m *store.Memory) {
	if err := m.Confirm(t.Context(), "A-1"); err != nil {
		t.Fatal(err)
	}
}

// The table of what the wrapper answers, on a store that has claims.
func TestAnswersOfAClaimer(t *testing.T) {
	for _, test := range []struct {
		name      string
		before    prepare
		message   order
		answer    func(ctx context.Context) consumer.Ack
		options   []consumer.Option
		want      consumer.Ack
		wantErr   error // instead of want's
		outcome   consumer.Outcome
		calls     int
		attempt   int
		confirmed bool // the key afterwards
		kept      bool // the key is in the store afterwards
	}{
		{name: "first, accepted", answer: answers(consumer.Accept()), want: consumer.Accept(),
			outcome: consumer.First, calls: 1, attempt: 1, confirmed: true, kept: true},
		{name: "taken over, accepted", before: stale, answer: answers(consumer.Accept()), want: consumer.Accept(),
			outcome: consumer.TakenOver, calls: 1, attempt: 2, confirmed: true, kept: true},
		{name: "first, retried", answer: answers(consumer.Retry(errHandler)), want: consumer.Retry(errHandler),
			outcome: consumer.First, calls: 1, attempt: 1},
		{name: "first, retried later", answer: answers(consumer.RetryAfter(errHandler, time.Minute)),
			want: consumer.RetryAfter(errHandler, time.Minute), outcome: consumer.First, calls: 1, attempt: 1},
		{name: "first, rejected", answer: answers(consumer.Reject(errHandler)), want: consumer.Reject(errHandler),
			outcome: consumer.First, calls: 1, attempt: 1},
		{name: "first, zero answer", answer: answers(consumer.Ack{}), want: consumer.Retry(nil),
			outcome: consumer.First, calls: 1, attempt: 1},
		{name: "first, claim lost in the transaction", answer: answers(consumer.Retry(store.ErrClaimLost)),
			want: consumer.Retry(store.ErrClaimLost), outcome: consumer.First, calls: 1, attempt: 1},
		{name: "first, rejected for a claim lost in the transaction", answer: answers(consumer.Reject(store.ErrClaimLost)),
			want: consumer.Retry(store.ErrClaimLost), outcome: consumer.First, calls: 1, attempt: 1},
		{name: "first, rejected for a commit of unknown outcome", answer: answers(consumer.Reject(store.ErrCommitUnknown)),
			want: consumer.Retry(store.ErrCommitUnknown), outcome: consumer.First, calls: 1, attempt: 1},
		{name: "first, panic becomes a retry", answer: func(context.Context) consumer.Ack { panic(errHandler) },
			options: []consumer.Option{consumer.RetryPanics()}, wantErr: errHandler,
			outcome: consumer.First, calls: 1, attempt: 1},
		{name: "duplicate", before: confirmed, want: consumer.Accept(),
			outcome: consumer.Duplicate, attempt: 1, confirmed: true, kept: true},
		{name: "in progress", before: claimed, want: consumer.RetryAfter(nil, 30*time.Second), wantErr: consumer.ErrInProgress,
			outcome: consumer.InProgress, attempt: 1, kept: true},
		{name: "in progress, wait capped", before: claimed, options: []consumer.Option{consumer.WithMaxWait(time.Second)},
			want: consumer.RetryAfter(nil, time.Second), wantErr: consumer.ErrInProgress,
			outcome: consumer.InProgress, attempt: 1, kept: true},
		{name: "in progress, wait not capped", before: claimed, options: []consumer.Option{consumer.WithMaxWait(time.Hour)},
			want: consumer.RetryAfter(nil, time.Minute), wantErr: consumer.ErrInProgress,
			outcome: consumer.InProgress, attempt: 1, kept: true},
		{name: "in progress, accepted", before: claimed, options: []consumer.Option{consumer.AcceptInProgress()},
			want: consumer.Accept(), outcome: consumer.InProgress, attempt: 1, kept: true},
		{name: "started too often", before: stale, options: []consumer.Option{consumer.WithMaxAttempts(1)},
			want: consumer.Reject(nil), wantErr: &consumer.AttemptsError{Key: "A-1", Started: 1, Max: 1},
			outcome: consumer.Rejected, attempt: 2},
		{name: "started as often as allowed", before: stale, options: []consumer.Option{consumer.WithMaxAttempts(2)},
			answer: answers(consumer.Accept()), want: consumer.Accept(),
			outcome: consumer.TakenOver, calls: 1, attempt: 2, confirmed: true, kept: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(t, store.WithLease(time.Minute))
				if test.before != nil {
					test.before(t, m)
				}
				seen := new(events)
				h := &handler{answer: test.answer}
				handle := consumer.Idempotent(m, consumer.MessageID, h.handle,
					append(test.options, consumer.WithObserver(seen), quiet())...)

				ack := handle(t.Context(), order{"A-1"})

				wantAck(t, ack, test.want, test.wantErr)
				if h.calls != test.calls {
					t.Errorf("the handler ran %d times, want %d", h.calls, test.calls)
				}
				settled := seen.of(consumer.Settled)
				if len(settled) != 1 {
					t.Fatalf("%d events of settling", len(settled))
				}
				e := settled[0]
				if e.Outcome != test.outcome || e.Ack != ack || e.Key != "A-1" || e.Scope != "default" || e.Attempt != test.attempt {
					t.Errorf("event %+v, want outcome %v, attempt %d", e, test.outcome, test.attempt)
				}
				if handled := e.Outcome == consumer.First || e.Outcome == consumer.TakenOver; e.Confirmed != (handled && test.confirmed) {
					t.Errorf("the event says that the key was confirmed: %v", e.Confirmed)
				}
				if !errors.Is(e.Err, ack.Err()) {
					t.Errorf("event's error %v", e.Err)
				}
				record, err := m.Get(t.Context(), "A-1")
				if kept := err == nil; kept != test.kept || record.Confirmed != test.confirmed {
					t.Errorf("afterwards: %+v, %v", record, err)
				}
			})
		})
	}
}

// wantAck compares all but an error for which wantErr stands.
func wantAck(t *testing.T, ack, want consumer.Ack, wantErr error) {
	t.Helper()
	if wantErr == nil {
		if ack != want {
			t.Errorf("answer %v, want %v", ack, want)
		}
		return
	}
	var asAttempts, wantAttempts *consumer.AttemptsError
	matches := errors.Is(ack.Err(), wantErr) ||
		errors.As(wantErr, &wantAttempts) && errors.As(ack.Err(), &asAttempts) && *asAttempts == *wantAttempts
	if ack.Verdict() != want.Verdict() || ack.Delay() != want.Delay() || !matches {
		t.Errorf("answer %v, want %v with the error %v", ack, want, wantErr)
	}
}

// The same on a store that has only the small contract: not first is accepted, for better or worse.
func TestAnswersOfAStoreWithoutClaims(t *testing.T) {
	for _, test := range []struct {
		name      string
		before    prepare
		answer    func(ctx context.Context) consumer.Ack
		want      consumer.Ack
		outcome   consumer.Outcome
		calls     int
		confirmed bool
		kept      bool
	}{
		{name: "first, accepted", before: absent, answer: answers(consumer.Accept()), want: consumer.Accept(),
			outcome: consumer.First, calls: 1, confirmed: true, kept: true},
		{name: "taken over, accepted", before: stale, answer: answers(consumer.Accept()), want: consumer.Accept(),
			outcome: consumer.First, calls: 1, confirmed: true, kept: true},
		{name: "first, retried", before: absent, answer: answers(consumer.Retry(errHandler)), want: consumer.Retry(errHandler),
			outcome: consumer.First, calls: 1},
		{name: "first, rejected", before: absent, answer: answers(consumer.Reject(errHandler)), want: consumer.Reject(errHandler),
			outcome: consumer.First, calls: 1},
		{name: "duplicate", before: confirmed, want: consumer.Accept(), outcome: consumer.Duplicate, confirmed: true, kept: true},
		{name: "in progress", before: claimed, want: consumer.Accept(), outcome: consumer.Duplicate, kept: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMemory(t)
			test.before(t, m)
			seen := new(events)
			h := &handler{answer: test.answer}
			ack := consumer.Idempotent(smallOf(m), consumer.MessageID, h.handle, consumer.WithObserver(seen))(t.Context(), order{"A-1"})
			wantAck(t, ack, test.want, nil)
			if e := seen.of(consumer.Settled); h.calls != test.calls || len(e) != 1 || e[0].Outcome != test.outcome {
				t.Errorf("%d calls, events %+v; want %d calls, outcome %v", h.calls, e, test.calls, test.outcome)
			}
			record, err := m.Get(t.Context(), "A-1")
			if kept := err == nil; kept != test.kept || record.Confirmed != test.confirmed {
				t.Errorf("afterwards: %+v, %v", record, err)
			}
		})
	}
}

// onlyFirstTime offers not even Confirm and Forget.
type onlyFirstTime struct{ store.Store }

func TestAStoreNeedsNoMoreThanFirstTime(t *testing.T) {
	h := &handler{answer: answers(consumer.Accept())}
	handle := consumer.Idempotent(onlyFirstTime{newMemory(t)}, consumer.MessageID, h.handle)
	for range 3 {
		wantAck(t, handle(t.Context(), order{"A-1"}), consumer.Accept(), nil)
	}
	if h.calls != 1 {
		t.Errorf("%d calls, want 1", h.calls)
	}
}

func bothStores(t *testing.T, test func(t *testing.T, m *store.Memory, s store.Store)) {
	t.Helper()
	for name, of := range map[string]func(m *store.Memory) store.Store{
		"claimer":        func(m *store.Memory) store.Store { return m },
		"small contract": smallOf,
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t)
			test(t, m, of(m))
		})
	}
}

func TestARetryRunsAgainAndADuplicateDoesNot(t *testing.T) {
	bothStores(t, func(t *testing.T, _ *store.Memory, s store.Store) {
		h := &handler{answer: answers(consumer.Retry(errHandler))}
		handle := consumer.WithIdempotency(s, consumer.MessageID[order])(h.handle)
		wantAck(t, handle(t.Context(), order{"A-1"}), consumer.Retry(errHandler), nil)
		h.answer = answers(consumer.Accept())
		for range 3 {
			wantAck(t, handle(t.Context(), order{"A-1"}), consumer.Accept(), nil)
		}
		if h.calls != 2 {
			t.Errorf("%d calls, want 2", h.calls)
		}
	})
}

func TestTheKeyIsConfirmedAndGivenBackAfterTheContextEnded(t *testing.T) {
	bothStores(t, func(t *testing.T, m *store.Memory, s store.Store) {
		for _, ack := range []consumer.Ack{consumer.Accept(), consumer.Retry(context.Canceled)} {
			ctx, cancel := context.WithCancel(t.Context())
			handle := consumer.Idempotent(s, consumer.MessageID, func(context.Context, order) consumer.Ack {
				cancel()
				return ack
			})
			wantAck(t, handle(ctx, order{ack.String()}), ack, nil)
			record, err := m.Get(t.Context(), ack.String())
			if ack.Accepted() && !record.Confirmed || !ack.Accepted() && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("after %v: %+v, %v", ack, record, err)
			}
		}
	})
}

func TestTheHandlersContextHasTheClaimAndTheDeliverysValues(t *testing.T) {
	type valueKey struct{}
	for _, option := range []consumer.Option{nil, consumer.WithoutHeartbeat()} {
		m := newMemory(t)
		handle := consumer.Idempotent(m, consumer.MessageID, func(ctx context.Context, _ order) consumer.Ack {
			claim := consumer.ClaimFrom(ctx)
			if claim == nil || claim.Key() != "A-1" || claim.Outcome() != store.First {
				t.Errorf("claim %+v", claim)
			}
			if ctx.Value(valueKey{}) != "v" {
				t.Error("the delivery's values are gone")
			}
			return consumer.Accept()
		}, option)
		handle(context.WithValue(t.Context(), valueKey{}, "v"), order{"A-1"})
	}
	if consumer.ClaimFrom(t.Context()) != nil {
		t.Error("a claim outside of a handler")
	}
}

// A claim that somebody confirms needs no second confirm.
func TestTheHandlerMayConfirmItself(t *testing.T) {
	m := newMemory(t)
	handle := consumer.Idempotent(m, consumer.MessageID, func(ctx context.Context, _ order) consumer.Ack {
		return consumer.FromError(consumer.ClaimFrom(ctx).Confirm(ctx))
	})
	for range 2 {
		wantAck(t, handle(t.Context(), order{"A-1"}), consumer.Accept(), nil)
	}
}

func TestWhatMakesNoSensePanicsAtStart(t *testing.T) {
	m := newMemory(t, store.WithLease(time.Minute))
	accept := func(context.Context, order) consumer.Ack { return consumer.Accept() }
	with := func(option func() consumer.Option) func() {
		return func() { consumer.Idempotent(m, consumer.MessageID, accept, option()) }
	}
	for name, build := range map[string]func(){
		"nil store":         func() { consumer.Idempotent(nil, consumer.MessageID, accept) },
		"nil key":           func() { consumer.Idempotent[order](m, nil, accept) },
		"nil handler":       func() { consumer.Idempotent[order](m, consumer.MessageID, nil) },
		"heartbeat 0":       with(func() consumer.Option { return consumer.WithHeartbeat(0) }),
		"heartbeat > lease": with(func() consumer.Option { return consumer.WithHeartbeat(time.Minute) }),
		"max wait 0":        with(func() consumer.Option { return consumer.WithMaxWait(0) }),
		"max attempts 0":    with(func() consumer.Option { return consumer.WithMaxAttempts(0) }),
		"nil logger":        with(func() consumer.Option { return consumer.WithLogger(nil) }),
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if v, ok := recover().(string); !ok || !strings.HasPrefix(v, "consumer: ") {
					t.Errorf("panic %v, want one that says what to do", v)
				}
			}()
			build()
		})
	}
}

func TestChainRunsTheFirstMiddlewareOutermost(t *testing.T) {
	var order []string
	named := func(name string) consumer.Middleware[int] {
		return func(next consumer.Handler[int]) consumer.Handler[int] {
			return func(ctx context.Context, m int) consumer.Ack {
				order = append(order, name)
				return next(ctx, m)
			}
		}
	}
	consumer.Chain(named("a"), named("b"))(func(context.Context, int) consumer.Ack { return consumer.Accept() })(t.Context(), 0)
	if fmt.Sprint(order) != "[a b]" {
		t.Errorf("order %v", order)
	}
}
