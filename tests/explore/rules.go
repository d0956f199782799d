package explore

import (
	"errors"
	"fmt"
	"time"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/store"
)

// The rules, which are the invariants of the protocol and what follows from them.
const (
	oneLiveClaim      = "I1: at most one claim on a key is live"
	settledMeansDone  = "I2: nothing is acknowledged unhandled"
	claimsFirst       = "I3: the claim is committed before the work starts"
	fenced            = "I4: only the claim that holds the key confirms it"
	confirmedStays    = "I5: a confirmed key stays until its retention is over"
	forgetsItsOwn     = "I5: forget removes only the caller's own claim"
	confirmsTwice     = "I5: a confirm may be repeated"
	foundAgain        = "I7: a lost reply is not a lost claim"
	nothingLeftBehind = "I7, I8: a claim that is not used is given back"
	oneEffect         = "exactly one committed effect"
	comesToAnEnd      = "every message is settled"
)

// violation is a rule that a schedule breaks.
type violation struct{ rule, detail string }

func (v *violation) String() string { return v.rule + ": " + v.detail }

// rules watches a run. What it knows it has from the changes that were committed and from the answers that
// deliveries gave, not from what the code under test believes.
type rules struct {
	broken  *violation
	granted map[string]bool // the tokens whose claims were committed on their own
	effects map[string]int  // by key, since its retention was last over
	done    map[string]bool // the keys whose work was ever committed
	// excused says that work outside of a transaction may have been done twice: a process crashed, or stood
	// still for longer than its lease.
	excused bool
	// leaked says that a claim may have stayed behind until the end of its lease.
	leaked bool
}

func newRules() rules {
	return rules{granted: map[string]bool{}, effects: map[string]int{}, done: map[string]bool{}}
}

func (r *rules) fail(rule, format string, args ...any) {
	if r.broken == nil {
		r.broken = &violation{rule, fmt.Sprintf(format, args...)}
	}
}

// changed judges what a statement did to a key.
func (r *rules) changed(w *world, c change) {
	if c.effect {
		r.effect(w, c.key)
		return
	}
	now := w.table.now()
	switch {
	case c.old != nil && c.old.state == dialects.Confirmed:
		r.changedConfirmed(c, now)
	case c.new == nil:
		r.removed(c, now)
	case c.new.state == dialects.Confirmed:
		if c.old != nil && c.old.holder != c.by.token && c.by.name != "confirm the key" {
			r.fail(fenced, "%s was confirmed by a claim that did not hold it", c.key)
		}
	case c.old.live(now) && c.new.holder != c.old.holder:
		r.fail(oneLiveClaim, "%s was taken over %v before the end of its lease", c.key, round(c.old.leasedUntil-now))
	case c.new.holder != c.by.token:
		r.fail(oneLiveClaim, "the lease on %s was extended by a claim that did not hold it", c.key)
	}
	if c.new != nil && c.new.state == dialects.Claimed && c.by.name != "extend" && !c.inTx {
		r.granted[c.by.token] = true
	}
}

func (r *rules) changedConfirmed(c change, now time.Duration) {
	switch {
	case c.new == nil && c.by.name == "purge" && c.old.purgeable(now):
		r.effects[c.key] = 0
	case c.new == nil:
		r.fail(confirmedStays, "%s removed the confirmed key %s", c.by.name, c.key)
	case c.new.state != dialects.Confirmed:
		r.fail(confirmedStays, "%s made the confirmed key %s a claim again", c.by.name, c.key)
	}
}

func (r *rules) removed(c change, now time.Duration) {
	switch {
	case c.by.name != "purge" && c.by.token != c.old.holder:
		r.fail(forgetsItsOwn, "the claim on %s was removed by another one", c.key)
	case c.by.name == "purge" && !c.old.purgeable(now):
		r.fail(oneLiveClaim, "a purge removed the live claim on %s", c.key)
	}
}

// effect judges that work was committed.
func (r *rules) effect(w *world, key string) {
	r.effects[key]++
	r.done[key] = true
	if r.effects[key] > 1 && (!w.scenario.outside || !r.excused) {
		r.fail(oneEffect, "the work on %s was committed %d times", key, r.effects[key])
	}
}

// startsWork judges that the work on a key starts.
func (r *rules) startsWork(p *process, d *delivery) {
	if !r.granted[d.token] {
		r.fail(claimsFirst, "%v works on %s, and its claim is not committed", p, d.key)
	}
}

// reportsLoss judges that a delivery thinks that its claim is lost.
func (r *rules) reportsLoss(w *world, p *process, d *delivery) {
	if row := w.table.rows[d.key]; row != nil && row.holder == d.token && row.state == dialects.Confirmed {
		r.fail(confirmsTwice, "%v confirmed %s and was told that its claim is lost", p, d.key)
	}
}

// answered judges the answer of a delivery when the broker gets it.
func (r *rules) answered(w *world, p *process, d *delivery) {
	r.leaked = r.leaked || d.unclean
	held := w.table.rows[d.key]
	mine := held != nil && held.holder == d.token && held.state == dialects.Claimed
	switch {
	case d.answer.Accepted():
		if !r.done[d.key] && !w.scenario.small {
			r.fail(settledMeansDone, "%v acknowledged %s, and its work was not done", p, d.key)
		}
		return
	case d.answer.Verdict() == consumer.VerdictReject:
		r.fail(settledMeansDone, "%v rejected %s: %v", p, d.key, d.answer.Err())
	case mine && !d.unclean && errors.Is(d.answer.Err(), consumer.ErrInProgress):
		r.fail(foundAgain, "%v was told that %s is in progress elsewhere, and holds it itself", p, d.key)
	case mine && !d.unclean:
		r.fail(nothingLeftBehind, "%v put %s back (%v), and its claim on it is still there", p, d.key, d.answer.Err())
	case !w.scenario.plain && errors.Is(d.answer.Err(), store.ErrClaimLost) && held != nil && held.holder == d.token && held.state == dialects.Confirmed:
		r.fail(confirmsTwice, "%v confirmed %s and was told that its claim is lost", p, d.key)
	}
}

// ended judges a run in which nothing is left to do.
func (r *rules) ended(w *world) {
	for _, p := range w.workers {
		if p.job != nil {
			r.fail(comesToAnEnd, "%v waits for ever, with %s", p, p.job.key)
		}
	}
	for _, key := range w.scenario.messages {
		if !r.done[key] && (!w.scenario.small || !r.excused && !r.leaked) {
			r.fail(settledMeansDone, "all messages about %s are acknowledged, and its work was not done", key)
		}
	}
}

func round(d time.Duration) time.Duration { return d.Round(time.Second) }
