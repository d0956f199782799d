package faults

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/tests/servers"
)

// Connections that end or fall silent at any moment, and at the worst one: around COMMIT.
func TestNothingIsLostOrDoubledWhenConnectionsFail(t *testing.T) {
	oneOf := func(n int, f fate) fate {
		if rand.IntN(n) == 0 {
			return f
		}
		return arrives
	}
	atCommit := func(f fate) func([]byte) fate {
		return func(sent []byte) fate {
			if !isCommit(sent) {
				return arrives
			}
			return oneOf(4, f)
		}
	}
	for _, c := range []struct {
		fault string
		fate  func(sent []byte) fate
		worst bool // not to be left out of a short run
	}{
		{"connections cut at random", func([]byte) fate { return oneOf(50, []fate{cutBefore, cutAfter}[rand.IntN(2)]) }, false},
		{"connections cut before COMMIT", atCommit(cutBefore), true},
		{"connections cut after COMMIT", atCommit(cutAfter), true},
		{"connections silent at random (half-open)", func([]byte) fate { return oneOf(150, goesSilent) }, false},
		{"connections silent at COMMIT (half-open)", atCommit(goesSilent), true},
	} {
		if !c.worst && !*long {
			continue
		}
		t.Run(c.fault, func(t *testing.T) {
			for _, d := range withServers() {
				t.Run(d.name, func(t *testing.T) {
					t.Parallel()
					prove(t, c.fault, d.name, func(t *testing.T) outcome {
						s := newSite(t, d, servers.Shared(t, d.server))
						p := interpose(t, s, 3*time.Millisecond, c.fate)
						l := startLoad(t, s)
						p.armed.Store(true)
						o := l.finish()
						met := int(p.met.Load())
						if met < messages()/50 {
							t.Errorf("only %d connections failed: this showed less than it claims", met)
						}
						o.figures = map[string]int{"connections": met}
						return o
					})
				})
			}
		})
	}
}
