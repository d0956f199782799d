package storetest

import (
	"errors"
	"testing"

	"github.com/firsttime-go/firsttime/store"
)

// testClaims checks the three-valued, fenced contract: I1, I2, I5 and I8 as a Claim shows them.
func (s *suite) testClaims(t *testing.T) {
	run(t, "AClaimIsFirstThenInProgressThenDuplicate", func(t *testing.T) {
		key, a, b := newKey(), s.open(t), s.open(t)
		first := claim(t, a, key)
		wantOutcome(t, first, store.First)
		if first.Attempt() != 1 || first.RetryAfter() != 0 || first.Holder() == "" {
			t.Errorf("first claim: attempt %d, retry after %v, holder %q; want 1, 0 and a name",
				first.Attempt(), first.RetryAfter(), first.Holder())
		}

		second := claim(t, b, key)
		wantOutcome(t, second, store.InProgress)
		if left := second.RetryAfter(); left <= 0 || left > first.Lease() {
			t.Errorf("retry after %v, want more than 0 and at most the lease of %v", left, first.Lease())
		}
		if second.Holder() != first.Holder() || second.Attempt() != 1 {
			t.Errorf("in progress at %q, attempt %d; want %q, 1", second.Holder(), second.Attempt(), first.Holder())
		}

		noError(t, first.Confirm(t.Context()))
		if !first.Confirmed() {
			t.Error("the claim does not know that it is confirmed")
		}
		third := claim(t, b, key)
		wantOutcome(t, third, store.Duplicate)
		if third.RetryAfter() != 0 || third.Holder() != first.Holder() {
			t.Errorf("duplicate: retry after %v, confirmed by %q; want 0, %q", third.RetryAfter(), third.Holder(), first.Holder())
		}
	})

	run(t, "ConfirmOfAClaimTwiceSucceedsTwice", func(t *testing.T) {
		c := claim(t, s.open(t), newKey())
		noError(t, c.Confirm(t.Context()))
		noError(t, c.Confirm(t.Context()))
	})

	run(t, "AClaimThatHoldsNothingCanDoNothing", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		holder := claim(t, a, key)
		loser := claim(t, a, key)
		wantOutcome(t, loser, store.InProgress)
		if err := loser.Confirm(t.Context()); !errors.Is(err, store.ErrClaimLost) {
			t.Errorf("Confirm: %v, want ErrClaimLost", err)
		}
		if err := loser.Extend(t.Context()); !errors.Is(err, store.ErrClaimLost) {
			t.Errorf("Extend: %v, want ErrClaimLost", err)
		}
		noError(t, loser.Forget(t.Context()))
		noError(t, holder.Confirm(t.Context()))
	})

	run(t, "AForgottenClaimIsLost", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		c := claim(t, a, key)
		noError(t, c.Forget(t.Context()))
		noError(t, c.Forget(t.Context()))
		if err := c.Confirm(t.Context()); !errors.Is(err, store.ErrClaimLost) {
			t.Errorf("Confirm after Forget: %v, want ErrClaimLost", err)
		}
		again := claim(t, a, key)
		wantOutcome(t, again, store.First)
		if err := c.Confirm(t.Context()); !errors.Is(err, store.ErrClaimLost) {
			t.Errorf("the token of a former claim confirms a new one: %v, want ErrClaimLost", err)
		}
		noError(t, c.Forget(t.Context()))
		wantOutcome(t, claim(t, a, key), store.InProgress)
	})

	run(t, "AConfirmedClaimCannotBeForgottenOrExtended", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		c := claim(t, a, key)
		noError(t, c.Confirm(t.Context()))
		noError(t, c.Forget(t.Context()))
		end := c.LeaseEnd()
		noError(t, c.Extend(t.Context()))
		if !c.LeaseEnd().Equal(end) {
			t.Error("Extend after Confirm moved the end of the lease")
		}
		wantOutcome(t, claim(t, a, key), store.Duplicate)
	})

	run(t, "ConfirmByKeyTakesTheClaimFromItsHolder", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		confirmer := as[store.Confirmer](t, a)
		holder := claim(t, a, key)
		noError(t, confirmer.Confirm(t.Context(), key))
		if err := holder.Confirm(t.Context()); !errors.Is(err, store.ErrClaimLost) {
			t.Errorf("Confirm of the former holder: %v, want ErrClaimLost", err)
		}
	})

	run(t, "ForgetByKeyLeavesAClaimAlone", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		forgetter := as[store.Forgetter](t, a)
		c := claim(t, a, key)
		noError(t, forgetter.Forget(t.Context(), key))
		noError(t, c.Confirm(t.Context()))
	})

	run(t, "AClaimEndsWellAfterItsContextEnded", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		noError(t, claim(t, a, key).Forget(ended(t)))
		c := claim(t, a, key)
		wantOutcome(t, c, store.First)
		noError(t, c.Confirm(ended(t)))
		wantOutcome(t, claim(t, a, key), store.Duplicate)
	})

	run(t, "ExtendKeepsTheClaim", func(t *testing.T) {
		c := claim(t, s.open(t), newKey())
		before := c.LeaseEnd()
		for range 5 {
			noError(t, c.Extend(t.Context()))
		}
		if !c.LeaseEnd().After(before) {
			t.Error("Extend did not move the end of the lease")
		}
		noError(t, c.Confirm(t.Context()))
	})
}
