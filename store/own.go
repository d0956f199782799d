package store

import (
	"container/list"
	"sync"
	"time"
)

// ownClaims remembers the claims taken with FirstTime, so that Confirm and Forget by key find their
// token. A claim is dropped when it is confirmed or forgotten, and otherwise some time after its lease:
// whoever retries can take it over by then, there is nothing left to give back.
type ownClaims struct {
	mu     sync.Mutex
	claims map[keyID]ownClaim
	window window[*Claim]
}

type ownClaim struct {
	*Claim
	place *list.Element
}

// keyID identifies a key among all scopes.
type keyID struct{ scope, key string }

func (c *Claim) id() keyID { return keyID{c.in.name, c.key} }

func newOwnClaims() *ownClaims {
	return &ownClaims{claims: make(map[keyID]ownClaim), window: newWindow[*Claim]()}
}

func (o *ownClaims) add(c *Claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range endedPerCall {
		oldest, ok := o.window.oldest(c.Lease())
		if !ok || time.Now().Before(oldest.LeaseEnd()) {
			break
		}
		o.drop(oldest)
	}
	if former, ok := o.claims[c.id()]; ok {
		o.drop(former.Claim)
	}
	o.claims[c.id()] = ownClaim{c, o.window.add(c, c.Lease())}
}

func (o *ownClaims) find(scope, key string) *Claim {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.claims[keyID{scope, key}].Claim
}

func (o *ownClaims) remove(c *Claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(c)
}

// drop leaves a newer claim on the same key alone.
func (o *ownClaims) drop(c *Claim) {
	if own := o.claims[c.id()]; own.Claim == c {
		o.window.remove(own.place, c.Lease())
		delete(o.claims, c.id())
	}
}
