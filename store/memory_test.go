package store_test

import (
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/store/storetest"
)

func TestMemoryConformance(t *testing.T) {
	const lease, retention = time.Second, 3 * time.Second
	storetest.Run(t, shared(t),
		storetest.Expiring(lease, retention, shared(t, store.WithLease(lease), store.WithRetention(retention))))
}

// shared makes all workers of a suite use one store in memory, each by a scope of its own making.
func shared(t *testing.T, options ...store.Option) storetest.Open {
	t.Helper()
	m, err := store.NewMemory(options...)
	if err != nil {
		t.Fatal(err)
	}
	return func(*testing.T) store.Store { return m }
}
