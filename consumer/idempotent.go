package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

// Idempotent wraps h so that it does not mind being called twice with the same message: see the package's
// comment for what the wrapped handler answers.
//
// key says by what a message is recognised; "" or a panic means that it has no key. The store is best one
// that implements store.Claimer, as those of package store do. One that implements only FirstTime cannot
// tell a key in progress from one that is done, so a delivery that is not the first is accepted; the key
// is given back, if the store is a Forgetter, unless h accepts, and confirmed, if it is a Confirmer, when
// h does.
//
// Options and nil arguments that make no sense panic here, when the program starts.
func Idempotent[M any](s store.Store, key func(M) string, h Handler[M], options ...Option) Handler[M] {
	switch {
	case s == nil:
		panic("consumer: the store is nil")
	case key == nil:
		panic("consumer: the key function is nil: pass one, consumer.MessageID for example")
	case h == nil:
		panic("consumer: the handler is nil")
	}
	i := &idempotent[M]{key: key, handler: h, store: s, set: newSettings(options)}
	i.claimer, _ = s.(store.Claimer)
	if named, ok := s.(interface{ Name() string }); ok {
		i.scope = named.Name()
	}
	if leasing, ok := s.(interface{ Lease() time.Duration }); ok && i.set.beat >= leasing.Lease() {
		panic(fmt.Sprintf("consumer: WithHeartbeat(%v): the interval must be shorter than the lease of the store, %v",
			i.set.beat, leasing.Lease()))
	}
	i.beats.set = &i.set
	return i.handle
}

// WithIdempotency is Idempotent as a middleware. Every handler that it wraps has the same keys, so one is
// enough; two in one chain would find each other's claims in progress.
func WithIdempotency[M any](s store.Store, key func(M) string, options ...Option) Middleware[M] {
	return func(h Handler[M]) Handler[M] { return Idempotent(s, key, h, options...) }
}

type idempotent[M any] struct {
	key     func(M) string
	handler Handler[M]
	store   store.Store
	claimer store.Claimer // nil if the store has no claims
	scope   string
	set     settings
	beats   heartbeats
}

// held is a key that this delivery has claimed.
type held interface {
	Confirm(ctx context.Context) error
	Confirmed() bool
	Forget(ctx context.Context) error
	LeaseEnd() time.Time
}

func (i *idempotent[M]) handle(ctx context.Context, m M) Ack {
	e := Event{Kind: Settled, Scope: i.scope, Ack: Retry(errDidNotReturn)}
	if i.set.observer != nil {
		e.Started = time.Now()
		defer func() {
			e.Err = e.Ack.Err()
			i.set.observer.Observe(ctx, e)
		}()
	}
	i.answer(ctx, m, &e)
	return e.Ack
}

// errDidNotReturn stands in the event of a delivery whose handler panicked or ended its goroutine.
var errDidNotReturn = errors.New("the handler did not return")

// answer settles the delivery in e.
func (i *idempotent[M]) answer(ctx context.Context, m M, e *Event) {
	key, err := i.keyOf(m)
	if err != nil {
		e.Outcome, e.Ack = Rejected, Reject(&FatalError{err})
		return
	}
	e.Key = key
	if i.claimer == nil {
		i.answerFirst(ctx, m, key, e)
	} else {
		i.answerClaim(ctx, m, key, e)
	}
}

// keyOf is the message's key. A function that panics has found none.
func (i *idempotent[M]) keyOf(m M) (key string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: its function panicked: %v", ErrNoKey, v)
		}
	}()
	if key = i.key(m); key == "" {
		return "", ErrNoKey
	}
	return key, nil
}

func (i *idempotent[M]) answerClaim(ctx context.Context, m M, key string, e *Event) {
	claim, err := i.claimer.Claim(ctx, key)
	e.Claim = i.since(e.Started)
	if err != nil {
		e.refuse(err)
		return
	}
	e.Attempt = claim.Attempt()
	switch claim.Outcome() {
	case store.Duplicate:
		e.Outcome, e.Ack = Duplicate, Accept()
		return
	case store.InProgress:
		e.Outcome, e.Ack = InProgress, i.waitFor(claim)
		return
	case store.First:
		e.Outcome = First
	case store.TakenOver:
		e.Outcome = TakenOver
	}
	if limit := i.set.maxAttempts; limit > 0 && claim.Attempt() > limit {
		e.Outcome = Rejected
		e.Ack = Reject(&FatalError{&AttemptsError{Key: key, Started: claim.Attempt() - 1, Max: limit}})
		i.forget(ctx, claim, e)
		return
	}
	w := i.beats.start(ctx, claim)
	i.work(ctx, w, m, claim, e)
}

// answerFirst is answerClaim on a store that has no claims.
func (i *idempotent[M]) answerFirst(ctx context.Context, m M, key string, e *Event) {
	first, err := i.store.FirstTime(ctx, key)
	e.Claim = i.since(e.Started)
	switch {
	case err != nil:
		e.refuse(err)
	case !first:
		e.Outcome, e.Ack = Duplicate, Accept()
	default:
		e.Outcome = First
		i.work(ctx, &working{Context: ctx}, m, newHeldKey(i.store, key), e)
	}
}

// refuse is the answer to a delivery whose key could not be claimed because of err.
func (e *Event) refuse(err error) {
	if errors.Is(err, store.ErrInvalidKey) {
		e.Outcome, e.Ack = Rejected, Reject(&FatalError{err})
	} else {
		e.Outcome, e.Ack = StoreError, Retry(fmt.Errorf("%w: %w", ErrStoreFailed, err))
	}
}

