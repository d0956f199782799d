package histories

import (
	"fmt"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

// protocol is the sequential specification of one key: what each operation may answer in which state, and
// what becomes of the state.
//
// Time passes between the operations, by the database's clock, which nobody but the database can read. What
// is known is that an operation read it between the moments at which it was sent and answered. So the end of
// a lease or of a retention is kept as an interval in which it lies for certain. An answer that says "it is
// over" is wrong only if the interval begins after the answer, one that says "it runs" only if the interval
// ended before the question: however slow the machine is, nothing right is called wrong.
type protocol struct {
	lease, retention time.Duration
}

// precision is how much a database's clock and this process's may differ over one history: SQLite counts
// milliseconds, and cuts off what is below.
const precision = 2 * time.Millisecond

// state is what is known of the key.
type state struct {
	is      presence
	claim   int // the number of the claim that holds or confirmed it
	worker  string
	attempt int
	// The lease and the retention end within these intervals.
	leaseEnd, retentionEnd interval
}

type presence int

const (
	isAbsent presence = iota
	isClaimed
	isConfirmed
)

type interval struct{ from, to time.Duration }

// after is the interval in which something ends that lasts d and began while the operation ran.
func after(a answer, d time.Duration) interval {
	return interval{a.sent + d - precision, a.gotten + d + precision}
}

func (i interval) orLater(other interval) interval {
	return interval{max(i.from, other.from), max(i.to, other.to)}
}

// mayBeOver reports whether the end may have come while the operation ran.
func (i interval) mayBeOver(a answer) bool { return a.gotten >= i.from }

// mayRun reports whether the end may not have come yet while the operation ran.
func (i interval) mayRun(a answer) bool { return a.sent <= i.to }

// fits reports whether left may be what was left until the end while the operation ran.
func (i interval) fits(a answer, left time.Duration) bool {
	return left >= i.from-a.gotten && left <= i.to-a.sent
}

// model is the protocol in porcupine's terms.
func (p protocol) model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(s, in, out any) []any {
			var next []any
			for _, n := range p.step(s.(state), in.(operation), out.(answer)) {
				next = append(next, n)
			}
			return next
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%v: %v", in, out) },
		DescribeState:     func(s any) string { return s.(state).String() },
	}
	return m.ToModel()
}

// step returns the states in which the key may be after an operation that got this answer: none if that is
// no answer to the operation in state s.
func (p protocol) step(s state, o operation, a answer) []state {
	if a.result == undone && (o.action == commits || o.action == rollsBack || o.action == worksInTx) {
		return []state{s}
	}
	switch o.action {
	case claims:
		return p.stepClaim(s, o, a)
	case extends:
		return s.fenced(o, a, s.holds(o), p.extended(s, a))
	case confirms:
		// Confirming again is done again.
		return s.fenced(o, a, s.holds(o) || s.confirmedBy(o), s.confirmed())
	case commits:
		// This, too, has one transaction only: after it, the claim counts as lost here.
		if a.result == lost && s.confirmedBy(o) {
			return []state{s}
		}
		return s.fenced(o, a, s.holds(o), s.confirmed())
	case rollsBack:
		if a.result == lost && s.confirmedBy(o) {
			return []state{s}
		}
		return s.fenced(o, a, s.holds(o), s)
	case worksInTx:
		return s.fenced(o, a, s.holds(o), s.confirmed())
	case forgets:
		return s.stepForget(o)
	case confirmKey:
		return p.stepConfirmKey(s, o, a)
	case reads:
		return s.stepRead(a)
	case purges:
		return s.stepPurge(o, a)
	}
	panic("unknown action " + string(o.action))
}

func (p protocol) stepClaim(s state, o operation, a answer) []state {
	switch {
	case a.result == first && s.is == isAbsent && a.attempt == 1:
		return []state{p.claimed(o, a, 1)}
	case a.result == takenOver && s.is == isClaimed && s.leaseEnd.mayBeOver(a) && a.attempt == s.attempt+1:
		return []state{p.claimed(o, a, a.attempt)}
	case a.result == inProgress && s.is == isClaimed && s.leaseEnd.mayRun(a) && s.leaseEnd.fits(a, a.left) && s.named(a):
		return []state{s}
	case a.result == duplicate && s.is == isConfirmed && s.named(a):
		return []state{s}
	}
	return nil
}

func (p protocol) claimed(o operation, a answer, attempt int) state {
	return state{
		is: isClaimed, claim: o.claim, worker: strconv.Itoa(o.client), attempt: attempt,
		leaseEnd: after(a, p.lease), retentionEnd: after(a, p.retention),
	}
}

func (p protocol) extended(s state, a answer) state {
	s.leaseEnd = s.leaseEnd.orLater(after(a, p.lease))
	s.retentionEnd = s.retentionEnd.orLater(after(a, p.retention))
	return s
}

func (s state) confirmed() state {
	s.is = isConfirmed
	return s
}

// fenced is an operation that turns s into next if it is allowed, and is told that its claim is lost, or
// confirmed already, if it is not.
func (s state) fenced(o operation, a answer, allowed bool, next state) []state {
	switch {
	case a.result == done && allowed:
		return []state{next}
	case a.result == confirmed && s.confirmedBy(o):
		return []state{s}
	case a.result == lost && !allowed && !s.confirmedBy(o):
		return []state{s}
	}
	return nil
}

func (s state) stepForget(o operation) []state {
	if s.holds(o) {
		return []state{{}}
	}
	return []state{s}
}

func (p protocol) stepConfirmKey(s state, o operation, a answer) []state {
	next := s
	switch s.is {
	case isAbsent:
		next = p.claimed(o, a, 1)
		next.leaseEnd = after(a, 0)
	case isClaimed:
		next.claim, next.worker = o.claim, strconv.Itoa(o.client)
	}
	return []state{next.confirmed()}
}

func (s state) stepRead(a answer) []state {
	switch {
	case a.result == notFound && s.is == isAbsent,
		a.result == claimed && s.is == isClaimed && s.named(a) && s.leaseEnd.fits(a, a.left),
		a.result == confirmed && s.is == isConfirmed && s.named(a):
		return []state{s}
	}
	return nil
}

// stepPurge is a purge in as far as it concerns this key.
func (s state) stepPurge(o operation, a answer) []state {
	if s.is == isAbsent {
		return []state{s}
	}
	mayGo := s.retentionEnd.mayBeOver(a) && (s.is == isConfirmed || s.leaseEnd.mayBeOver(a))
	mayStay := s.retentionEnd.mayRun(a) || s.is == isClaimed && s.leaseEnd.mayRun(a)
	var next []state
	if mayGo {
		next = append(next, state{})
	}
	if mayStay || !o.alone {
		next = append(next, s)
	}
	return next
}

func (s state) holds(o operation) bool       { return s.is == isClaimed && s.claim == o.claim }
func (s state) confirmedBy(o operation) bool { return s.is == isConfirmed && s.claim == o.claim }

// named reports whether the answer names the worker and the attempt that have the key.
func (s state) named(a answer) bool { return a.worker == s.worker && a.attempt == s.attempt }

func (s state) String() string {
	switch s.is {
	case isClaimed:
		return fmt.Sprintf("claimed by #%d of %s, attempt %d, until %v to %v",
			s.claim, s.worker, s.attempt, s.leaseEnd.from, s.leaseEnd.to)
	case isConfirmed:
		return fmt.Sprintf("confirmed by #%d of %s, attempt %d", s.claim, s.worker, s.attempt)
	}
	return "absent"
}
