package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
)

const (
	// fewTries is for what the broker delivers again anyway: about half a second of them.
	fewTries = 10
	// untilLimit is for what must not be left undone: until the time limit.
	untilLimit = math.MaxInt

	firstBackoff = 2 * time.Millisecond
	maxBackoff   = 250 * time.Millisecond
)

// retry runs op until it succeeds, fails for good, was tried maxTries times, or ctx ends. It is for
// single statements that may be repeated, never for what runs in a caller's transaction.
func retry(ctx context.Context, maxTries int, op func(ctx context.Context) error) error {
	backoff := firstBackoff
	var before error // why it was tried again
	for try := 1; ; try++ {
		err := op(ctx)
		if err == nil || try >= maxTries || !healsWithTime(err) {
			if before != nil && errors.Is(err, context.DeadlineExceeded) { // which does not say what is wrong
				err = fmt.Errorf("%w, after: %w", err, before)
			}
			return err
		}
		// Half of it is random, so that those who collided do not collide again.
		wait := time.NewTimer(backoff/2 + rand.N(backoff/2))
		select {
		case <-ctx.Done():
			wait.Stop()
			return err
		case <-wait.C:
		}
		backoff = min(2*backoff, maxBackoff)
		before = err
	}
}

func healsWithTime(err error) bool {
	return errors.Is(err, dialects.ErrRetryable) || errors.Is(err, dialects.ErrOutcomeUnknown)
}
