package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// purgeBatch bounds how many rows one statement of a purge locks, and for how long.
const purgeBatch = 1000

// PurgeExpired deletes the keys whose retention is over, in batches, oldest first, and returns how many.
// It never deletes a claim with a live lease, and never locks the table. Several processes may run it at
// once. When it fails or ctx ends, what was deleted until then stays deleted and is counted.
func (s *SQL) PurgeExpired(ctx context.Context) (deleted int64, err error) {
	for {
		n, err := s.purgeBatch(ctx)
		deleted += n
		if err != nil {
			return deleted, opError("purge", "", "", err)
		}
		if n < purgeBatch {
			return deleted, nil
		}
	}
}

func (s *SQL) purgeBatch(ctx context.Context) (deleted int64, err error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.set.timeout)
	defer cancel()
	err = retry(ctx, fewTries, func(ctx context.Context) error {
		deleted, err = s.queries.PurgeBatch(ctx, purgeBatch)
		return err
	})
	return deleted, err
}

// PurgeEvery purges about every interval, at least a second, until ctx ends, and then returns nil. The
// pauses vary by a tenth, and the first one is a random part of the interval, so that processes started
// together do not purge together. A purge that fails is logged, and the next one tried in its turn. It
// returns ErrClosed once the store is closed.
func (s *SQL) PurgeEvery(ctx context.Context, interval time.Duration) error {
	if interval < time.Second {
		return opError("purge", "", "", fmt.Errorf("the interval %v is too short: give at least 1s", interval))
	}
	pause := time.NewTimer(rand.N(interval))
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		deleted, err := s.PurgeExpired(ctx)
		switch {
		case errors.Is(err, ErrClosed):
			return err
		case err != nil && ctx.Err() == nil:
			s.set.logger.ErrorContext(ctx, "firsttime: purge failed, the next one is tried in its turn",
				slog.Int64("deleted", deleted), slog.Duration("interval", interval), slog.Any("error", err))
		}
		pause.Reset(interval - interval/10 + rand.N(interval/5))
	}
}
