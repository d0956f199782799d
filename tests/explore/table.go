package explore

import (
	"slices"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
)

// row is a row of firsttime_keys. Its times are those of the database's clock.
type row struct {
	state       string
	holder      string
	attempts    int64
	recorded    time.Duration
	leasedUntil time.Duration
	confirmed   time.Duration
	expires     time.Duration
}

func (r *row) live(now time.Duration) bool {
	return r != nil && r.state == dialects.Claimed && r.leasedUntil > now
}

// purgeable is what a purge may delete.
func (r *row) purgeable(now time.Duration) bool { return r.expires <= now && !r.live(now) }

// table is the database: the keys, and the effects of the handlers' work.
type table struct {
	start   time.Time
	mistake mistake
	rows    map[string]*row // those committed, by key; never changed in place
	open    []*transaction
	// committed is told of every change when it is committed.
	committed func(change)
}

// change is what a committed statement did to a key.
type change struct {
	key      string
	old, new *row // nil for no row
	by       *statement
	effect   bool // the work on the key was committed; nothing else changed
	inTx     bool
}

// transaction holds what it wrote, and with it the locks of those rows, until it ends.
type transaction struct {
	writes  []change
	aborted bool
}

// statement is one atomic step of the database.
type statement struct {
	name  string
	key   string // "" for a purge
	token string // of the claim that it is about
	write bool
	run   func(v view) (result string)
	// seen is the token that the statement brought back.
	seen string
}

// now is the database's clock.
func (t *table) now() time.Duration { return time.Since(t.start) }

// blocked reports whether s has to wait for a transaction other than tx.
func (t *table) blocked(s *statement, tx *transaction) bool {
	return s.write && t.locked(s.key, tx)
}

func (t *table) locked(key string, except *transaction) bool {
	return slices.ContainsFunc(t.open, func(o *transaction) bool {
		return o != except && o.wrote(key) != nil
	})
}

func (t *table) begin() *transaction {
	tx := new(transaction)
	t.open = append(t.open, tx)
	return tx
}

func (t *table) commit(tx *transaction) {
	t.end(tx)
	for _, c := range tx.writes {
		t.apply(c)
	}
}

func (t *table) rollback(tx *transaction) {
	t.end(tx)
	tx.writes, tx.aborted = nil, true
}

func (t *table) end(tx *transaction) {
	t.open = slices.DeleteFunc(t.open, func(o *transaction) bool { return o == tx })
}

func (t *table) apply(c change) {
	if !c.effect {
		c.old = t.rows[c.key]
		if c.new == nil {
			delete(t.rows, c.key)
		} else {
			t.rows[c.key] = c.new
		}
	}
	t.committed(c)
}

// wrote is the last change to key, nil if there is none.
func (tx *transaction) wrote(key string) *change {
	for i := len(tx.writes) - 1; i >= 0; i-- {
		if c := &tx.writes[i]; c.key == key && !c.effect {
			return c
		}
	}
	return nil
}

// view is how a statement sees the table: with what its transaction wrote and what others have committed.
type view struct {
	*table
	tx   *transaction // nil outside of one
	by   *statement
	skew time.Duration // of the clock that a store with the mistake localClock reads
}

// run executes s at once.
func (t *table) run(s *statement, tx *transaction, skew time.Duration) (result string) {
	return s.run(view{table: t, tx: tx, by: s, skew: skew})
}

func (v view) now() time.Duration {
	if v.mistake == localClock {
		return v.table.now() + v.skew
	}
	return v.table.now()
}

func (v view) row(key string) *row {
	if v.tx != nil {
		if c := v.tx.wrote(key); c != nil {
			return c.new
		}
	}
	return v.rows[key]
}

// put writes a row; nil deletes it.
func (v view) put(key string, r *row) { v.write(change{key: key, new: r, by: v.by}) }

func (v view) write(c change) {
	if v.tx != nil {
		c.inTx = true
		v.tx.writes = append(v.tx.writes, c)
	} else {
		v.apply(c)
	}
}
