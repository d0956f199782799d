package prometheus

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firsttime-go/firsttime/store"
)

// Keys shows how many keys a store has. To count them it reads the whole table, so it does that at most once
// per interval, however often it is scraped, and shows what it knows in between. If the database fails, the
// scrape has an error for it. It is safe for concurrent use.
type Keys struct {
	stats    func(ctx context.Context) ([]store.ScopeStats, error)
	size     func(ctx context.Context) (table, index int64, err error)
	interval time.Duration

	mu    sync.Mutex
	read  time.Time
	known []prometheus.Metric
}

const countTime = 30 * time.Second

// NewKeys returns a collector of s, to be registered. Intervals of less than a second are a second.
func NewKeys(s *store.SQL, interval time.Duration) *Keys {
	return &Keys{
		stats: s.Stats, interval: max(interval, time.Second),
		size: func(ctx context.Context) (int64, int64, error) {
			size, err := s.Size(ctx)
			return size.Table, size.Index, err
		},
	}
}

var (
	keysDesc = prometheus.NewDesc("firsttime_keys",
		"Keys in the table, by state: claimed (a handler works), stale (its process died), confirmed.", []string{"scope", "state"}, nil)
	pastDesc = prometheus.NewDesc("firsttime_keys_past_retention",
		"Keys that the next purge deletes.", []string{"scope"}, nil)
	oldestDesc = prometheus.NewDesc("firsttime_oldest_claim_age_seconds",
		"Age of the oldest key that is not confirmed, 0 if there is none.", []string{"scope"}, nil)
	sizeDesc = prometheus.NewDesc("firsttime_table_size_bytes",
		"Size of the table of keys, by part: table, index.", []string{"part"}, nil)
)

// Describe says which metrics there are.
func (k *Keys) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{keysDesc, pastDesc, oldestDesc, sizeDesc} {
		out <- desc
	}
}

// Collect counts the keys, or shows the last count.
func (k *Keys) Collect(out chan<- prometheus.Metric) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || time.Since(k.read) >= k.interval {
		known, err := k.count()
		if err != nil {
			out <- prometheus.NewInvalidMetric(keysDesc, err)
			return
		}
		k.known, k.read = known, time.Now()
	}
	for _, m := range k.known {
		out <- m
	}
}

func (k *Keys) count() ([]prometheus.Metric, error) {
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	scopes, err := k.stats(ctx)
	if err != nil {
		return nil, err
	}
	table, index, err := k.size(ctx)
	if err != nil {
		return nil, err
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
		return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	metrics := []prometheus.Metric{gauge(sizeDesc, float64(table), "table"), gauge(sizeDesc, float64(index), "index")}
	for _, n := range scopes {
		scope := strings.ToValidUTF8(n.Scope, "\uFFFD") // of a row that another program wrote
		metrics = append(metrics,
			gauge(keysDesc, float64(n.Claimed), scope, "claimed"),
			gauge(keysDesc, float64(n.Stale), scope, "stale"),
			gauge(keysDesc, float64(n.Confirmed), scope, "confirmed"),
			gauge(pastDesc, float64(n.Purgeable), scope),
			gauge(oldestDesc, n.OldestClaim.Seconds(), scope))
	}
	return metrics, nil
}
