package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

// purger purges on schedule and counts what it does.
type purger struct {
	store  *store.SQL
	every  time.Duration
	share  float64
	logger *slog.Logger

	mu     sync.Mutex
	counts purgeCounts
}

type purgeCounts struct {
	runs, failures, deleted int64
	last                    time.Duration // what the last run took
	succeeded               time.Time     // zero: none has yet
}

// run purges at once and then about every interval until ctx ends. The pauses vary by a tenth, so that processes
// started together come apart.
func (p *purger) run(ctx context.Context) {
	for {
		p.purge(ctx)
		pause := time.NewTimer(p.every - p.every/10 + rand.N(p.every/5))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

func (p *purger) purge(ctx context.Context) {
	started, counted := time.Now(), int64(0)
	progress := func(deleted int64) {
		p.update(func(n *purgeCounts) { n.deleted += deleted - counted })
		counted = deleted
	}
	deleted, err := p.store.Purge(ctx, store.PurgeOptions{Share: p.share, Progress: progress})
	progress(deleted)
	took := time.Since(started)
	report := p.logger.With(slog.Int64("deleted", deleted), slog.Duration("took", took.Round(time.Millisecond)))
	if err != nil && ctx.Err() != nil {
		report.Info("purge stopped before its end")
		return
	}
	p.update(func(n *purgeCounts) {
		n.runs++
		n.last = took
		if err != nil {
			n.failures++
		} else {
			n.succeeded = time.Now()
		}
	})
	if err != nil {
		report.Error("purge failed, the next one is tried in its turn", slog.String("error", oneLine(err)))
		return
	}
	report.Info("purged")
}

func (p *purger) update(change func(n *purgeCounts)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.counts)
}

// write writes the counters.
func (p *purger) write(e *exposition) {
	p.mu.Lock()
	n := p.counts
	p.mu.Unlock()
	e.family("firsttime_purges_total", counter, "Purges that ended, successful or not.")
	e.sample(float64(n.runs))
	e.family("firsttime_purge_failures_total", counter, "Purges that failed.")
	e.sample(float64(n.failures))
	e.family("firsttime_purged_keys_total", counter, "Keys that were purged.")
	e.sample(float64(n.deleted))
	e.family("firsttime_purge_last_duration_seconds", gauge, "How long the last purge took.")
	e.sample(n.last.Seconds())
	if !n.succeeded.IsZero() {
		e.family("firsttime_purge_last_success_timestamp_seconds", gauge, "When the last successful purge ended.")
		e.sample(float64(n.succeeded.UnixMilli()) / 1000)
	}
}
