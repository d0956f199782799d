package store_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

// reference is what a store is to do, without concurrency, failures or a database.
type reference struct {
	now     time.Duration
	entries map[id]*entry
	claims  []*claim
	own     map[id]*claim // of FirstTime
	effects int
}

type id struct {
	scope int
	key   string
}

type entry struct {
	holder                                *claim
	attempt                               int
	confirmed                             bool
	recordedAt, confirmedAt, lease, until time.Duration
}

type claim struct {
	id
	held     bool
	known    bool          // to be confirmed
	leasedTo time.Duration // as far as the claim itself knows
}

func newReference() *reference {
	return &reference{entries: make(map[id]*entry), own: make(map[id]*claim)}
}

func (r *reference) take(scope int, key string) (*claim, string) {
	c := &claim{id: id{scope, key}, leasedTo: r.now + scopes[scope].lease}
	e := r.entries[c.id]
	switch {
	case e == nil:
		r.insert(c)
		return c, answered(store.First, 1, worker, 0)
	case e.confirmed:
		return c, answered(store.Duplicate, e.attempt, worker, 0)
	case e.lease > r.now:
		return c, answered(store.InProgress, e.attempt, worker, e.lease-r.now)
	}
	e.attempt++
	e.holder, c.held = c, true
	r.prolong(e, scope)
	return c, answered(store.TakenOver, e.attempt, worker, 0)
}

func (r *reference) insert(c *claim) *entry {
	e := &entry{holder: c, attempt: 1, recordedAt: r.now}
	c.held = true
	r.prolong(e, c.scope)
	r.entries[c.id] = e
	return e
}

func (r *reference) prolong(e *entry, scope int) {
	e.lease, e.until = r.now+scopes[scope].lease, r.now+scopes[scope].retention
}

// holding is the entry that the i-th claim holds or confirmed, nil if there is none.
func (r *reference) holding(c *claim) *entry {
	if e := r.entries[c.id]; e != nil && c.held && e.holder == c {
		return e
	}
	return nil
}

func (r *reference) claim(scope int, key string) string {
	if err := store.ValidateKey(key); err != nil {
		return kind(err)
	}
	c, answer := r.take(scope, key)
	r.claims = append(r.claims, c)
	return answer
}

func (r *reference) firstTime(scope int, key string) string {
	if err := store.ValidateKey(key); err != nil {
		return "false " + kind(err)
	}
	c, _ := r.take(scope, key)
	if c.held {
		r.own[c.id] = c
	}
	return fmt.Sprint(c.held, " done")
}

func (r *reference) confirm(i int) string {
	e := r.holding(r.claims[i])
	if e == nil {
		return kind(store.ErrClaimLost)
	}
	e.confirmed, e.confirmedAt, r.claims[i].known = true, r.now, true
	return "done"
}

func (r *reference) extend(i int) string {
	c := r.claims[i]
	e := r.holding(c)
	switch {
	case e == nil:
		return kind(store.ErrClaimLost)
	case e.confirmed:
		c.known = true
	default:
		r.prolong(e, c.scope)
		c.leasedTo = e.lease
	}
	return "done"
}

func (r *reference) forget(i int) string {
	c := r.claims[i]
	if e := r.holding(c); e != nil && !e.confirmed {
		delete(r.entries, c.id)
	}
	return "done"
}

func (r *reference) inTx(i int, fails bool) string {
	c := r.claims[i]
	switch {
	case c.known:
		return kind(store.ErrConfirmed) + ", ran: false"
	case !c.held:
		return kind(store.ErrClaimLost) + ", ran: false"
	case fails:
		return kind(errWork) + ", ran: true"
	}
	answer := r.confirm(i)
	if c.known {
		r.effects++
	}
	return answer + ", ran: true"
}

func (r *reference) confirmTx(i int) (inSQL, inMemory string) {
	c := r.claims[i]
	switch {
	case c.known:
		return kind(store.ErrConfirmed), kind(store.ErrConfirmed)
	case !c.held:
		return kind(store.ErrClaimLost), kind(store.ErrClaimLost)
	case r.holding(c) == nil:
		return kind(store.ErrClaimLost), kind(errors.ErrUnsupported)
	}
	return "done", kind(errors.ErrUnsupported)
}

func (r *reference) confirmKey(scope int, key string) string {
	if err := store.ValidateKey(key); err != nil {
		return kind(err)
	}
	at := id{scope, key}
	c := r.own[at]
	if c == nil {
		c = &claim{id: at}
	}
	e := r.entries[at]
	if e == nil {
		e = r.insert(c)
	}
	if !e.confirmed {
		e.holder = c
	}
	e.confirmed, e.confirmedAt = true, r.now
	delete(r.own, at)
	return "done"
}

// forgetKey says that it is open what happens if the claim's lease is over.
func (r *reference) forgetKey(scope int, key string) (answer string, open bool) {
	at := id{scope, key}
	c := r.own[at]
	if c == nil {
		return kind(store.ValidateKey(key)), false
	}
	e := r.holding(c)
	delete(r.own, at)
	if e == nil || e.confirmed {
		return "done", false
	}
	if c.leasedTo <= r.now {
		return "done", true
	}
	delete(r.entries, at)
	return "done", false
}

func (r *reference) get(scope int, key string) string {
	if err := store.ValidateKey(key); err != nil {
		return kind(err)
	}
	e := r.entries[id{scope, key}]
	if e == nil {
		return kind(store.ErrNotFound)
	}
	record := store.Record{
		Scope: scopes[scope].name, Key: key, Confirmed: e.confirmed, Worker: worker, Attempts: e.attempt,
		Age: r.now - e.recordedAt, LeaseLeft: e.lease - r.now, RetentionLeft: e.until - r.now,
	}
	if e.confirmed {
		record.ConfirmedAge = r.now - e.confirmedAt
	}
	return recorded(record, nil)
}

func (r *reference) release(scope int, key string, force bool) string {
	before := r.get(scope, key)
	e := r.entries[id{scope, key}]
	switch {
	case e == nil:
		return before
	case e.confirmed:
		return kind(store.ErrConfirmed) + ", " + before
	case e.lease > r.now && !force:
		return kind(store.ErrLive) + ", " + before
	}
	delete(r.entries, id{scope, key})
	return "done, " + before
}

// passTime returns how many keys are over by then.
func (r *reference) passTime(d time.Duration) (over int64) {
	r.now += d
	for at, e := range r.entries {
		if e.until <= r.now && (e.confirmed || e.lease <= r.now) {
			delete(r.entries, at)
			over++
		}
	}
	return over
}

func (r *reference) stats() []string {
	counts := make(map[int]*store.ScopeStats)
	for at, e := range r.entries {
		s := counts[at.scope]
		if s == nil {
			s = &store.ScopeStats{Scope: scopes[at.scope].name}
			counts[at.scope] = s
		}
		switch {
		case e.confirmed:
			s.Confirmed++
		case e.lease > r.now:
			s.Claimed++
		default:
			s.Stale++
		}
	}
	var all []store.ScopeStats
	for _, s := range counts {
		all = append(all, *s)
	}
	lines := counted(all)
	slices.Sort(lines)
	return lines
}
