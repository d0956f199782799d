package store

import (
	"context"
	"errors"

	"github.com/firsttime-go/firsttime/dialects"
)

// Release gives back a claim that never finished and whose lease is over, whoever held it, for operators: the
// next claim on the key is a first one. It returns the key as it was. The errors are ErrNotFound, ErrLive and
// ErrConfirmed, and with the latter two the record says by whom.
func (s *Scoped) Release(ctx context.Context, key string) (Record, error) {
	record, err := s.releasable(ctx, key)
	if err == nil && record.LeaseLeft > 0 {
		err = ErrLive
	}
	if err == nil {
		err = s.takeAndForget(ctx, key)
	}
	return record, opError("release", s.name, key, err)
}

// ForceRelease is Release for live claims, too. The holder is told ErrClaimLost when it wants to confirm.
func (s *Scoped) ForceRelease(ctx context.Context, key string) (Record, error) {
	record, err := s.releasable(ctx, key)
	if err == nil {
		err = s.engine.discard(ctx, s.name, key)
	}
	return record, opError("release", s.name, key, err)
}

func (s *Scoped) releasable(ctx context.Context, key string) (Record, error) {
	if err := ValidateKey(key); err != nil {
		return Record{}, err
	}
	record, err := s.engine.get(ctx, s.name, key)
	if err == nil && record.Confirmed {
		err = ErrConfirmed
	}
	return record, err
}

// takeAndForget gives the key back by the protocol: if its holder comes to life in this moment, one of the
// two wins.
func (s *Scoped) takeAndForget(ctx context.Context, key string) error {
	c, err := s.newClaim(key)
	if err != nil {
		return err
	}
	if err := s.engine.claim(ctx, c); err != nil {
		return err
	}
	switch c.outcome {
	case Duplicate:
		return ErrConfirmed
	case InProgress:
		return ErrLive
	}
	return s.engine.forget(ctx, c)
}

func (s *SQL) discard(ctx context.Context, scope, key string) error {
	ctx, cancel := context.WithTimeout(ctx, s.set.timeout)
	defer cancel()
	return s.read(ctx, func(ctx context.Context) error {
		for range maxChanges {
			row, err := s.queries.Get(ctx, dialects.GetParams{Scope: scope, MessageID: key})
			if err != nil {
				return err
			}
			if row.State == dialects.Confirmed {
				return ErrConfirmed
			}
			removed, err := s.queries.Forget(ctx, dialects.ForgetParams{Scope: scope, MessageID: key, ClaimedBy: row.ClaimedBy})
			if err != nil || removed {
				return err
			}
		}
		return errContended
	})
}

func (m *Memory) discard(_ context.Context, scope, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(keyID{scope, key}, m.now())
	switch {
	case n == nil:
		return ErrNotFound
	case n.value.confirmed:
		return ErrConfirmed
	case n.value.committing:
		return errors.New("its transaction is being committed")
	}
	m.drop(n)
	return nil
}
