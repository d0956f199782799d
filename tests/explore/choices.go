package explore

import (
	"cmp"
	"fmt"
	"slices"
)

// act is what can happen next.
type act string

const (
	// These cost nothing.
	deliver act = "deliver" // a message, to an idle worker
	proceed act = "step"    // a worker's statement is executed and answered
	land    act = "land"    // a late statement reaches the database
	limit   act = "limit"   // time passes the time limit of what waits or hangs
	wait    act = "wait"    // time passes until the next message is due
	collect act = "purge"   // of what may be purged

	// Each of these is a fault.
	loseReply   act = "lost reply"      // the statement is done, its connection lost
	loseRequest act = "lost request"    // it is not done, its connection lost
	delay       act = "late request"    // its connection is lost, it is done later
	undo        act = "retryable error" // the database undoes it
	hang        act = "hang"            // it is done, its reply never comes
	crash       act = "crash"           // the worker's process ends, another one takes its place
	shutDown    act = "shutdown"        // the delivery's context ends
	beat        act = "beat"            // time passes for a heartbeat
	stall       act = "stall"           // time passes the lease
	expire      act = "expiry"          // time passes the retention
	purge       act = "early purge"     // when there is nothing to purge
)

func (a act) fault() bool {
	switch a {
	case deliver, proceed, land, limit, wait, collect:
		return false
	}
	return true
}

// choice is one of the things that can happen next.
type choice struct {
	act    act
	worker int    // 0 for what concerns none
	what   string // the step's phrase, or the message's key
}

// choices lists what can happen next, with at most this many faults more. An empty list is the end.
//
// Steps that no other worker can see or be disturbed by, such as BEGIN, are taken at once: whether others
// go before them makes no difference to anybody. The same holds for the steps of a worker whose key nobody
// else has to do with, except that time may pass between them.
func (w *world) choices(faults int) []choice {
	var all []choice
	add := func(c choice) {
		if !c.act.fault() || faults > 0 {
			all = append(all, c)
		}
	}
	steps := w.enabled()
	if s := w.unseen(steps); s != nil {
		w.addStep(s, add)
		return all
	}
	if p := w.alone(steps); p != nil {
		for _, s := range steps {
			if s.process == p {
				w.addStep(s, add)
			}
		}
		w.addTime(add)
		return all
	}
	for _, s := range steps {
		w.addStep(s, add)
	}
	w.addDeliveries(add)
	for i, l := range w.late {
		if !w.table.blocked(l.statement, l.tx) {
			add(choice{land, i, l.phrase()})
		}
	}
	w.addTime(add)
	if len(w.table.rows) > 0 {
		add(choice{act: cond(w.anyPurgeable(), collect, purge)})
	}
	if len(all) == 0 && len(w.queue) > 0 {
		add(choice{act: wait})
	}
	return all
}

// enabled are the steps that do not have to wait for locks, in a fixed order.
func (w *world) enabled() []*step {
	steps := slices.DeleteFunc(slices.Clone(w.parked), func(s *step) bool {
		return s.hangs || w.table.blocked(s.statement, s.tx())
	})
	slices.SortStableFunc(steps, func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.process.number, b.process.number), cmp.Compare(a.name, b.name))
	})
	return steps
}

// unseen is a step that nobody else can see.
func (w *world) unseen(steps []*step) *step {
	i := slices.IndexFunc(steps, func(s *step) bool { return s.name == "BEGIN" || s.name == "work on" })
	if i < 0 || w.scenario.beats {
		return nil
	}
	return steps[i]
}

// alone is a worker with a step whose key concerns nobody else.
func (w *world) alone(steps []*step) *process {
	for _, s := range steps {
		if key := s.process.job.key; !slices.ContainsFunc(w.workers[:], func(o *process) bool {
			return o != s.process && o.job != nil && o.job.key == key
		}) && !slices.ContainsFunc(w.queue, func(m message) bool {
			return m.key == key
		}) && !slices.ContainsFunc(w.late, func(l *late) bool {
			return l.job.key == key
		}) && w.busy() > 1 {
			return s.process
		}
	}
	return nil
}

func (w *world) busy() (n int) {
	for _, p := range w.workers {
		if p.job != nil {
			n++
		}
	}
	return n
}

// addStep adds what can become of a step.
func (w *world) addStep(s *step, add func(choice)) {
	of := func(a act) choice { return choice{a, s.process.number, s.phrase()} }
	add(of(proceed))
	inTx := s.tx() != nil
	switch {
	case s.answer:
		add(of(loseRequest))
	case s.session == nil:
		add(of(loseRequest))
	case s.name == "BEGIN", s.name == "work on":
		add(of(loseRequest))
		return
	case s.commit:
		add(of(loseReply))
		add(of(loseRequest))
		add(of(undo))
		add(of(delay))
	case inTx:
		add(of(loseRequest))
		add(of(undo))
	case !s.write:
		add(of(loseRequest))
	default:
		add(of(loseReply))
		add(of(loseRequest))
		add(of(undo))
		add(of(delay))
		if s.limited {
			add(of(hang))
		}
	}
	add(of(crash))
	if !s.process.job.cancelled && !s.answer {
		add(of(shutDown))
	}
}

// addDeliveries adds the messages that are due, once for all that are alike. So are idle workers, unless they
// remember what they did before: then each is asked.
func (w *world) addDeliveries(add func(choice)) {
	for i, p := range w.workers {
		if p.job != nil {
			continue
		}
		var seen []string
		for _, m := range w.queue {
			if m.due <= w.table.now() && !slices.Contains(seen, m.key) {
				seen = append(seen, m.key)
				add(choice{deliver, i + 1, m.key})
			}
		}
		if !w.scenario.small {
			return
		}
	}
}

func (w *world) addTime(add func(choice)) {
	now := w.table.now()
	if w.anyWaits() {
		add(choice{act: limit})
	}
	live, kept := false, false
	for _, r := range w.table.rows {
		live = live || r.live(now)
		kept = kept || r.expires > now
	}
	if live {
		if w.scenario.beats {
			add(choice{act: beat})
		}
		add(choice{act: stall})
	}
	if kept {
		add(choice{act: expire})
	}
}

// anyWaits reports whether a step may wait until its time limit.
func (w *world) anyWaits() bool {
	return w.limits > 0 && slices.ContainsFunc(w.parked, func(s *step) bool {
		return s.limited && (s.hangs || w.table.blocked(s.statement, s.tx()))
	})
}

func (w *world) anyPurgeable() bool {
	for key, r := range w.table.rows {
		if r.purgeable(w.table.now()) && !w.table.locked(key, nil) {
			return true
		}
	}
	return false
}

func cond(is bool, yes, no act) act {
	if is {
		return yes
	}
	return no
}

func (c choice) String() string { return fmt.Sprintf("%s %d %s", c.act, c.worker, c.what) }
