package explore

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// maxSteps bounds a schedule: one that is longer does not come to an end.
const maxSteps = 300

// path is a schedule, as the list of its choices from the last to the first.
type path struct {
	before *path
	choice choice
	faults int // in all of it
	length int
}

func (p *path) then(c choice) *path {
	next := &path{before: p, choice: c, length: p.len() + 1}
	if p != nil {
		next.faults = p.faults
	}
	if c.act.fault() {
		next.faults++
	}
	return next
}

func (p *path) len() int {
	if p == nil {
		return 0
	}
	return p.length
}

func (p *path) spent() int {
	if p == nil {
		return 0
	}
	return p.faults
}

func (p *path) choices() []choice {
	all := make([]choice, p.len())
	for ; p != nil; p = p.before {
		all[p.length-1] = p.choice
	}
	return all
}

// explorer visits all states that a scenario can reach with a number of faults. Goroutines cannot be copied, so
// it runs every schedule from the start: first a prefix that it has run before, with another last choice, and
// then the first choice of every state, until there is none or the state has been visited.
type explorer struct {
	scenario  scenario
	faults    int
	visited   map[uint64]int8 // faults that were left when the state was visited, plus 1
	todo      []*path
	schedules int
	ends      int
	longest   int
}

// counterexample is a schedule that breaks a rule.
type counterexample struct {
	violation *violation
	schedule  []choice
	story     []string
}

func (c *counterexample) String() string {
	return fmt.Sprintf("%v\n    %s", c.violation, strings.Join(c.story, "\n    "))
}

// explore runs all schedules and returns the first counterexample, nil if there is none.
func (e *explorer) explore(t *testing.T) *counterexample {
	e.visited = map[uint64]int8{}
	e.todo = []*path{nil}
	for len(e.todo) > 0 {
		next := e.todo[len(e.todo)-1]
		e.todo = e.todo[:len(e.todo)-1]
		if broken := e.run(t, next); broken != nil {
			return minimal(t, e.scenario, broken)
		}
	}
	return nil
}

// run runs a schedule from the start and then on.
func (e *explorer) run(t *testing.T, prefix *path) (broken *counterexample) {
	e.schedules++
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(&e.scenario)
		defer w.end()
		for _, c := range prefix.choices() {
			if !w.perform(c) {
				t.Errorf("a schedule could not be repeated, at %v of %v", c, prefix.choices())
				return
			}
		}
		at := prefix
		for w.rules.broken == nil {
			left := e.faults - at.spent()
			state := w.state()
			if int(e.visited[state]) > left {
				return
			}
			e.visited[state] = int8(left + 1)
			choices := w.choices(left)
			if len(choices) == 0 {
				e.ends++
				e.longest = max(e.longest, at.len())
				w.rules.ended(w)
				break
			}
			if at.len() > maxSteps {
				w.rules.fail(comesToAnEnd, "there is no end after %d steps", maxSteps)
				break
			}
			for _, c := range slices.Backward(choices[1:]) {
				e.todo = append(e.todo, at.then(c))
			}
			at = at.then(choices[0])
			w.perform(choices[0])
		}
		if w.rules.broken != nil {
			broken = &counterexample{violation: w.rules.broken, schedule: at.choices()}
		}
	})
	return broken
}

// minimal leaves out of a counterexample what it does not need, and tells its story.
func minimal(t *testing.T, sc scenario, found *counterexample) *counterexample {
	best := retell(t, sc, found.schedule, found.violation.rule)
	if best == nil {
		t.Errorf("a counterexample could not be repeated: %v", found)
		return found
	}
	for size := max(len(best.schedule)/2, 1); size > 0; size /= 2 {
		for at := 0; at+size <= len(best.schedule); {
			shorter := slices.Delete(slices.Clone(best.schedule), at, at+size)
			if c := retell(t, sc, shorter, found.violation.rule); c != nil && len(c.schedule) < len(best.schedule) {
				best = c
			} else {
				at++
			}
		}
	}
	return best
}

// retell runs as much of a schedule as can be, and then on without faults, until it breaks the rule. It
// returns nil if it does not.
func retell(t *testing.T, sc scenario, schedule []choice, rule string) (c *counterexample) {
	synctest.Test(t, func(*testing.T) {
		w := newWorld(&sc)
		defer w.end()
		w.tell = true
		var done []choice
		for _, c := range schedule {
			if w.rules.broken == nil && w.perform(c) {
				done = append(done, c)
			}
		}
		for w.rules.broken == nil {
			choices := w.choices(0)
			if len(choices) == 0 {
				w.rules.ended(w)
				break
			}
			if len(done) > maxSteps {
				w.rules.fail(comesToAnEnd, "there is no end after %d steps", maxSteps)
				break
			}
			w.perform(choices[0])
			done = append(done, choices[0])
		}
		if w.rules.broken != nil && w.rules.broken.rule == rule {
			c = &counterexample{violation: w.rules.broken, schedule: done, story: w.story}
		}
	})
	return c
}

var seed = maphash.MakeSeed()

// state identifies the state of the world: what the table, the queue and the rules hold, and what every
// delivery has seen since it began. Workers that have seen the same are alike, and tokens are known by the order
// in which they appear. Times are compared in seconds from now: less than the clock jumps by, and more than
// what tries cost.
func (w *world) state() uint64 {
	var b strings.Builder
	now := w.table.now()
	names := map[string]int{}
	name := func(token string) int {
		n, ok := names[token]
		if !ok {
			n = len(names)
			names[token] = n
		}
		return n
	}
	order := slices.Clone(w.workers[:])
	slices.SortStableFunc(order, func(p, q *process) int { return strings.Compare(p.summary(w), q.summary(w)) })
	for _, p := range order {
		b.WriteString(p.summary(w))
		for _, e := range p.events() {
			if e.token != "" {
				fmt.Fprintf(&b, " %d", name(e.token))
			}
		}
	}
	for _, key := range keys(w.table.rows) {
		r := w.table.rows[key]
		fmt.Fprintf(&b, "|%s %s %d %d %d %d", key, r.state, name(r.holder), r.attempts, left(r.leasedUntil-now), left(r.expires-now))
	}
	for _, l := range w.late {
		fmt.Fprintf(&b, "|%s %s %d", l.name, l.key, name(l.token))
	}
	var queue []string
	for _, m := range w.queue {
		queue = append(queue, fmt.Sprintf("%s %d", m.key, left(m.due-now)))
	}
	slices.Sort(queue)
	for _, key := range keys(w.rules.done) {
		fmt.Fprintf(&b, "|%s %d", key, w.rules.effects[key])
	}
	fmt.Fprint(&b, queue, w.limits, w.rules.excused, w.rules.leaked)
	return maphash.String(seed, b.String())
}

// left is a duration from now on, in seconds; what is over is over.
func left(d time.Duration) int { return max(0, int(d.Round(time.Second)/time.Second)) }

// events is what p has seen and may remember.
func (p *process) events() []event {
	if p.job == nil {
		return p.memory
	}
	return append(slices.Clip(p.memory), p.job.history...)
}

// summary is what p has seen, without tokens.
func (p *process) summary(w *world) string {
	var b strings.Builder
	b.WriteByte('/')
	if p.job != nil {
		fmt.Fprintf(&b, "%s %v %v", p.job.key, p.job.cancelled, p.job.unclean)
	}
	for _, e := range p.events() {
		b.WriteByte(' ')
		b.WriteString(e.text)
	}
	for _, s := range w.parked {
		if s.process == p {
			b.WriteByte('?')
			b.WriteString(s.name)
		}
	}
	return b.String()
}