// waitFor is the answer to a delivery whose key another one holds.
func (i *idempotent[M]) waitFor(claim *store.Claim) Ack {
	if i.set.acceptInProgress {
		return Accept()
	}
	left := claim.RetryAfter()
	return RetryAfter(&InProgressError{Key: claim.Key(), Holder: claim.Holder(), LeaseFor: left}, min(left, i.set.maxWait))
}

// work calls the handler, in w, and ends the claim by its answer, in the delivery's context.
func (i *idempotent[M]) work(ctx context.Context, w *working, m M, c held, e *Event) {
	started := i.now()
	returned := false
	defer func() {
		if returned {
			return
		}
		if i.set.retryPanics {
			if v := recover(); v != nil {
				e.Ack = Retry(&PanicError{Value: v, Stack: debug.Stack()})
			}
		}
		i.beats.stop(w)
		e.Handle = i.since(started)
		i.forget(ctx, c, e)
	}()
	ack := i.handler(w, m)
	i.beats.stop(w)
	e.Handle = i.since(started)
	e.Ack = i.settle(ctx, w, c, ack, e)
	returned = true
}

// settle ends the claim by the handler's answer, and returns the delivery's.
func (i *idempotent[M]) settle(ctx context.Context, w *working, c held, ack Ack, e *Event) Ack {
	lost := ack.Err()
	if e.Confirmed = c.Confirmed(); ack.Accepted() {
		lost = nil
		if !e.Confirmed {
			lost = i.confirm(ctx, c, e)
			e.Confirmed = lost == nil
		}
	}
	if errors.Is(lost, store.ErrClaimLost) && !w.lost {
		i.report(ctx, e, ClaimLost, lost)
	}
	if ack.Accepted() {
		return ack
	}
	i.forget(ctx, c, e)
	switch {
	case w.lost && !undecided(ack.Err()): // it was ended because of that, whatever it says itself
		return RetryAfter(fmt.Errorf("%w: %w", store.ErrClaimLost, ack.errOr(context.Canceled)), ack.Delay())
	case undecided(ack.Err()):
		return RetryAfter(ack.Err(), ack.Delay())
	}
	return ack
}

// undecided reports whether err leaves it to the next delivery to find out what became of the message, so
// that it is wrong to reject it, whatever the handler thinks.
func undecided(err error) bool {
	return errors.Is(err, store.ErrClaimLost) || errors.Is(err, store.ErrRetryTx) || errors.Is(err, store.ErrCommitUnknown)
}

// The pauses between tries to confirm.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 5 * time.Second
)

// confirm confirms the key of accepted work. It tries until the lease is nearly over: as long as the
// claim lives, nobody does the work again. It is not interrupted by the end of ctx. Its error has been
// reported, unless the claim is lost.
func (i *idempotent[M]) confirm(ctx context.Context, c held, e *Event) error {
	started := i.now()
	ctx = context.WithoutCancel(ctx)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := c.Confirm(ctx)
		e.Confirm = i.since(started)
		switch {
		case err == nil || errors.Is(err, store.ErrClaimLost):
			return err
		case errors.Is(err, store.ErrClosed) || time.Until(c.LeaseEnd()) < 2*pause:
			i.report(ctx, e, ConfirmFailed, err)
			return err
		}
		time.Sleep(pause)
	}
}

// forget gives the key back.
func (i *idempotent[M]) forget(ctx context.Context, c held, e *Event) {
	started := i.now()
	err := c.Forget(ctx)
	e.Confirm = i.since(started)
	if err != nil {
		i.report(ctx, e, ForgetFailed, err)
	}
}

// report tells observer and logger about trouble.
func (i *idempotent[M]) report(ctx context.Context, e *Event, kind EventKind, err error) {
	i.set.report(ctx, Event{Kind: kind, Scope: e.Scope, Key: e.Key, Attempt: e.Attempt, Err: err})
}

func (s *settings) report(ctx context.Context, e Event) {
	switch e.Kind {
	case ClaimLost:
		s.logger.WarnContext(ctx, "firsttime: claim lost: another delivery of the message does the work, or did it",
			"scope", e.Scope, "key", e.Key, "error", e.Err)
	case ConfirmFailed:
		s.logger.ErrorContext(ctx, "firsttime: the work is done but its key could not be confirmed: another delivery would do it again",
			"scope", e.Scope, "key", e.Key, "error", e.Err)
	case ForgetFailed:
		s.logger.WarnContext(ctx, "firsttime: a key could not be given back: a retry waits until the lease is over",
			"scope", e.Scope, "key", e.Key, "error", e.Err)
	}
	if s.observer != nil {
		s.observer.Observe(ctx, e)
	}
}

// now and since measure only if somebody wants to know.
func (i *idempotent[M]) now() time.Time {
	if i.set.observer == nil {
		return time.Time{}
	}
	return time.Now()
}

func (i *idempotent[M]) since(start time.Time) time.Duration {
	if start.IsZero() {
		return 0
	}
	return time.Since(start)
}

// heldKey is a key that was claimed by FirstTime.
type heldKey struct {
	store store.Store
	key   string
	end   time.Time
}

// assumedLease is how long a store that has no claims is asked to confirm.
const assumedLease = 30 * time.Second

func newHeldKey(s store.Store, key string) heldKey {
	return heldKey{store: s, key: key, end: time.Now().Add(assumedLease)}
}

func (h heldKey) Confirm(ctx context.Context) error {
	if confirmer, ok := h.store.(store.Confirmer); ok {
		return confirmer.Confirm(ctx, h.key)
	}
	return nil
}

func (h heldKey) Confirmed() bool { return false }

func (h heldKey) Forget(ctx context.Context) error {
	if forgetter, ok := h.store.(store.Forgetter); ok {
		return forgetter.Forget(context.WithoutCancel(ctx), h.key)
	}
	return nil
}

func (h heldKey) LeaseEnd() time.Time { return h.end }
