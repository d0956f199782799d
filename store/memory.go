package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
)

// Memory is a store in the memory of one process: for tests, and for consumers whose duplicates all reach
// the same process and who can bear to forget everything when it ends. It keeps the same contract as SQL
// and is safe for concurrent use. A call takes constant time, however many keys there are.
//
// The key and the work cannot be one transaction here: ConfirmTx returns an error that matches
// errors.ErrUnsupported, and InTx confirms right after the commit.
type Memory struct {
	*Scoped
	start   time.Time // all times below are durations since then: they stay monotonic and small
	mu      sync.Mutex
	entries map[keyID]*node[entry]
	window  window[entry]
}

// entry is a row of the table.
type entry struct {
	id          keyID
	holder      string
	attempts    int32
	confirmed   bool
	committing  bool // InTx is between its check and its confirm: nobody may take the claim over
	recordedAt  time.Duration
	leasedUntil time.Duration
	confirmedAt time.Duration
	expiresAt   time.Duration
	retention   time.Duration
}

// NewMemory returns an empty store. WithTimeout, WithLogger and WithoutPreparedStatements mean nothing
// to it.
func NewMemory(options ...Option) (*Memory, error) {
	set, err := defaults().apply(options)
	if err != nil {
		return nil, opError("new", "", "", err)
	}
	m := &Memory{start: time.Now(), entries: make(map[keyID]*node[entry]), window: newWindow[entry]()}
	m.Scoped, err = newScoped(m, DefaultScope, set, newOwnClaims())
	return m, err
}

// Len is the number of keys that are kept. A key whose retention is over is dropped by later calls.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}

// EndLeases ends the leases of all claims that are not confirmed, as if their holders had died and time
// had passed, for tests: the next claim on their keys takes them over.
func (m *Memory) EndLeases() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for _, n := range m.entries {
		n.value.leasedUntil = min(n.value.leasedUntil, now)
	}
}

func (m *Memory) claim(ctx context.Context, c *Claim) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := c.taken.Sub(m.start)
	n := m.find(c.id(), now)
	if n == nil {
		m.insert(c, now)
		c.hold(First, 1)
		return nil
	}
	e := &n.value
	switch {
	case e.confirmed:
		c.outcome = Duplicate
	case e.live(now):
		c.outcome = InProgress
		c.left = max(e.leasedUntil-now, time.Millisecond)
	default:
		e.holder = c.holder
		e.attempts++
		m.prolong(n, c, now)
		c.hold(TakenOver, int64(e.attempts))
		return nil
	}
	c.attempt, c.other = int(e.attempts), workerOf(e.holder)
	return nil
}

func (m *Memory) now() time.Duration { return time.Since(m.start) }

// find returns the key's entry, unless its retention is over.
func (m *Memory) find(id keyID, now time.Duration) *node[entry] {
	n := m.entries[id]
	if n != nil && n.value.ended(now) {
		m.drop(n)
		return nil
	}
	return n
}

func (m *Memory) insert(c *Claim, now time.Duration) *node[entry] {
	set := &c.in.set
	for range endedPerCall {
		oldest := m.window.oldest(set.retention)
		if oldest == nil || !oldest.value.ended(now) {
			break
		}
		m.drop(oldest)
	}
	n := &node[entry]{value: entry{
		id: c.id(), holder: c.holder, attempts: 1, recordedAt: now,
		leasedUntil: now + set.lease, expiresAt: now + set.retention, retention: set.retention,
	}}
	m.window.add(n, set.retention)
	m.entries[n.value.id] = n
	return n
}

// prolong lets lease and retention start anew.
func (m *Memory) prolong(n *node[entry], c *Claim, now time.Duration) {
	e := &n.value
	e.leasedUntil = max(e.leasedUntil, now+c.in.set.lease)
	e.expiresAt = now + e.retention
	m.window.renew(n, e.retention)
}

func (m *Memory) drop(n *node[entry]) {
	m.window.remove(n)
	delete(m.entries, n.value.id)
}

func (e *entry) live(now time.Duration) bool {
	return e.committing || now < e.leasedUntil
}

func (e *entry) ended(now time.Duration) bool {
	return now >= e.expiresAt && (e.confirmed || !e.live(now))
}

func (e *entry) confirm(now time.Duration) {
	e.confirmed = true
	e.confirmedAt = now
}

// mine calls act on the entry that c holds, or returns ErrClaimLost if it holds none.
func (m *Memory) mine(c *Claim, act func(n *node[entry])) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.entries[c.id()]
	if n == nil || n.value.holder != c.holder {
		return ErrClaimLost
	}
	act(n)
	return nil
}

func (m *Memory) confirm(_ context.Context, c *Claim) error {
	return m.mine(c, func(n *node[entry]) { n.value.confirm(m.now()) })
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
	return runTx(tx, tx.Rollback, work, func() error {
		if err := m.beginCommit(c); err != nil {
			return err
		}
		err := tx.Commit()
		lost := m.mine(c, func(n *node[entry]) {
			n.value.committing = false
			if err == nil {
				n.value.confirm(m.now())
			}
		})
		return errors.Join(err, lost)
	})
}

// beginCommit lets one transaction of a claim be committed at a time, and none after one that was.
func (m *Memory) beginCommit(c *Claim) error {
	var refused error
	lost := m.mine(c, func(n *node[entry]) {
		switch e := &n.value; {
		case e.confirmed:
			refused = ErrConfirmed
		case e.committing:
			refused = dialects.Mark(ErrRetryTx, errors.New("another transaction of the claim is being committed"))
		default:
			e.committing = true
		}
	})
	if lost != nil {
		return lost
	}
	return refused
}

func (m *Memory) extend(ctx context.Context, c *Claim) (confirmed bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	err = m.mine(c, func(n *node[entry]) {
		if confirmed = n.value.confirmed; !confirmed {
			m.prolong(n, c, m.now())
		}
	})
	return confirmed, err
}

func (m *Memory) forget(_ context.Context, c *Claim) error {
	err := m.mine(c, func(n *node[entry]) {
		if !n.value.confirmed && !n.value.committing {
			m.drop(n)
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
	now := m.now()
	n := m.find(c.id(), now)
	if n == nil {
		n = m.insert(c, now)
	}
	if !n.value.confirmed {
		n.value.holder = c.holder
	}
	n.value.confirm(now)
	return nil
}

func (m *Memory) confirmKeyTx(context.Context, *sql.Tx, *Claim) error {
	return errNoTx
}

func (m *Memory) get(_ context.Context, scope, key string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	n := m.find(keyID{scope, key}, now)
	if n == nil {
		return Record{}, ErrNotFound
	}
	e := &n.value
	r := Record{
		Scope: scope, Key: key, Confirmed: e.confirmed, Worker: workerOf(e.holder), Attempts: int(e.attempts),
		Age: now - e.recordedAt, LeaseLeft: e.leasedUntil - now, RetentionLeft: e.expiresAt - now,
	}
	if e.confirmed {
		r.ConfirmedAge = now - e.confirmedAt
	}
	return r, nil
}
