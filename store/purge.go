package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
)

// Parts of the time in which a purge's statements run: the one that is taken unless another is given, and the least.
const (
	DefaultPurgeShare = 0.5
	MinPurgeShare     = 0.0001
)

// PurgeOptions say how a purge is to run. The zero value is what PurgeExpired does.
type PurgeOptions struct {
	// Share is the part of the time in which statements may run, from MinPurgeShare to 1: after each batch there
	// is a pause. 0 means DefaultPurgeShare.
	Share float64
	// MaxDuration ends the purge when it is over. 0 means no limit.
	MaxDuration time.Duration
	// Progress is called after every batch with the number of keys deleted so far. It may be nil.
	Progress func(deleted int64)
}

// The bounds of a batch, and how long the statement that deletes one is to take: what it locks, it locks for
// so long, and whoever waits for it waits for so long.
const (
	minBatch    = 50
	firstBatch  = 500
	maxBatch    = 5000
	aimForBatch = 20 * time.Millisecond
)

// PurgeExpired is Purge without options.
func (s *SQL) PurgeExpired(ctx context.Context) (deleted int64, err error) {
	return s.Purge(ctx, PurgeOptions{})
}

// Purge deletes the keys whose retention is over, the oldest first, and returns how many. It works in batches
// whose size adapts to the speed of the database, with pauses between them. It never deletes a claim with a
// live lease, and never locks the table. Several processes may run it at once. When it fails or ctx ends, what
// was deleted until then stays deleted and is counted; ErrPurgeUnfinished says that MaxDuration ended it.
func (s *SQL) Purge(ctx context.Context, o PurgeOptions) (deleted int64, err error) {
	if o.Share == 0 {
		o.Share = DefaultPurgeShare
	}
	if !(o.Share >= MinPurgeShare && o.Share <= 1) || o.MaxDuration < 0 {
		return 0, opError("purge", "", "", fmt.Errorf("a share of %v and a duration of %v make no sense: "+
			"give a share from %v to 1 and no negative duration", o.Share, o.MaxDuration, MinPurgeShare))
	}
	started := time.Now()
	next := dialects.PurgeBatchParams{BatchSize: firstBatch}
	for {
		begun := time.Now()
		batch, err := s.purgeBatch(ctx, next)
		took := time.Since(begun)
		deleted += batch.Deleted
		if o.Progress != nil {
			o.Progress(deleted)
		}
		if err != nil || !batch.More {
			return deleted, opError("purge", "", "", err)
		}
		pause := time.Duration(float64(took) * (1/o.Share - 1))
		if o.MaxDuration > 0 && time.Since(started)+pause >= o.MaxDuration {
			return deleted, opError("purge", "", "", ErrPurgeUnfinished)
		}
		next = dialects.PurgeBatchParams{FromUs: batch.UntilUs, BatchSize: nextBatch(next.BatchSize, took)}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return deleted, opError("purge", "", "", context.Cause(ctx))
		case <-wait.C:
		}
	}
}

// nextBatch is the size with which the next statement takes about as long as is aimed for. It grows by half
// at most, because the first batches find the pages in memory that later ones do not.
func nextBatch(size int64, took time.Duration) int64 {
	fit := int64(float64(size) * float64(aimForBatch) / float64(max(took, time.Microsecond)))
	return min(max(fit, minBatch), size+size/2, maxBatch)
}

func (s *SQL) purgeBatch(ctx context.Context, p dialects.PurgeBatchParams) (batch dialects.PurgedBatch, err error) {
	if s.closed.Load() {
		return batch, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.set.timeout)
	defer cancel()
	err = retry(ctx, fewTries, func(ctx context.Context) error {
		batch, err = s.queries.PurgeBatch(ctx, p)
		return err
	})
	return batch, err
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
