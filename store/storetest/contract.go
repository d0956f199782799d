package storetest

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/firsttime-go/firsttime/store"
)

// testContract checks what every store promises: invariants I1, I5 and I8 as far as FirstTime, Confirm
// and Forget show them.
func (s *suite) testContract(t *testing.T) {
	run(t, "FirstTimeIsTrueOnce", func(t *testing.T) {
		key, a, b := newKey(), s.open(t), s.open(t)
		if !firstTime(t, a, key) {
			t.Error("a new key is not the first time")
		}
		if firstTime(t, a, key) || firstTime(t, b, key) {
			t.Error("a claimed key is the first time again")
		}
	})

	run(t, "OneOfManyConcurrentCallersIsFirst", func(t *testing.T) {
		const callers, keys = 16, 20
		stores := []store.Store{s.open(t), s.open(t), s.open(t), s.open(t)}
		for range keys {
			key := newKey()
			if n := countFirst(t, stores, key, callers); n != 1 {
				t.Fatalf("%d of %d concurrent callers were first, want 1", n, callers)
			}
		}
	})

	run(t, "DifferentBytesAreDifferentKeys", func(t *testing.T) {
		a, base := s.open(t), newKey()
		long := strings.Repeat("k", store.MaxKeyLen-len(base)-1)
		for _, key := range []string{
			base, strings.ToLower(base), base + " ", base + "  ", base + "\t", base + "\n", " " + base,
			base + "e", base + "é", base + "e\u0301", base + "E", base + "ß", base + "ss", base + "ẞ",
			base + "\u200b", base + "🙂", base + "🙃", base + "%", base + "_", base + `\`, base + "'", base + `"`,
			base + "0", base + "00", base + "1e1", base + "10",
			base + long + "x", base + long + "y", base + long + "X",
		} {
			if !firstTime(t, a, key) {
				t.Errorf("key %q is taken for another one", key)
			}
			if firstTime(t, a, key) {
				t.Errorf("key %q is not found again", key)
			}
		}
	})

	run(t, "InvalidKeysAreRefused", func(t *testing.T) {
		a := s.open(t)
		for name, key := range map[string]string{
			"empty": "", "too long": strings.Repeat("k", store.MaxKeyLen+1),
			"NUL": "a\x00b", "invalid UTF-8": "a\xffb",
		} {
			if _, err := a.FirstTime(t.Context(), key); !errors.Is(err, store.ErrInvalidKey) {
				t.Errorf("FirstTime with a key that is %s: %v, want ErrInvalidKey", name, err)
			}
			if c, ok := a.(store.Confirmer); ok {
				if err := c.Confirm(t.Context(), key); !errors.Is(err, store.ErrInvalidKey) {
					t.Errorf("Confirm with a key that is %s: %v, want ErrInvalidKey", name, err)
				}
			}
			if f, ok := a.(store.Forgetter); ok {
				if err := f.Forget(t.Context(), key); !errors.Is(err, store.ErrInvalidKey) {
					t.Errorf("Forget with a key that is %s: %v, want ErrInvalidKey", name, err)
				}
			}
		}
	})

	run(t, "AClaimWhoseContextHasEndedLeavesNothingBehind", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		if _, err := a.FirstTime(ended(t), key); err == nil {
			t.Error("FirstTime with an ended context succeeded")
		}
		if !firstTime(t, s.open(t), key) {
			t.Error("a claim that failed holds the key")
		}
	})

	run(t, "ConfirmMakesTheKeyADuplicate", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		confirmer := as[store.Confirmer](t, a)
		firstTime(t, a, key)
		noError(t, confirmer.Confirm(t.Context(), key))
		if firstTime(t, a, key) || firstTime(t, s.open(t), key) {
			t.Error("a confirmed key is the first time again")
		}
	})

	run(t, "ConfirmTwiceSucceedsTwice", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		confirmer := as[store.Confirmer](t, a)
		firstTime(t, a, key)
		noError(t, confirmer.Confirm(t.Context(), key))
		noError(t, confirmer.Confirm(t.Context(), key))
	})

	run(t, "ConfirmRecordsTheFactForAKeyThatIsNotThere", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		noError(t, as[store.Confirmer](t, a).Confirm(t.Context(), key))
		if firstTime(t, a, key) {
			t.Error("a key that was confirmed without a claim is the first time")
		}
	})

	run(t, "ConfirmRecordsTheFactWhoeverHoldsTheKey", func(t *testing.T) {
		key, holder, other := newKey(), s.open(t), s.open(t)
		confirmer := as[store.Confirmer](t, other)
		firstTime(t, holder, key)
		noError(t, confirmer.Confirm(t.Context(), key))
		if f, ok := holder.(store.Forgetter); ok {
			noError(t, f.Forget(t.Context(), key))
		}
		if firstTime(t, other, key) {
			t.Error("the fact is gone")
		}
	})

	run(t, "ForgetLetsARetryRun", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		forgetter := as[store.Forgetter](t, a)
		for range 3 {
			if !firstTime(t, a, key) {
				t.Fatal("a forgotten key is not the first time")
			}
			noError(t, forgetter.Forget(t.Context(), key))
		}
	})

	run(t, "ForgetLeavesAnotherHoldersClaimAlone", func(t *testing.T) {
		key, holder, other := newKey(), s.open(t), s.open(t)
		if holder == other {
			t.Skip("Open returns one and the same store: there is no other holder")
		}
		forgetter := as[store.Forgetter](t, other)
		firstTime(t, holder, key)
		noError(t, forgetter.Forget(t.Context(), key))
		if firstTime(t, other, key) {
			t.Error("one worker gave away another worker's claim")
		}
	})

	run(t, "ForgetLeavesAConfirmedKeyAlone", func(t *testing.T) {
		key, a := newKey(), s.open(t)
		confirmer, forgetter := as[store.Confirmer](t, a), as[store.Forgetter](t, a)
		firstTime(t, a, key)
		noError(t, confirmer.Confirm(t.Context(), key))
		noError(t, forgetter.Forget(t.Context(), key))
		if firstTime(t, a, key) {
			t.Error("a confirmed key was forgotten")
		}
	})

	run(t, "ForgetOfAKeyThatIsNotThereChangesNothing", func(t *testing.T) {
		a := s.open(t)
		noError(t, as[store.Forgetter](t, a).Forget(t.Context(), newKey()))
	})

	run(t, "ConfirmAndForgetWorkAfterTheirContextEnded", func(t *testing.T) {
		confirmed, forgotten, a := newKey(), newKey(), s.open(t)
		confirmer, forgetter := as[store.Confirmer](t, a), as[store.Forgetter](t, a)
		firstTime(t, a, confirmed)
		firstTime(t, a, forgotten)
		noError(t, confirmer.Confirm(ended(t), confirmed))
		noError(t, forgetter.Forget(ended(t), forgotten))
		if firstTime(t, a, confirmed) {
			t.Error("a shutdown undid a confirm")
		}
		if !firstTime(t, a, forgotten) {
			t.Error("a shutdown left a claim behind")
		}
	})

	run(t, "ScopesDoNotHideEachOthersKeys", func(t *testing.T) {
		key, scoper := newKey(), as[Scoper](t, s.open(t))
		for _, name := range []string{"payments", "Payments", "payments ", "mail"} {
			scope, err := scoper.Scope(name)
			noError(t, err)
			if !firstTime(t, scope, key) {
				t.Errorf("scope %q sees the key of another scope", name)
			}
			if firstTime(t, scope, key) {
				t.Errorf("scope %q does not find its own key", name)
			}
		}
	})

	run(t, "InvalidScopesAreRefused", func(t *testing.T) {
		scoper := as[Scoper](t, s.open(t))
		for _, name := range []string{"", strings.Repeat("s", store.MaxScopeLen+1), "a\x00", "a\xff"} {
			if _, err := scoper.Scope(name); !errors.Is(err, store.ErrInvalidScope) {
				t.Errorf("Scope(%q): %v, want ErrInvalidScope", name, err)
			}
		}
	})
}

// countFirst lets callers race for key, spread over the stores, and counts those who are told "first".
func countFirst(t *testing.T, stores []store.Store, key string, callers int) int64 {
	t.Helper()
	var (
		first atomic.Int64
		start = make(chan struct{})
		all   sync.WaitGroup
	)
	for i := range callers {
		all.Go(func() {
			<-start
			won, err := stores[i%len(stores)].FirstTime(t.Context(), key)
			if err != nil {
				t.Errorf("FirstTime: %v", err)
			}
			if won {
				first.Add(1)
			}
		})
	}
	close(start)
	all.Wait()
	return first.Load()
}
