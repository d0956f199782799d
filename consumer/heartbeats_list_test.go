package consumer

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Beats that failed are repeated before others are due: handlers come and go anywhere in the list.
func TestHandlersStandInTheOrderOfTheirBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heartbeats{set: &settings{}}
		var listed []*working
		for range 5000 {
			if len(listed) > 20 || len(listed) > 0 && rand.N(2) == 0 {
				i := rand.N(len(listed))
				h.remove(listed[i])
				listed = slices.Delete(listed, i, i+1)
			} else {
				w := &working{Context: context.Background()}
				h.insert(w, time.Now().Add(time.Hour+rand.N(time.Minute)))
				listed = append(listed, w)
			}
			slices.SortFunc(listed, func(a, b *working) int { return a.due.Compare(b.due) })
			var forwards, backwards []*working
			for w := h.first; w != nil; w = w.next {
				forwards = append(forwards, w)
			}
			for w := h.last; w != nil; w = w.prev {
				backwards = append(backwards, w)
			}
			slices.Reverse(backwards)
			if !slices.Equal(forwards, listed) || !slices.Equal(backwards, listed) {
				t.Fatalf("%d handlers: %d forwards, %d backwards, or in another order", len(listed), len(forwards), len(backwards))
			}
			if h.first != nil && h.armed.After(h.first.due) {
				t.Fatal("the timer fires after the first beat is due")
			}
		}
		h.timer.Stop()
	})
}
