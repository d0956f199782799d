package tests

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/store"
)

var (
	purgeRows  = flag.Int("purge.rows", 5_000_000, "rows in the table of BenchmarkPurge, four fifths of them expired")
	purgeTime  = flag.Duration("purge.time", 15*time.Second, "how long each phase of BenchmarkPurge may take")
	purgeShare = flag.Float64("purge.share", store.DefaultPurgeShare, "share of the purges of BenchmarkPurge")
)

// BenchmarkPurge measures 16 claimers that claim and confirm new keys without a break, first alone and then
// beside purges of a large table. See `make bench-purge`.
func BenchmarkPurge(b *testing.B) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "database\tpurges\tpurged/s\tclaimed/s alone\tbeside\tpurged per claimed\tp50 ms alone\tbeside\tp99 ms alone\tbeside\tratio\tlocked\t")
	for _, d := range benchmarked() {
		b.Run("db="+d.name, func(b *testing.B) {
			db, dsn := d.migrated(b)
			d.fill(b, db, *purgeRows/5*4, *purgeRows/5)
			for _, purges := range []int{1, 2, 4} {
				b.Run(fmt.Sprintf("purges=%d", purges), func(b *testing.B) {
					r := d.measurePurge(b, dsn, purges)
					r.report(b)
					r.print(table, d.name, purges)
				})
			}
		})
	}
	_ = table.Flush()
}

// purgeResult compares the claimers alone with the claimers beside a purge.
type purgeResult struct {
	alone, beside load
	purged        float64 // keys in a second
}

func (d database) measurePurge(b *testing.B, dsn string, purges int) (r purgeResult) {
	b.Helper()
	db := d.open(b, dsn)
	if d.name == "SQLite" {
		db.SetMaxOpenConns(1) // see pool
	}
	claimers := d.store(b, db)
	other := d.store(b, d.open(b, dsn)) // the purges run in processes of their own
	alone, cancel := context.WithTimeout(b.Context(), *purgeTime)
	defer cancel()
	r.alone = runClaimers(b, alone, claimers)

	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var (
		running sync.WaitGroup
		deleted atomic.Int64
		started = time.Now()
	)
	for range purges {
		running.Go(func() {
			n, err := other.Purge(ctx, store.PurgeOptions{Share: *purgeShare, MaxDuration: *purgeTime})
			if err != nil && !errors.Is(err, store.ErrPurgeUnfinished) {
				b.Error(err)
			}
			deleted.Add(n)
		})
	}
	go func() { running.Wait(); cancel() }()
	r.beside = runClaimers(b, ctx, claimers)
	running.Wait()
	if deleted.Load() == 0 {
		b.Fatal("nothing was left to purge: raise -purge.rows or shorten -purge.time")
	}
	r.purged = float64(deleted.Load()) / time.Since(started).Seconds()
	return r
}

// load is what claimers did: claims with their confirms.
type load struct {
	perSecond float64
	took      []time.Duration // each, sorted
	locked    int             // failures because of SQLite's lock
}

// runClaimers claims and confirms new keys until ctx ends.
func runClaimers(b *testing.B, ctx context.Context, s *store.SQL) (total load) { //nolint:revive // b is the test's
	b.Helper()
	var (
		mu      sync.Mutex
		workers sync.WaitGroup
		started = time.Now()
	)
	for range 16 {
		workers.Go(func() {
			var own load
			for ctx.Err() == nil {
				begun := time.Now()
				err := claimAndConfirm(b.Context(), s)
				own.took = append(own.took, time.Since(begun))
				switch {
				case errors.Is(err, dialects.ErrBusy):
					own.locked++
				case err != nil:
					b.Error(err)
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total.took = append(total.took, own.took...)
			total.locked += own.locked
		})
	}
	workers.Wait()
	total.perSecond = float64(len(total.took)-total.locked) / time.Since(started).Seconds()
	slices.Sort(total.took)
	return total
}

func claimAndConfirm(ctx context.Context, s *store.SQL) error {
	c, err := s.Claim(ctx, newKey())
	if err != nil {
		return err
	}
	return c.Confirm(ctx)
}

// newKey is a random key as long as a UUID.
func newKey() string {
	var random [18]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

// quantile is in milliseconds.
func (l load) quantile(q float64) float64 {
	return float64(l.took[int(q*float64(len(l.took)-1))].Microseconds()) / 1000
}

func (r purgeResult) report(b *testing.B) {
	b.ReportMetric(0, "ns/op") // says nothing here
	b.ReportMetric(r.purged, "purged/s")
	b.ReportMetric(r.alone.perSecond, "alone/s")
	b.ReportMetric(r.beside.perSecond, "beside/s")
	b.ReportMetric(r.purged/r.beside.perSecond, "purged/claimed")
	b.ReportMetric(r.alone.quantile(.99), "alone-p99-ms")
	b.ReportMetric(r.beside.quantile(.99), "beside-p99-ms")
	b.ReportMetric(r.beside.quantile(.99)/r.alone.quantile(.99), "p99-ratio")
	b.ReportMetric(float64(r.alone.locked+r.beside.locked), "locked")
}

func (r purgeResult) print(w *tabwriter.Writer, name string, purges int) {
	fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%d\t\n", name, purges, r.purged,
		r.alone.perSecond, r.beside.perSecond, r.purged/r.beside.perSecond, r.alone.quantile(.5), r.beside.quantile(.5),
		r.alone.quantile(.99), r.beside.quantile(.99), r.beside.quantile(.99)/r.alone.quantile(.99), r.alone.locked+r.beside.locked)
}
