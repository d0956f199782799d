package histories

import (
	"context"
	"errors"
	"maps"
	"os"
	"sync"
	"testing"

	"github.com/firsttime-go/firsttime/dialects"
)

// enough histories expose a mistake for certain: most show in the first ten.
const enough = 3000

func TestEveryHistoryIsTheProtocolOneStepAfterTheOther(t *testing.T) {
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			d.dialect = behind{d.dialect, throughNetwork}
			c := d.collect(t, *wanted)
			record(d.name, c)
			t.Logf("%d histories, %d void, %d illegal; %v", c.histories, c.void, c.illegal, c.seen)
			if c.void > c.histories {
				t.Errorf("%d of %d histories are void", c.void, c.histories+c.void)
			}
			for _, want := range interesting() {
				if c.seen[want] == 0 && c.histories > 300 {
					t.Errorf("no %q was ever answered by %q: these histories prove little", want.action, want.result)
				}
			}
		})
	}
}

// event is an answer to an operation.
type event struct {
	action action
	result result
}

// interesting are the events of which a history is worth checking.
func interesting() []event {
	return []event{
		{claims, first}, {claims, takenOver}, {claims, inProgress}, {claims, duplicate},
		{extends, done}, {extends, confirmed}, {extends, lost},
		{confirms, done}, {confirms, lost},
		{commits, done}, {commits, lost}, {rollsBack, done}, {rollsBack, lost}, {worksInTx, done}, {worksInTx, lost},
		{forgets, done}, {confirmKey, done}, {purges, done},
		{reads, claimed}, {reads, confirmed}, {reads, notFound},
	}
}

// census counts what happened in many histories.
type census struct {
	mu                       sync.Mutex
	histories, void, illegal int
	seen                     map[event]int
}

func newCensus() *census { return &census{seen: make(map[event]int)} }

func (c *census) add(h *history, void, illegal bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if void {
		c.void++
		return
	}
	c.histories++
	if illegal {
		c.illegal++
	}
	for _, op := range h.operations {
		c.seen[event{op.Input.(operation).action, op.Output.(answer).result}]++
	}
}

func (c *census) count(a action, r result) int { return c.seen[event{a, r}] }

func (c *census) operations() (n int) {
	for count := range maps.Values(c.seen) {
		n += count
	}
	return n
}

func (c *census) lost() (n int) {
	for e, count := range c.seen {
		if e.result == lost {
			n += count
		}
	}
	return n
}

// collect runs n histories, several at once, and fails the test with the first illegal one.
func (d database) collect(t *testing.T, n int) *census {
	t.Helper()
	c := newCensus()
	var all sync.WaitGroup
	for range d.sites {
		s := d.site(t)
		all.Go(func() {
			for c.more(n) && !t.Failed() {
				err := c.one(t.Context(), s)
				var illegal *illegalError
				switch {
				case errors.As(err, &illegal):
					reportIllegal(t, illegal)
				case err != nil:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return c
}

// reportIllegal keeps the drawing of an illegal history, to be looked at after the test.
func reportIllegal(t *testing.T, illegal *illegalError) {
	t.Helper()
	dir, err := os.MkdirTemp("", "firsttime-history-")
	if err != nil {
		t.Error(err)
	}
	text, err := illegal.draw(dir)
	if err != nil {
		t.Error(err)
	}
	t.Error(text)
}

func (c *census) more(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.histories+c.void < n
}

// one runs a history and checks it. The error is an *illegalError if nothing explains it.
func (c *census) one(ctx context.Context, s *site) error {
	h, err := newPlan().run(ctx, s)
	void := errors.Is(err, errVoid) || errors.Is(err, dialects.ErrRetryable) || errors.Is(err, dialects.ErrOutcomeUnknown)
	if err != nil && !void {
		return err
	}
	key, found := 0, false
	if !void {
		key, found = h.illegal()
	}
	c.add(h, void, found)
	if found {
		return &illegalError{h, key}
	}
	return nil
}

// What proves a store right must prove a wrong one wrong.
func TestEveryMistakeIsFound(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			s, c := m.database().site(t), newCensus()
			for c.histories < enough {
				var illegal *illegalError
				err := c.one(t.Context(), s)
				if errors.As(err, &illegal) {
					text, err := illegal.draw(t.TempDir())
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("found after %d histories: %s", c.histories, text)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			t.Errorf("not found in %d histories", c.histories)
		})
	}
}

// A store that is made like the wrong ones, but right, tells that it is the mistakes that are found.
func TestAFlawlessMutantIsLegal(t *testing.T) {
	t.Parallel()
	flawless().database().collect(t, 100)
}
