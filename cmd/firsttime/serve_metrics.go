package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/store"
)

// metrics answers a scrape.
func metrics(keys *keyGauges, purges *purger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var e exposition
		keys.write(r.Context(), &e)
		purges.write(&e)
		w.Header().Set("Content-Type", expositionType)
		_, _ = w.Write(e.text.Bytes()) // who asked may be gone
	}
}

// countTime is what counting the keys may take. It reads the whole table.
const countTime = 30 * time.Second

// keyGauges shows how many keys there are, in the words of observe/prometheus. It reads the table at most once per
// interval, however often it is asked and whether or not the database answers, and shows what it knows in between.
type keyGauges struct {
	store              *store.SQL
	interval, patience time.Duration
	logger             *slog.Logger

	mu    sync.Mutex
	asked time.Time // zero: not yet
	known *keyCounts
}

type keyCounts struct {
	scopes []store.ScopeStats
	size   dialects.Size
}

// write writes the gauges. It leaves those out that it does not know because the database failed.
func (k *keyGauges) write(ctx context.Context, e *exposition) {
	n := k.current(ctx)
	e.family("firsttime_up", gauge, "Whether the keys could be counted: 1, or 0.")
	if n == nil {
		e.sample(0)
		return
	}
	e.sample(1)
	e.family("firsttime_keys", gauge, "Keys in the table, by state: claimed (a handler works), stale (its process died), confirmed.")
	for _, s := range n.scopes {
		e.sample(float64(s.Claimed), "scope", s.Scope, "state", "claimed")
		e.sample(float64(s.Stale), "scope", s.Scope, "state", "stale")
		e.sample(float64(s.Confirmed), "scope", s.Scope, "state", "confirmed")
	}
	e.family("firsttime_keys_past_retention", gauge, "Keys that the next purge deletes.")
	for _, s := range n.scopes {
		e.sample(float64(s.Purgeable), "scope", s.Scope)
	}
	e.family("firsttime_oldest_claim_age_seconds", gauge, "Age of the oldest key that is not confirmed, 0 if there is none.")
	for _, s := range n.scopes {
		e.sample(s.OldestClaim.Seconds(), "scope", s.Scope)
	}
	e.family("firsttime_table_size_bytes", gauge, "Size of the table of keys, by part: table, index.")
	e.sample(float64(n.size.Table), "part", "table")
	e.sample(float64(n.size.Index), "part", "index")
}

// current counts the keys, or returns the last count. It returns nil if that failed.
func (k *keyGauges) current(ctx context.Context) *keyCounts {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.asked.IsZero() && time.Since(k.asked) < k.interval {
		return k.known
	}
	// A scrape that gives up does not make the reading vain: the next one finds it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.patience)
	defer cancel()
	known, err := k.count(ctx)
	k.known, k.asked = known, time.Now()
	if err != nil {
		k.logger.Error("the keys could not be counted", slog.String("error", oneLine(err)))
	}
	return k.known
}

func (k *keyGauges) count(ctx context.Context) (*keyCounts, error) {
	scopes, err := k.store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	size, err := k.store.Size(ctx)
	if err != nil {
		return nil, fmt.Errorf("size: %w", err)
	}
	return &keyCounts{scopes, size}, nil
}
