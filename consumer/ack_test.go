package consumer_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/consumer"
)

// listError cannot be compared: the comparison panics.
type listError []string

func (e listError) Error() string { return fmt.Sprint([]string(e)) }

func TestAcksCanBeComparedWhateverTheirErrors(t *testing.T) {
	err := errors.New("away")
	if consumer.Retry(err) != consumer.Retry(err) || consumer.Retry(err) == consumer.Reject(err) ||
		consumer.Retry(err) == consumer.RetryAfter(err, 1) || consumer.RetryAfter(err, -1) != consumer.Retry(err) {
		t.Error("acks are equal that differ, or the reverse")
	}
	if (consumer.Ack{}) != consumer.Retry(nil) {
		t.Error("the zero Ack is not Retry(nil)")
	}
	odd := consumer.Reject(listError{"a"})
	if odd == consumer.Reject(listError{"a"}) {
		t.Error("errors that cannot be compared are equal")
	}
	var list listError
	if !errors.As(odd.Err(), &list) || len(list) != 1 {
		t.Errorf("the error is lost: %v", odd.Err())
	}
	if _, ok := odd.Err().(listError); !ok { //nolint:errorlint // the very type
		t.Errorf("the error is wrapped: %T", odd.Err())
	}
}

func TestAcksPrint(t *testing.T) {
	for want, ack := range map[string]consumer.Ack{
		"accept":               consumer.Accept(),
		"retry":                consumer.Retry(nil),
		"retry: away":          consumer.Retry(errors.New("away")),
		"retry after 2s: away": consumer.RetryAfter(errors.New("away"), 2*time.Second),
		"reject: [a b]":        consumer.Reject(listError{"a", "b"}),
	} {
		if ack.String() != want {
			t.Errorf("%q, want %q", ack.String(), want)
		}
	}
}

func TestFromError(t *testing.T) {
	err := errors.New("away")
	if consumer.FromError(nil) != consumer.Accept() || consumer.FromError(err) != consumer.Retry(err) {
		t.Error("nil is not accepted, or an error not retried")
	}
	wrapped := fmt.Errorf("order 1: %w", consumer.Fatal(err))
	if consumer.FromError(wrapped) != consumer.Reject(wrapped) || !errors.Is(wrapped, err) {
		t.Error("a fatal error is not rejected")
	}
	if consumer.Fatal(nil) != nil {
		t.Error("Fatal(nil) is an error")
	}
}
