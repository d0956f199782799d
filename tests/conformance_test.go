package tests

import (
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/store/storetest"
)

func TestConformance(t *testing.T) {
	for _, d := range variants() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			const lease, retention = time.Second, 5 * time.Second
			db, _ := d.migrated(t)
			open := func(options ...store.Option) storetest.Open {
				return func(t *testing.T) store.Store { return d.store(t, db, options...) }
			}
			storetest.Run(t, open(),
				storetest.Expiring(lease, retention, open(store.WithLease(lease), store.WithRetention(retention))),
				storetest.Transactions(db))
		})
	}
}
