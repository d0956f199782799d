package store

import "context"

// Store is the smallest contract: it tells whether a key is new. Every method is safe for concurrent
// use, and so are those of the optional interfaces below, which are found by type assertion.
type Store interface {
	// FirstTime claims key and reports true if the caller is to do the work: nobody has confirmed it,
	// and nobody else holds a live claim on it. It reports false both for a key that is done and for
	// one that somebody is working on; a Claimer tells the two apart.
	FirstTime(ctx context.Context, key string) (bool, error)
}

// Confirmer is a Store that can be told that the work is done.
type Confirmer interface {
	// Confirm records that key is done, whoever holds it, and whether or not it was ever claimed.
	Confirm(ctx context.Context, key string) error
}

// Forgetter is a Store that can be told that the work was not done.
type Forgetter interface {
	// Forget gives back what FirstTime claimed, so that a retry runs. It leaves a claim alone that
	// another holder took meanwhile, and a key that is confirmed.
	Forget(ctx context.Context, key string) error
}

// Claimer is a Store whose claims are fenced and whose answer has more than two values.
type Claimer interface {
	// Claim claims key. The Claim says by its Outcome whether the caller is to do the work.
	Claim(ctx context.Context, key string) (*Claim, error)
}
