package consumer

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

// Ack is a handler's answer: how to settle the delivery. The zero Ack is Retry(nil), so that an answer
// that was forgotten loses no message. Acks can be compared with ==: they are equal if verdict, delay and
// error are.
type Ack struct {
	verdict Verdict
	delay   time.Duration
	err     error
}

// Verdict is what is to become of a delivery.
type Verdict int

const (
	// VerdictRetry puts the message back, to be delivered again.
	VerdictRetry Verdict = iota
	// VerdictAccept is for a message that is done.
	VerdictAccept
	// VerdictReject is for a message that no retry can help: a broker's client moves it to where people
	// look at it, its dead letters.
	VerdictReject
)

// String returns "retry", "accept" or "reject".
func (v Verdict) String() string {
	switch v {
	case VerdictRetry:
		return "retry"
	case VerdictAccept:
		return "accept"
	case VerdictReject:
		return "reject"
	}
	return "unknown"
}

// Accept says that the message is done.
func Accept() Ack { return Ack{verdict: VerdictAccept} }

// Retry says that the message was not done because of err, and is to be delivered again when the
// consumer's policy says so.
func Retry(err error) Ack { return Ack{err: comparableError(err)} }

// RetryAfter is Retry with the delay that the handler thinks right, as closely as the broker can keep it.
// A delay that is not positive means Retry.
func RetryAfter(err error, delay time.Duration) Ack {
	return Ack{delay: max(delay, 0), err: comparableError(err)}
}

// Reject says that the message cannot be done, because of err, and never will be.
func Reject(err error) Ack { return Ack{verdict: VerdictReject, err: comparableError(err)} }

// FromError answers Accept for nil, Reject for an error that is a FatalError, and Retry for any other.
func FromError(err error) Ack {
	err = comparableError(err)
	var fatal *FatalError
	switch {
	case err == nil:
		return Accept()
	case errors.As(err, &fatal):
		return Reject(err)
	}
	return Retry(err)
}

// Verdict is what is to become of the delivery.
func (a Ack) Verdict() Verdict { return a.verdict }

// Accepted reports whether the message is done.
func (a Ack) Accepted() bool { return a.verdict == VerdictAccept }

// Delay is how long a retry is to wait, 0 if the consumer's policy decides.
func (a Ack) Delay() time.Duration { return a.delay }

// Err is why the message was not accepted. It may be nil.
func (a Ack) Err() error {
	if boxed, ok := a.err.(*boxedError); ok { //nolint:errorlint // what comparableError put around it
		return boxed.error
	}
	return a.err
}

func (a Ack) errOr(other error) error {
	if err := a.Err(); err != nil {
		return err
	}
	return other
}

// SpendsAttempt reports whether a retry counts as an attempt to handle the message. It does not if somebody
// else holds the key, or took it over, or the store failed, or the database takes no work at present, or the
// outcome of a commit is unknown: the message is not to blame, and must not end among the dead letters for it.
func (a Ack) SpendsAttempt() bool {
	for _, blameless := range []error{ErrInProgress, ErrStoreFailed, store.ErrClaimLost, store.ErrUnavailable, store.ErrCommitUnknown} {
		if errors.Is(a.err, blameless) {
			return false
		}
	}
	return true
}

// String is the verdict, the delay and the error.
func (a Ack) String() string {
	text := a.verdict.String()
	if a.delay > 0 {
		text += fmt.Sprintf(" after %v", a.delay)
	}
	if err := a.Err(); err != nil {
		text += ": " + err.Error()
	}
	return text
}

// comparableError returns err such that comparing it does not panic, as some errors do: a slice of errors, say.
// An error that panics when it is asked anything, as a nil pointer may, is replaced by one that says so.
func comparableError(err error) (safe error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			safe = fmt.Errorf("an error of type %T that panics: %v", err, v)
		}
	}()
	_ = err.Error()
	_ = errors.Is(err, ErrInProgress) // asks all that it wraps
	if reflect.ValueOf(err).Comparable() {
		return err
	}
	return &boxedError{err}
}

type boxedError struct{ error }

func (e *boxedError) Unwrap() error { return e.error }
