package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
)

// A time limit alone does not say what is wrong.
func TestTheEndOfTheTimeTellsWhyItWasTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		readOnly := dialects.Mark(dialects.ErrRetryable, errors.New("the server is read-only"))
		tries := 0
		err := retry(ctx, untilLimit, func(ctx context.Context) error {
			if tries++; tries == 1 {
				return readOnly
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, readOnly) {
			t.Errorf("%v, want both the end of the time and what was wrong before", err)
		}
	})
}
