package explore

import (
	"cmp"
	"context"
	"slices"
	"time"
)

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
			w.leave(s.process)
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
