package store_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

// The window slides while these run: as many keys end as come. So the number of live keys, which is
// reported, follows from the retention, and a call takes the same time however many there are.
func BenchmarkMemory(b *testing.B) {
	for _, retention := range []time.Duration{2 * time.Millisecond, 1500 * time.Millisecond} {
		b.Run("claim/retention="+retention.String(), func(b *testing.B) {
			slide(b, retention, func(*store.Claim) error { return nil })
		})
		b.Run("claim+confirm/retention="+retention.String(), func(b *testing.B) {
			slide(b, retention, func(c *store.Claim) error { return c.Confirm(b.Context()) })
		})
	}
	b.Run("duplicate", func(b *testing.B) {
		m, err := store.NewMemory()
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Confirm(b.Context(), "order"); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if first, err := m.FirstTime(b.Context(), "order"); first || err != nil {
				b.Fatal(first, err)
			}
		}
	})
}

func slide(b *testing.B, retention time.Duration, finish func(c *store.Claim) error) {
	b.Helper()
	m, err := store.NewMemory(store.WithLease(time.Millisecond), store.WithRetention(retention))
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	next := func() {
		i++
		c, err := m.Claim(b.Context(), "order-"+strconv.Itoa(i))
		if err == nil {
			err = finish(c)
		}
		if err != nil || c.Outcome() != store.First {
			b.Fatal(c, err)
		}
	}
	for start := time.Now(); time.Since(start) < 3*retention; {
		next()
	}
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
	b.ReportMetric(float64(m.Len()), "live")
}
