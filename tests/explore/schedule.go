package explore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
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

// perform lets c happen. It reports false if it cannot.
func (w *world) perform(c choice) bool {
	ok := true
	switch c.act {
	case deliver:
		ok = w.deliver(c)
	case land:
		ok = w.land(c)
	case limit:
		if ok = w.anyWaits(); ok {
			w.say("the time limit of the store passes")
			w.limits--
			w.pass(timeout + timeout/8 + timeout/40)
		}
	case wait:
		ok = w.wait()
	case beat:
		w.say("a third of the lease passes")
		w.pass(lease/3 + lease/60)
	case stall:
		w.say("everything stands still for longer than the lease")
		w.rules.excused = true
		w.pass(lease + lease/10)
	case expire:
		w.say("the retention passes")
		w.rules.excused = true
		w.pass(retention + retention/10)
	case collect, purge:
		w.purge()
	default:
		s := w.find(c)
		if ok = s != nil; ok {
			w.take(s, c.act)
		}
	}
	if ok {
		w.calm()
	}
	return ok
}

func (w *world) find(c choice) *step {
	for _, s := range w.enabled() {
		if s.process.number == c.worker && s.phrase() == c.what {
			return s
		}
	}
	return nil
}

func (w *world) deliver(c choice) bool {
	p := w.workers[c.worker-1]
	i := slices.IndexFunc(w.queue, func(m message) bool { return m.key == c.what && m.due <= w.table.now() })
	if i < 0 || p.job != nil {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	w.say("%v gets a message about %s", p, c.what)
	p.deliver(c.what)
	return true
}

// lateness is how late messages are that were put back. It is longer than what random pauses add up to, so that
// messages which are due together come together each time that the schedule is run.
const lateness = time.Second

func (w *world) wait() bool {
	now := w.table.now()
	later := slices.DeleteFunc(slices.Clone(w.queue), func(m message) bool { return m.due <= now })
	if len(later) == 0 {
		return false
	}
	next := slices.MinFunc(later, func(a, b message) int { return cmp.Compare(a.due, b.due) })
	w.say("time passes until the message about %s is delivered again", next.key)
	w.pass(next.due - now + lateness)
	return true
}

func (w *world) purge() {
	go func() { _, _ = w.janitor.store.PurgeExpired(context.Background()) }()
	w.calm()
	for _, s := range slices.Clone(w.parked) {
		if s.process == w.janitor {
			w.unpark(s)
			w.say("a purge runs")
			w.table.run(s.statement, nil, 0)
			s.reply <- nil
		}
	}
}

// take does to s what a says.
func (w *world) take(s *step, a act) {
	switch a {
	case crash:
		w.crash(s.process, s)
		return
	case shutDown:
		w.say("%v is told to shut down, while it waits to %s", s.process, s.phrase())
		s.process.job.note("shutdown", "")
		s.process.job.cancelled = true
		s.process.job.cancel()
		return
	case hang:
		result := w.execute(s)
		w.say("%v: %s → %s, but no reply comes", s.process, s.phrase(), result)
		s.process.job.note(s.name+" hangs", "")
		s.hangs = true
		w.limits++
		return
	}
	w.unpark(s)
	d := s.process.job
	switch a {
	case proceed:
		result := w.execute(s)
		w.say("%v: %s → %s", s.process, s.phrase(), result)
		d.note(s.name+result, s.seen)
		s.reply <- nil
	case loseReply:
		result := w.execute(s)
		w.say("%v: %s → %s, but the reply is lost", s.process, s.phrase(), result)
		w.breaks(s, d)
	case loseRequest:
		if s.answer {
			w.say("%v: its answer (%v) does not reach the broker", s.process, d.answer)
			w.putBack(s.process)
			s.reply <- nil
			return
		}
		w.say("%v: %s fails", s.process, s.phrase())
		w.breaks(s, d)
	case delay:
		w.say("%v: %s is sent, and the connection is lost", s.process, s.phrase())
		w.late = append(w.late, &late{step: s, job: d, tx: s.tx()})
		if s.commit {
			s.session.tx = nil
		}
		d.unclean = true
		w.breaks(s, d)
	case undo:
		w.say("%v: %s → undone by the database", s.process, s.phrase())
		if tx := s.tx(); tx != nil {
			w.table.rollback(tx)
		}
		if s.commit {
			s.session.tx = nil
		}
		d.note(s.name+" undone", "")
		d.unclean = d.unclean || s.name == "forget"
		s.reply <- errUndone
	}
}

// breaks ends the connection of s and tells its client.
func (w *world) breaks(s *step, d *delivery) {
	if s.session != nil {
		s.session.breaks()
	}
	d.note(s.name+" lost", "")
	d.unclean = d.unclean || s.name == "forget"
	s.reply <- errLost
}

func (w *world) execute(s *step) (result string) {
	return w.table.run(s.statement, s.tx(), s.process.skew())
}

// crash ends p, whose place another process takes. The broker delivers its message again.
func (w *world) crash(p *process, at *step) {
	w.say("%v crashes before its step: %s", p, at.phrase())
	w.rules.excused = true
	w.putBack(p)
	w.unlocked(func() {
		p.stop()
		w.workers[p.number-1] = w.start(p.number)
	})
}

// land lets a late statement reach the database.
func (w *world) land(c choice) bool {
	if c.worker >= len(w.late) || w.late[c.worker].phrase() != c.what {
		return false
	}
	l := w.late[c.worker]
	if w.table.blocked(l.statement, l.tx) {
		return false
	}
	w.late = slices.Delete(w.late, c.worker, c.worker+1)
	result := w.table.run(l.statement, l.tx, l.process.skew())
	w.say("the late %s of %v arrives → %s", l.phrase(), l.process, result)
	return true
}

// tx is the transaction that the step is a part of.
func (s *step) tx() *transaction {
	if s.session == nil {
		return nil
	}
	return s.session.tx
}

func cond(is bool, yes, no act) act {
	if is {
		return yes
	}
	return no
}

func (c choice) String() string { return fmt.Sprintf("%s %d %s", c.act, c.worker, c.what) }
