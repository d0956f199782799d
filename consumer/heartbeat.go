package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

// working is the context of a running handler. The fields below cancel belong to the heartbeats.
type working struct {
	context.Context
	claim  *store.Claim
	cancel context.CancelCauseFunc

	due        time.Time // when the next beat is
	prev, next *working
	listed     bool
	ended      bool
	failure    error         // of the last beat
	lost       bool          // a beat found out that the claim is lost, and reported it
	beating    chan struct{} // closed when the beat that is under way ends, nil if none is
}

type claimKey struct{}

// Value adds the claim to the values of the delivery's context.
func (w *working) Value(key any) any {
	if key == (claimKey{}) && w.claim != nil {
		return w.claim
	}
	return w.Context.Value(key)
}

// ClaimFrom is the claim of the message that a handler wrapped by Idempotent handles, with which to confirm
// the key in a transaction: see InTx and store.Claim.ConfirmTx. It is nil outside of one, and on a store
// that has no claims. The claim is not to be used after the handler returned.
func ClaimFrom(ctx context.Context) *store.Claim {
	claim, _ := ctx.Value(claimKey{}).(*store.Claim)
	return claim
}

// heartbeats extends the leases of all running handlers of one wrapper. They stand in a list in the order
// of their next beats, which for leases of one length is the order of their starts: a handler that ends
// before its first beat costs an insertion at one end and a removal, no timer and no goroutine. One timer,
// set for the head of the list or earlier, serves all.
type heartbeats struct {
	set         *settings
	mu          sync.Mutex
	first, last *working
	timer       *time.Timer
	armed       time.Time // when the timer fires, zero if it is not set
}

// start makes the handler's context and keeps its claim alive until stop.
func (h *heartbeats) start(ctx context.Context, claim *store.Claim) *working {
	w := &working{Context: ctx, claim: claim}
	if h.set.beat < 0 {
		return w
	}
	w.Context, w.cancel = context.WithCancelCause(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.insert(w, claim.LeaseEnd().Add(h.interval(w)-claim.Lease()))
	return w
}

// stop ends the handler's context. A beat that is under way ends first, so that nobody uses the store any
// more when the handler's delivery is settled.
func (h *heartbeats) stop(w *working) {
	if w.cancel == nil {
		return
	}
	h.mu.Lock()
	w.ended = true
	if w.listed {
		h.remove(w)
	}
	beating := w.beating
	h.mu.Unlock()
	if beating != nil {
		<-beating
	}
	w.cancel(nil)
}

func (h *heartbeats) interval(w *working) time.Duration {
	if h.set.beat > 0 {
		return h.set.beat
	}
	return w.claim.Lease() / 3
}

// insert puts w into the list and sets the timer if it would fire too late.
func (h *heartbeats) insert(w *working, due time.Time) {
	w.due, w.listed = due, true
	w.prev = h.last
	for w.prev != nil && due.Before(w.prev.due) {
		w.prev = w.prev.prev
	}
	if w.prev != nil {
		w.next, w.prev.next = w.prev.next, w
	} else {
		w.next, h.first = h.first, w
	}
	if w.next != nil {
		w.next.prev = w
	} else {
		h.last = w
	}
	if h.armed.IsZero() || due.Before(h.armed) {
		h.arm(due)
	}
}

func (h *heartbeats) remove(w *working) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		h.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		h.last = w.prev
	}
	w.prev, w.next, w.listed = nil, nil, false
}

func (h *heartbeats) arm(at time.Time) {
	h.armed = at
	if h.timer == nil {
		h.timer = time.AfterFunc(time.Until(at), h.fire)
	} else {
		h.timer.Reset(time.Until(at))
	}
}

// fire starts the beats that are due, side by side: one that hangs must not cost others their lease.
func (h *heartbeats) fire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.armed = time.Time{}
	for now := time.Now(); h.first != nil && !h.first.due.After(now); {
		w := h.first
		h.remove(w)
		w.beating = make(chan struct{})
		go h.beat(w)
	}
	if h.first != nil {
		h.arm(h.first.due)
	}
}

// beat extends one lease.
func (h *heartbeats) beat(w *working) {
	interval := h.interval(w)
	err := h.extend(w, interval)
	now := time.Now()
	busy := errors.Is(err, store.ErrBusy)
	lost := errors.Is(err, store.ErrClaimLost) || err != nil && !busy && !now.Before(w.safeUntil())

	if h.set.observer != nil {
		h.set.observer.Observe(w.Context, h.event(w, Heartbeat, err))
	}
	if lost {
		h.set.report(w.Context, h.event(w, ClaimLost, err))
		w.cancel(lostCause(err))
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	w.lost = lost
	close(w.beating)
	w.beating = nil
	w.failure = nil
	switch {
	case w.ended || lost || w.claim.Confirmed():
		return
	case err == nil:
		h.insert(w, now.Add(interval))
		return
	case !busy:
		w.failure = err
	}
	next := now.Add(interval / 4)
	if end := w.safeUntil(); !busy && end.Before(next) {
		next = end
	}
	h.insert(w, next)
}

// safeUntil is when a claim that was not extended counts as lost: others may have it soon after.
func (w *working) safeUntil() time.Time { return w.claim.LeaseEnd().Add(-w.claim.Lease() / 20) }

// extend asks the store. It has its answer, or gives up, when the claim is not safe any more. A process that
// stood still until then, or has waited for the lock of SQLite, asks all the same.
func (h *heartbeats) extend(w *working, interval time.Duration) error {
	end := w.safeUntil()
	if now := time.Now(); !now.Before(end) {
		if w.failure != nil {
			return w.failure
		}
		end = now.Add(interval)
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(w.Context), end)
	defer cancel()
	return w.claim.Extend(ctx)
}

// lostCause is the cause with which the handler's context ends. It matches store.ErrClaimLost.
func lostCause(err error) error {
	if errors.Is(err, store.ErrClaimLost) {
		return err
	}
	return fmt.Errorf("%w: the lease could not be extended: %w", store.ErrClaimLost, err)
}

func (h *heartbeats) event(w *working, kind EventKind, err error) Event {
	return Event{Kind: kind, Scope: w.claim.Scope(), Key: w.claim.Key(), Attempt: w.claim.Attempt(), Err: err}
}
