package histories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	cryptorand "crypto/rand"

	"github.com/anishathalye/porcupine"

	"github.com/firsttime-go/firsttime/store"
)

// plan is what is decided about a history before it begins.
type plan struct {
	protocol
	clients, keys, operations int
	pause                     time.Duration // the longest one between two operations of a client
	loses                     bool          // requests and replies
}

const forever = time.Hour

func newPlan() plan {
	p := plan{
		protocol: protocol{lease: forever, retention: 2 * forever},
		clients:  3 + rand.N(mostClients-2), keys: 1 + rand.N(2), operations: 12 + rand.N(9),
		pause: 3 * time.Millisecond,
	}
	switch rand.N(6) {
	case 0: // nothing ends
		p.loses = rand.N(2) == 0
	case 1: // whoever gets no reply has time to ask again
		p.lease = 20*time.Millisecond + rand.N(30*time.Millisecond)
		p.pause, p.loses = p.lease, true
	case 2, 3: // leases end
		p.lease = 3*time.Millisecond + rand.N(15*time.Millisecond)
		p.pause = 2 * p.lease
	default: // retentions end, too
		p.lease = 3*time.Millisecond + rand.N(10*time.Millisecond)
		p.retention = p.lease + time.Millisecond + rand.N(2*p.lease)
		p.pause = 2 * p.lease
	}
	return p
}

// history is what several clients did to a few keys.
type history struct {
	plan    plan
	keys    []string
	began   time.Time
	numbers atomic.Int64

	mu         sync.Mutex
	operations []porcupine.Operation
}

// errVoid says that a history proves nothing, because of what happened to the machine meanwhile.
var errVoid = errors.New("the history is void")

// run lets clients of s work as planned.
func (p plan) run(ctx context.Context, s *site) (*history, error) {
	h := &history{plan: p, began: time.Now()}
	for range p.keys {
		h.keys = append(h.keys, cryptorand.Text())
	}
	if p.loses {
		ctx = losing(ctx)
	}
	var all sync.WaitGroup
	errs := make([]error, p.clients)
	for i := range p.clients {
		scoped, err := s.stores[i].Scope("histories", store.WithLease(p.lease), store.WithRetention(p.retention))
		if err != nil {
			return nil, err
		}
		c := &client{
			history: h, number: i, random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
			store: scoped, whole: s.stores[i], db: s.pools[i],
		}
		all.Go(func() { errs[i] = c.work(ctx, (p.operations+i)/p.clients) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return h, err
	}
	return h, h.valid()
}

// valid returns errVoid if the machine's clock was set meanwhile, by which databases measure leases, or if
// somebody who got no reply asked again so late that the lease was over: one operation may then have had two
// effects, of two tries, and both were right.
func (h *history) valid() error {
	end := time.Now()
	if drift := end.Round(0).Sub(h.began.Round(0)) - end.Sub(h.began); drift.Abs() > precision/2 {
		return fmt.Errorf("%w: the clock was set by %v", errVoid, drift)
	}
	for _, op := range h.operations {
		if took := time.Duration(op.Return - op.Call); h.plan.loses && took > h.plan.lease-precision {
			return fmt.Errorf("%w: an operation took %v", errVoid, took)
		}
	}
	return nil
}

func (h *history) now() time.Duration { return time.Since(h.began) }

func (h *history) newNumber() int { return int(h.numbers.Add(1)) }

func (h *history) add(o operation, a answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{
		ClientId: o.client, Input: o, Call: int64(a.sent), Output: a, Return: int64(a.gotten),
	})
}

// ofKey is the part of the history that concerns one key.
func (h *history) ofKey(key int) []porcupine.Operation {
	var part []porcupine.Operation
	for i, op := range h.operations {
		switch o := op.Input.(operation); {
		case o.action == purges:
			o.alone = h.alone(i)
			op.Input = o
			part = append(part, op)
		case o.key == key:
			part = append(part, op)
		}
	}
	return part
}

// alone reports whether no other operation overlaps the i-th one.
func (h *history) alone(i int) bool {
	for j, other := range h.operations {
		if j != i && other.Call <= h.operations[i].Return && h.operations[i].Call <= other.Return {
			return false
		}
	}
	return true
}

// illegal returns the first key whose part of the history cannot have happened one step after the other.
func (h *history) illegal() (key int, found bool) {
	model := h.plan.model()
	for key := range h.keys {
		if !porcupine.CheckOperations(model, h.ofKey(key)) {
			return key, true
		}
	}
	return 0, false
}

// illegalError is a history that no order of its operations explains.
type illegalError struct {
	history *history
	key     int
}

func (e *illegalError) Error() string { return fmt.Sprintf("the history of key %d is illegal", e.key) }

// draw draws the history into a file in dir, and returns where that is and the history in short.
func (e *illegalError) draw(dir string) (string, error) {
	h, path := e.history, filepath.Join(dir, "history.html")
	model, part := h.plan.model(), h.ofKey(e.key)
	_, info := porcupine.CheckOperationsVerbose(model, part, 0)
	if err := porcupine.VisualizePath(model, info, path); err != nil {
		return "", err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "no order of these operations on key %d explains their answers; drawn in %s\n", e.key, path)
	fmt.Fprintf(&text, "lease %v, retention %v; milliseconds of the call and of the answer\n", h.plan.lease, h.plan.retention)
	slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range part {
		fmt.Fprintf(&text, "%8.2f %8.2f  client %d: %v: %v\n", float64(op.Call)/1e6, float64(op.Return)/1e6, op.ClientId, op.Input, op.Output)
	}
	return text.String(), nil
}
