package storetest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

// testExpiry checks what happens when leases and retentions end: I1, I4 and I5 over time.
func (s *suite) testExpiry(t *testing.T) {
	run(t, "AKeyThatWasNeverFinishedIsTheFirstTimeAgainAfterItsLease", func(t *testing.T) {
		key, a, b := newKey(), s.openExpiring(t), s.openExpiring(t)
		start := time.Now()
		if !firstTime(t, a, key) {
			t.Fatal("a new key is not the first time")
		}
		eventually(t, "the lease is over", func() bool { return firstTime(t, b, key) })
		if held := time.Since(start); held < s.lease-s.lease/10 {
			t.Errorf("the claim was honoured for %v, want the lease of %v", held, s.lease)
		}
	})

	run(t, "AConfirmedKeyIsNeverTakenOver", func(t *testing.T) {
		key, a := newKey(), s.openExpiring(t)
		confirmer := as[store.Confirmer](t, a)
		start := time.Now()
		firstTime(t, a, key)
		noError(t, confirmer.Confirm(t.Context(), key))
		for time.Since(start) < s.retention-s.lease/2 {
			if firstTime(t, a, key) && time.Since(start) < s.retention {
				t.Fatalf("a confirmed key was claimed again after %v; lease %v, retention %v", time.Since(start), s.lease, s.retention)
			}
			time.Sleep(s.lease / 8)
		}
	})

	run(t, "ALateForgetLeavesTheNextHolderAlone", func(t *testing.T) {
		key, a, b := newKey(), s.openExpiring(t), s.openExpiring(t)
		if a == b {
			t.Skip("Open returns one and the same store: there is no next holder")
		}
		forgetter := as[store.Forgetter](t, a)
		firstTime(t, a, key)
		eventually(t, "the lease is over", func() bool { return firstTime(t, b, key) })
		taken := time.Now()
		noError(t, forgetter.Forget(t.Context(), key))
		if firstTime(t, a, key) && time.Since(taken) < s.lease/2 {
			t.Error("a former holder gave away its successor's claim")
		}
	})

	run(t, "AKeyMayBeForgottenAfterItsRetention", func(t *testing.T) {
		key, a := newKey(), s.openExpiring(t)
		confirmer := as[store.Confirmer](t, a)
		start := time.Now()
		firstTime(t, a, key)
		noError(t, confirmer.Confirm(t.Context(), key))
		eventually(t, "the key is purged", func() bool {
			if p, ok := a.(Purger); ok {
				_, err := p.PurgeExpired(t.Context())
				noError(t, err)
			}
			return firstTime(t, a, key)
		})
		if kept := time.Since(start); kept < s.retention-s.lease/10 {
			t.Errorf("the key was remembered for %v, want at least the retention of %v", kept, s.retention)
		}
	})

	if _, ok := s.openExpiring(t).(store.Claimer); ok {
		s.testClaimExpiry(t)
	}
}

