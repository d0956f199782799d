package store

import (
	"context"
	"database/sql"
	"time"
)

// Scoped is a store for the keys of one consumer. It is safe for concurrent use. It implements Store,
// Confirmer, Forgetter and Claimer.
type Scoped struct {
	engine engine
	name   string
	set    settings
	own    *ownClaims
}

// engine is where the keys are: a table or a map. It gets valid keys and claims that hold their key.
type engine interface {
	claim(ctx context.Context, c *Claim) error
	confirm(ctx context.Context, c *Claim) error
	confirmTx(ctx context.Context, tx *sql.Tx, c *Claim) error
	inTx(ctx context.Context, db *sql.DB, c *Claim, work func(tx *sql.Tx) error) error
	// extend reports, instead of extending it, that the claim is confirmed.
	extend(ctx context.Context, c *Claim) (confirmed bool, err error)
	forget(ctx context.Context, c *Claim) error
	confirmKey(ctx context.Context, c *Claim) error
	confirmKeyTx(ctx context.Context, tx *sql.Tx, c *Claim) error
	get(ctx context.Context, scope, key string) (Record, error)
	// discard removes a claim whoever holds it. The errors are ErrNotFound and ErrConfirmed.
	discard(ctx context.Context, scope, key string) error
}

func newScoped(e engine, name string, set settings, own *ownClaims) (*Scoped, error) {
	if err := validateScope(name); err != nil {
		return nil, opError("scope", name, "", err)
	}
	return &Scoped{engine: e, name: name, set: set, own: own}, nil
}

// Scope returns a store for the keys of the consumer called name, of 1 to MaxScopeLen bytes, with the
// same settings but for the options. It shares everything else with s and needs no Close.
func (s *Scoped) Scope(name string, options ...Option) (*Scoped, error) {
	set, err := s.set.apply(options)
	if err != nil {
		return nil, opError("scope", name, "", err)
	}
	return newScoped(s.engine, name, set, s.own)
}

// Name is the name of the scope.
func (s *Scoped) Name() string { return s.name }

// Lease is the length of the leases of its claims.
func (s *Scoped) Lease() time.Duration { return s.set.lease }

// Claim claims key for this worker. Losing is an Outcome, not an error. It takes one round trip to the
// database to win and two to lose, and at most the store's time limit: a claim that had to wait for
// another session until then answers InProgress if it can tell, and otherwise fails.
//
// An error leaves no claim behind as far as the database can still be reached; where it cannot, what may
// have been claimed ends with its lease. Errors match ErrInvalidKey or ErrNotMigrated, or are the
// driver's own; those that time may heal have been tried again already, so retry the message later.
func (s *Scoped) Claim(ctx context.Context, key string) (*Claim, error) {
	c, err := s.newClaim(key)
	if err == nil {
		err = s.engine.claim(ctx, c)
	}
	if err != nil {
		return nil, opError("claim", s.name, key, err)
	}
	return c, nil
}

// FirstTime is Claim for callers who need no Claim: it reports whether to do the work. Confirm or Forget
// by key ends it.
func (s *Scoped) FirstTime(ctx context.Context, key string) (bool, error) {
	c, err := s.Claim(ctx, key)
	if err != nil {
		return false, err
	}
	if c.outcome.Held() {
		s.own.add(c)
	}
	return c.outcome.Held(), nil
}

// Confirm records that the work on key is done, whoever holds the key, and inserts it if it is not in
// the table. It is not fenced: a claim that another holder has on the key is lost by it. It may be
// repeated, and runs to its end, within the store's time limit, even if ctx is over.
func (s *Scoped) Confirm(ctx context.Context, key string) error {
	c, err := s.ownOrNew(key)
	if err == nil {
		err = s.engine.confirmKey(ctx, c)
	}
	if err != nil {
		return opError("confirm", s.name, key, err)
	}
	s.own.remove(c)
	return nil
}

// ConfirmTx is Confirm as part of tx: the fact is recorded exactly if tx is committed. It is not fenced
// and never retried; an error that matches ErrRetryTx says that the whole transaction may be. Call it
// last before the commit. For exactly-once effects use Claim and the Claim's own ConfirmTx.
func (s *Scoped) ConfirmTx(ctx context.Context, tx *sql.Tx, key string) error {
	c, err := s.ownOrNew(key)
	if err == nil {
		err = s.engine.confirmKeyTx(ctx, tx, c)
	}
	return opError("confirm in transaction", s.name, key, err)
}

// Forget gives back the claim that this store took on key with FirstTime, so that a retry runs at once.
// Anything else stays as it is: another holder's claim, one taken with Claim, a confirmed key. It runs
// to its end, within the store's time limit, even if ctx is over.
func (s *Scoped) Forget(ctx context.Context, key string) error {
	c := s.own.find(s.name, key)
	if c == nil {
		return opError("forget", s.name, key, ValidateKey(key))
	}
	if err := c.Forget(ctx); err != nil {
		return err
	}
	s.own.remove(c)
	return nil
}

// Get reads what the store knows about key. It returns ErrNotFound if the key is not there.
func (s *Scoped) Get(ctx context.Context, key string) (Record, error) {
	if err := ValidateKey(key); err != nil {
		return Record{}, opError("get", s.name, key, err)
	}
	record, err := s.engine.get(ctx, s.name, key)
	return record, opError("get", s.name, key, err)
}

func (s *Scoped) newClaim(key string) (*Claim, error) {
	if err := ValidateKey(key); err != nil {
		return nil, err
	}
	return &Claim{in: s, key: key, holder: newHolder(s.set.worker), taken: time.Now()}, nil
}

// ownOrNew is the claim that this store took on key with FirstTime, or a new one with which to record
// the fact.
func (s *Scoped) ownOrNew(key string) (*Claim, error) {
	if c := s.own.find(s.name, key); c != nil {
		return c, nil
	}
	return s.newClaim(key)
}
