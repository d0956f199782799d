package consumer

import (
	"context"
	"time"
)

// Observer is told what happens to deliveries. It is called synchronously and concurrently, and must not
// block.
type Observer interface {
	Observe(ctx context.Context, event Event)
}

// ObserverFunc is a function as an Observer.
type ObserverFunc func(ctx context.Context, event Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, event Event) { f(ctx, event) }

// Event is something that happened to a delivery.
type Event struct {
	Kind  EventKind
	Scope string // the consumer, "" for a store that has no scopes
	Key   string // "" for a message without one

	// Err is what failed: the claim, the handler, the heartbeat, the confirm, according to Kind.
	Err error

	// These are set if the delivery got its answer.
	Outcome Outcome
	Ack     Ack
	Started time.Time
	Claim   time.Duration // the time that the claim took
	Handle  time.Duration // the handler
	Confirm time.Duration // confirming the key or giving it back; 0 if InTx confirmed it
	// Confirmed is true if the key was confirmed, by the handler or after it.
	Confirmed bool

	// Attempt counts the starts of work on the key, this one included; 0 if it was not claimed.
	Attempt int
}

// EventKind says what happened.
type EventKind string

const (
	// Settled is the one event of every delivery: it got its answer, which is in Ack.
	Settled EventKind = "settled"
	// Heartbeat says that a lease was extended, or could not be, which is in Err.
	Heartbeat EventKind = "heartbeat"
	// ClaimLost says that somebody else may hold the key, while the handler ran or when it was done.
	ClaimLost EventKind = "claim_lost"
	// ConfirmFailed says that a handler accepted and that its key could not be confirmed until the lease
	// was nearly over. The delivery is accepted all the same; another one of the same message would run.
	ConfirmFailed EventKind = "confirm_failed"
	// ForgetFailed says that a key could not be given back: a retry waits until the lease is over.
	ForgetFailed EventKind = "forget_failed"
)

// Outcome is what a delivery met.
type Outcome string

const (
	// First means that the key was new: the handler ran.
	First Outcome = "first"
	// TakenOver means that a claim which never finished was taken over: the handler ran.
	TakenOver Outcome = "takeover"
	// Duplicate means that the key was confirmed.
	Duplicate Outcome = "duplicate"
	// InProgress means that somebody else held the key.
	InProgress Outcome = "in_progress"
	// Rejected means that there was no key, or that work on it was started too often.
	Rejected Outcome = "rejected"
	// StoreError means that the key could not be claimed.
	StoreError Outcome = "store_error"
)
