package tests

import (
	"fmt"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

// A clock that counts milliseconds, as SQLite's does, is behind by a part of one.
func TestALeaseIsNotOverAFractionOfAMillisecondEarly(t *testing.T) {
	const leases, lease = 100, 5 * time.Millisecond
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			s := d.store(t, db, store.WithLease(lease))
			for i := range leases {
				key := fmt.Sprintf("order-%d", i)
				held, err := s.Claim(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				for next := held; next == held || next.Outcome() == store.InProgress; { // without a pause, to be there in time
					if next, err = s.Claim(t.Context(), key); err != nil {
						t.Fatal(err)
					}
				}
				if early := time.Until(held.LeaseEnd()); early > 0 {
					t.Fatalf("a lease of %v was over %v too early", lease, early)
				}
			}
		})
	}
}