func (s *suite) testClaimExpiry(t *testing.T) {
	run(t, "AnOvertakenClaimIsLost", func(t *testing.T) {
		key, a, b := newKey(), s.openExpiring(t), s.openExpiring(t)
		first := claim(t, a, key)
		second := takeOver(t, b, first)
		if second.Attempt() != 2 {
			t.Errorf("attempt %d after one takeover, want 2", second.Attempt())
		}
		if err := first.Confirm(t.Context()); !errors.Is(err, store.ErrClaimLost) {
			t.Errorf("Confirm: %v, want ErrClaimLost", err)
		}
		if err := first.Extend(t.Context()); !errors.Is(err, store.ErrClaimLost) {
			t.Errorf("Extend: %v, want ErrClaimLost", err)
		}
		noError(t, first.Forget(t.Context()))
		noError(t, second.Confirm(t.Context()))
		if err := first.Confirm(t.Context()); !errors.Is(err, store.ErrClaimLost) {
			t.Errorf("Confirm after the other's: %v, want ErrClaimLost", err)
		}
		wantOutcome(t, claim(t, a, key), store.Duplicate)
	})

	// A clock that rounds to seconds jumps ahead in the middle of each.
	run(t, "ALeaseIsHonouredWhateverPartOfASecondItBeginsIn", func(t *testing.T) {
		const leases = 10
		a, b := s.openExpiring(t), s.openExpiring(t)
		part := time.NewTicker(time.Second / leases)
		defer part.Stop()
		var held []*store.Claim
		for range leases {
			held = append(held, claim(t, a, newKey()))
			<-part.C
			held = slices.DeleteFunc(held, func(c *store.Claim) bool { return takenOver(t, b, c) != nil })
		}
		eventually(t, "every lease is over", func() bool {
			<-part.C
			held = slices.DeleteFunc(held, func(c *store.Claim) bool { return takenOver(t, b, c) != nil })
			return len(held) == 0
		})
	})

	run(t, "OneOfManyTakeoversWins", func(t *testing.T) {
		const racers = 16
		stores := []store.Store{s.openExpiring(t), s.openExpiring(t), s.openExpiring(t), s.openExpiring(t)}
		s.inTime(t, func(key string) bool {
			asked := time.Now()
			stale := claim(t, stores[0], key)
			if time.Since(asked) > s.lease/10 { // the database's lease may have begun that much after the holder's own
				return false
			}
			eventually(t, "the lease is over", func() bool { return time.Now().After(stale.LeaseEnd().Add(s.lease / 10)) })
			started := time.Now()
			outcomes := race(t, stores, key, racers)
			if time.Since(started) > s.lease {
				return false
			}
			if outcomes[store.TakenOver] != 1 || outcomes[store.InProgress] != racers-1 {
				t.Errorf("outcomes %v, want one takeover and %d in progress", outcomes, racers-1)
			}
			return true
		})
	})

	run(t, "ALateConfirmCountsIfNobodyTookOver", func(t *testing.T) {
		key, a := newKey(), s.openExpiring(t)
		c := claim(t, a, key)
		eventually(t, "the lease is over", func() bool { return time.Now().After(c.LeaseEnd().Add(s.lease / 10)) })
		noError(t, c.Confirm(t.Context()))
	})

	run(t, "AnExtendedClaimOutlivesItsLease", func(t *testing.T) {
		a, b := s.openExpiring(t), s.openExpiring(t)
		s.inTime(t, func(key string) bool {
			c := claim(t, a, key)
			return s.keepAlive(t, c, 2*s.lease, func() {
				if other := claim(t, b, key); other.Outcome().Held() && time.Now().Before(c.LeaseEnd()) {
					t.Fatal("a claim was taken over although it was extended")
				}
			})
		})
	})

	run(t, "APurgeLeavesALiveClaimAlone", func(t *testing.T) {
		a := s.openExpiring(t)
		purger := as[Purger](t, a)
		s.inTime(t, func(key string) bool {
			return s.keepAlive(t, claim(t, a, key), s.retention+s.lease, func() {
				_, err := purger.PurgeExpired(t.Context())
				noError(t, err)
			})
		})
	})
}

// inTime runs a test that is void if the machine was too slow for the lease, until it counts once.
func (s *suite) inTime(t *testing.T, test func(key string) (counts bool)) {
	t.Helper()
	for range 10 {
		if test(newKey()) {
			return
		}
	}
	t.Fatalf("this machine is too slow for a lease of %v", s.lease)
}

// keepAlive extends c for a time, does something after every extension, and confirms it in the end. It
// reports false if an extension came too late.
func (s *suite) keepAlive(t *testing.T, c *store.Claim, d time.Duration, do func()) bool {
	t.Helper()
	for start := time.Now(); time.Since(start) < d; time.Sleep(s.lease / 8) {
		end := c.LeaseEnd()
		err := c.Extend(t.Context())
		if time.Now().After(end) {
			return false
		}
		noError(t, err)
		do()
	}
	end := c.LeaseEnd()
	err := c.Confirm(t.Context())
	if time.Now().After(end) {
		return false
	}
	noError(t, err)
	return true
}

// race lets racers claim key at once, spread over the stores, and counts their outcomes.
func race(t *testing.T, stores []store.Store, key string, racers int) map[store.Outcome]int {
	t.Helper()
	var (
		mu       sync.Mutex
		outcomes = map[store.Outcome]int{}
		start    = make(chan struct{})
		all      sync.WaitGroup
	)
	for i := range racers {
		all.Go(func() {
			<-start
			c, err := stores[i%len(stores)].(store.Claimer).Claim(t.Context(), key)
			if err != nil {
				t.Errorf("Claim: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			outcomes[c.Outcome()]++
		})
	}
	close(start)
	all.Wait()
	return outcomes
}

// takeOver waits until the lease of held is over and takes its key over.
func takeOver(t *testing.T, by store.Store, held *store.Claim) (c *store.Claim) {
	t.Helper()
	eventually(t, "the lease is over", func() bool {
		c = takenOver(t, by, held)
		return c != nil
	})
	return c
}

// takenOver takes the key of held over, which nobody can do before its lease is over. It returns nil if it is not.
func takenOver(t *testing.T, by store.Store, held *store.Claim) *store.Claim {
	t.Helper()
	c := claim(t, by, held.Key())
	if c.Outcome() == store.InProgress {
		return nil
	}
	wantOutcome(t, c, store.TakenOver)
	if early := time.Until(held.LeaseEnd()); early > 0 {
		t.Errorf("a lease of %v was over %v too early", held.Lease(), early)
	}
	return c
}
