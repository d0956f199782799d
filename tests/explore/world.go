package explore

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// The settings of every store. The jumps of the clock below lead past them.
const (
	lease     = 20 * time.Second
	retention = 100 * time.Second
	timeout   = 4 * time.Second
	workers   = 3
)

// step is a statement, or another act that others can see, that waits for its turn.
type step struct {
	*statement
	process *process
	session *session // nil if it is not sent to the database
	commit  bool
	answer  bool // to the broker
	limited bool // its context has a deadline
	hangs   bool // it was done, and its reply never comes
	reply   chan error
}

// message waits in the queue.
type message struct {
	key string
	due time.Duration // when it is delivered again
}

// late is a statement that was sent on a connection that is lost, and has not reached the database yet.
type late struct {
	*step
	job *delivery    // that it was a part of
	tx  *transaction // of a COMMIT; its locks are held until it ends
}

// world is one run: a database, a broker and workers, driven one step at a time inside a bubble of
// testing/synctest, which has a clock of its own that stands still while anything runs.
type world struct {
	scenario *scenario
	table    table
	queue    []message
	workers  [workers]*process
	janitor  *process
	late     []*late
	// limits is how often steps may wait for a lock or a reply until their time limit. Without a bound they
	// could do so for ever.
	limits int
	rules  rules
	story  []string
	tell   bool // whether to write the story

	// mu is held by the controller, which is whoever made the world, except while it waits.
	mu     sync.Mutex
	parked []*step
	came   chan struct{} // a step was parked
}

func newWorld(sc *scenario) *world {
	w := &world{scenario: sc, limits: 1, came: make(chan struct{}, 1)}
	w.table = table{start: time.Now(), mistake: sc.mistake, rows: map[string]*row{}}
	w.table.committed = func(c change) { w.rules.changed(w, c) }
	w.rules = newRules()
	for _, key := range sc.messages {
		w.queue = append(w.queue, message{key: key})
	}
	for i := range w.workers {
		w.workers[i] = w.start(i + 1)
	}
	w.janitor = w.start(0)
	w.mu.Lock()
	return w
}

// end lets everything that runs come to its end.
func (w *world) end() {
	w.mu.Unlock()
	for _, p := range w.workers {
		p.stop()
	}
	w.janitor.stop()
	time.Sleep(lease) // the clock stands still for ever when the run has returned, and pauses have to pass
}

// park makes s wait for its turn.
func (w *world) park(s *step) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case s.process.dead:
		return errCrashed
	case s.session != nil && s.session.broken:
		return errLost
	case s.session != nil && s.session.tx != nil && s.session.tx.aborted:
		return errUndone
	}
	if s.name == "claim" {
		s.process.job.token = s.token
	}
	w.parked = append(w.parked, s)
	select {
	case w.came <- struct{}{}:
	default:
	}
	return nil
}

// giveUp ends a step whose context is over. Its connection is closed, which the server notices.
func (w *world) giveUp(s *step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unpark(s)
	if s.session != nil {
		s.session.breaks()
	}
	if d := s.process.job; d != nil {
		d.note("gave up "+s.name, "")
		d.unclean = d.unclean || s.name == "forget" || s.name == "read"
	}
	w.say("%v gives up waiting for %s", s.process, s.phrase())
}

func (w *world) unpark(s *step) {
	w.parked = slices.DeleteFunc(w.parked, func(o *step) bool { return o == s })
}

// calm waits until every delivery waits for its turn, for a reply that never comes, or is settled. Pauses
// between tries pass meanwhile.
func (w *world) calm() {
	for {
		w.unlocked(synctest.Wait)
		select {
		case <-w.came:
		default:
		}
		if !w.anyPauses() {
			return
		}
		w.unlocked(func() {
			pause := time.NewTimer(timeout)
			defer pause.Stop()
			select {
			case <-w.came:
			case <-pause.C:
			}
		})
	}
}

// unlocked lets others run meanwhile.
func (w *world) unlocked(meanwhile func()) {
	w.mu.Unlock()
	defer w.mu.Lock()
	meanwhile()
}

func (w *world) anyPauses() bool {
	return slices.ContainsFunc(w.workers[:], func(p *process) bool {
		return p.job != nil && !slices.ContainsFunc(w.parked, func(s *step) bool { return s.process == p })
	})
}

// pass lets d pass. Leases end, contexts end, heartbeats beat.
func (w *world) pass(d time.Duration) {
	for _, p := range w.workers {
		if p.job != nil {
			p.job.note("+"+d.String(), "")
		}
	}
	w.unlocked(func() { time.Sleep(d) })
	w.calm()
}

// settle is what the broker does with the answer of a delivery.
func (w *world) settle(p *process, d *delivery) string {
	w.leave(p)
	p.job = nil
	if w.scenario.small {
		p.memory = append(p.memory, d.history...)
	}
	w.rules.answered(w, p, d)
	if !d.answer.Accepted() {
		w.queue = append(w.queue, message{d.key, w.table.now() + d.answer.Delay()})
	}
	return d.answer.String()
}

// leave is what becomes of a COMMIT that p has ceased to wait for: it arrives later.
func (w *world) leave(p *process) {
	for _, s := range slices.Clone(w.parked) {
		if s.process != p || !s.commit {
			continue
		}
		w.say("%v has left its COMMIT to its fate", p)
		w.unpark(s)
		w.late = append(w.late, &late{step: s, job: p.job, tx: s.tx()})
		s.session.tx = nil
		s.session.breaks()
		p.job.unclean = true
		s.reply <- errLost
	}
}

// putBack is what the broker does with a message whose consumer is gone.
func (w *world) putBack(p *process) {
	if p.job != nil {
		w.queue = append(w.queue, message{p.job.key, w.table.now()})
		p.job.cancel()
		p.job = nil
	}
}

func (d *delivery) note(text, token string) { d.history = append(d.history, event{text, token}) }

// say adds a line to the story.
func (w *world) say(format string, args ...any) {
	if w.tell {
		at := w.table.now().Round(time.Millisecond)
		w.story = append(w.story, fmt.Sprintf("t=%-8v %s", at, fmt.Sprintf(format, args...)))
	}
}

// phrase names the step in the story.
func (s *step) phrase() string {
	if s.key == "" || s.answer {
		return s.name
	}
	return s.name + " " + s.key
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
