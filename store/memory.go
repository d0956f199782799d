package store

import (
	"container/list"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Memory is a store in the memory of one process: for tests, and for consumers whose duplicates all reach
// the same process and who can bear to forget everything when it ends. It keeps the same contract as SQL
// and is safe for concurrent use. A call takes constant time, however many keys there are.
//
// The key and the work cannot be one transaction here: ConfirmTx returns an error that matches
// errors.ErrUnsupported, and InTx confirms right after the commit.
type Memory struct {
	*Scoped
	mu      sync.Mutex
	entries map[keyID]*entry
	window  window[*entry]
}

// entry is a row of the table.
type entry struct {
	id          keyID
	holder      string
	attempts    int
	confirmed   bool
	committing  bool // InTx is between its check and its confirm: nobody may take the claim over
	recordedAt  time.Time
	leasedUntil time.Time
	confirmedAt time.Time
	expiresAt   time.Time
	retention   time.Duration
	place       *list.Element
}

// NewMemory returns an empty store. WithTimeout, WithLogger and WithoutPreparedStatements mean nothing
// to it.
func NewMemory(options ...Option) (*Memory, error) {
	set, err := defaults().apply(options)
	if err != nil {
		return nil, opError("new", "", "", err)
	}
	m := &Memory{entries: make(map[keyID]*entry), window: newWindow[*entry]()}
	m.Scoped, err = newScoped(m, DefaultScope, set, newOwnClaims())
	return m, err
}

// Len is the number of keys that are kept. A key whose retention is over is dropped by later calls.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}

func (m *Memory) claim(ctx context.Context, c *Claim) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	e := m.find(c.id(), now)
	switch {
	case e == nil:
		m.insert(c, now)
		c.hold(First, 1)
		return nil
	case e.confirmed:
		c.outcome = Duplicate
	case e.live(now):
		c.outcome = InProgress
		c.left = max(e.leasedUntil.Sub(now), time.Millisecond)
	default:
		e.holder = c.holder
		e.attempts++
		m.prolong(e, c, now)
		c.hold(TakenOver, int64(e.attempts))
		return nil
	}
	c.attempt, c.other = e.attempts, workerOf(e.holder)
	return nil
}

// find returns the key's entry, unless its retention is over.
func (m *Memory) find(id keyID, now time.Time) *entry {
	e := m.entries[id]
	if e != nil && e.ended(now) {
		m.drop(e)
		return nil
	}
	return e
}

func (m *Memory) insert(c *Claim, now time.Time) *entry {
	set := &c.in.set
	for range endedPerCall {
		oldest, ok := m.window.oldest(set.retention)
		if !ok || !oldest.ended(now) {
			break
		}
		m.drop(oldest)
	}
	e := &entry{
		id: c.id(), holder: c.holder, attempts: 1, recordedAt: now,
		leasedUntil: now.Add(set.lease), expiresAt: now.Add(set.retention), retention: set.retention,
	}
	e.place = m.window.add(e, e.retention)
	m.entries[e.id] = e
	return e
}

// prolong lets lease and retention start anew.
func (m *Memory) prolong(e *entry, c *Claim, now time.Time) {
	e.leasedUntil = later(e.leasedUntil, now.Add(c.in.set.lease))
	e.expiresAt = now.Add(e.retention)
	m.window.renew(e.place, e.retention)
}

func (m *Memory) drop(e *entry) {
	m.window.remove(e.place, e.retention)
	delete(m.entries, e.id)
}

func (e *entry) live(now time.Time) bool {
	return e.committing || now.Before(e.leasedUntil)
}

func (e *entry) ended(now time.Time) bool {
	return !now.Before(e.expiresAt) && (e.confirmed || !e.live(now))
}

func (e *entry) confirm(now time.Time) {
	e.confirmed = true
	e.confirmedAt = now
}

// mine calls act on the entry that c holds, or returns ErrClaimLost if it holds none.
func (m *Memory) mine(c *Claim, act func(e *entry)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[c.id()]
	if e == nil || e.holder != c.holder {
		return ErrClaimLost
	}
	act(e)
	return nil
}

func (m *Memory) confirm(_ context.Context, c *Claim) error {
	return m.mine(c, func(e *entry) { e.confirm(time.Now()) })
}

func (m *Memory) confirmTx(context.Context, *sql.Tx, *Claim) error {
	return errNoTx
}

var errNoTx = fmt.Errorf("a store in memory takes no part in transactions, use InTx: %w", errors.ErrUnsupported)

func (m *Memory) inTx(ctx context.Context, db *sql.DB, c *Claim, work func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	return runTx(tx, work, func() error {
		if err := m.mine(c, func(e *entry) { e.committing = true }); err != nil {
			return err
		}
		err := tx.Commit()
		lost := m.mine(c, func(e *entry) {
			e.committing = false
			if err == nil {
				e.confirm(time.Now())
			}
		})
		return errors.Join(err, lost)
	})
}

func (m *Memory) extend(ctx context.Context, c *Claim) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	confirmed := false
	err := m.mine(c, func(e *entry) {
		if confirmed = e.confirmed; !confirmed {
			m.prolong(e, c, time.Now())
		}
	})
	return lostUnless(!confirmed, err)
}

func (m *Memory) forget(_ context.Context, c *Claim) error {
	err := m.mine(c, func(e *entry) {
		if !e.confirmed {
			m.drop(e)
		}
	})
	if errors.Is(err, ErrClaimLost) {
		return nil
	}
	return err
}

func (m *Memory) confirmKey(_ context.Context, c *Claim) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	e := m.find(c.id(), now)
	if e == nil {
		e = m.insert(c, now)
	}
	if !e.confirmed {
		e.holder = c.holder
	}
	e.confirm(now)
	return nil
}

func (m *Memory) confirmKeyTx(context.Context, *sql.Tx, *Claim) error {
	return errNoTx
}

func (m *Memory) get(_ context.Context, scope, key string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	e := m.find(keyID{scope, key}, now)
	if e == nil {
		return Record{}, ErrNotFound
	}
	r := Record{
		Scope: scope, Key: key, Confirmed: e.confirmed, Worker: workerOf(e.holder), Attempts: e.attempts,
		Age: now.Sub(e.recordedAt), LeaseLeft: e.leasedUntil.Sub(now), RetentionLeft: e.expiresAt.Sub(now),
	}
	if e.confirmed {
		r.ConfirmedAge = now.Sub(e.confirmedAt)
	}
	return r, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
