package consumer

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrInProgress is matched by the error of a retry if somebody else holds the message's key.
	ErrInProgress = errors.New("in progress elsewhere")

	// ErrStoreFailed is matched by the error of a retry if the key could not be claimed.
	ErrStoreFailed = errors.New("the key could not be claimed")

	// ErrNoKey is matched by the error of a rejection if the message has no key.
	ErrNoKey = errors.New("the message has no key")

	// ErrNoClaim is matched by the error of a retry if InTx is called outside Idempotent, or with a
	// store that has no claims.
	ErrNoClaim = errors.New("there is no claim to confirm: " +
		"wrap the handler with Idempotent, on a store that implements store.Claimer")
)

// FatalError is an error that no retry can mend.
type FatalError struct{ Err error }

// Fatal marks err as one that no retry can mend, for FromError and InTx. It returns nil for nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &FatalError{Err: err}
}

func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FatalError) Unwrap() error { return e.Err }

// InProgressError says who holds a key. It matches ErrInProgress.
type InProgressError struct {
	Key      string
	Holder   string        // the name of the worker
	LeaseFor time.Duration // what was left of its lease
}

func (e *InProgressError) Error() string {
	return fmt.Sprintf("key %q is in progress: %s holds it, for another %v", e.Key, e.Holder, e.LeaseFor)
}

// Unwrap returns ErrInProgress.
func (e *InProgressError) Unwrap() error { return ErrInProgress }

// AttemptsError says that work on a message was started too often without an end. It stands in a
// FatalError.
type AttemptsError struct {
	Key     string
	Started int // times, not counting this one
	Max     int
}

func (e *AttemptsError) Error() string {
	return fmt.Sprintf("key %q: the work was started %d times and never finished, not even by failing: "+
		"it seems to end its process (at most %d starts are allowed)", e.Key, e.Started, e.Max)
}

// PanicError is a handler's panic that became a retry.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("the handler panicked: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
