package store

import "sync"

// ownClaims remembers the claims taken with FirstTime, so that Confirm and Forget by key find their
// token. A claim is dropped when it is confirmed or forgotten, and otherwise some time after its lease:
// whoever retries can take it over by then, there is nothing left to give back.
type ownClaims struct {
	mu     sync.Mutex
	claims map[keyID]*node[*Claim]
	window window[*Claim]
}

// keyID identifies a key among all scopes.
type keyID struct{ scope, key string }

func (c *Claim) id() keyID { return keyID{c.in.name, c.key} }

func newOwnClaims() *ownClaims {
	return &ownClaims{claims: make(map[keyID]*node[*Claim]), window: newWindow[*Claim]()}
}

func (o *ownClaims) add(c *Claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range endedPerCall {
		oldest := o.window.oldest(c.Lease())
		if oldest == nil || c.taken.Before(oldest.value.LeaseEnd()) {
			break
		}
		o.drop(oldest)
	}
	if former := o.claims[c.id()]; former != nil {
		o.drop(former)
	}
	n := &node[*Claim]{value: c}
	o.claims[c.id()] = n
	o.window.add(n, c.Lease())
}

func (o *ownClaims) find(scope, key string) *Claim {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.claims[keyID{scope, key}]; n != nil {
		return n.value
	}
	return nil
}

// remove leaves a newer claim on the same key alone.
func (o *ownClaims) remove(c *Claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.claims[c.id()]; n != nil && n.value == c {
		o.drop(n)
	}
}

func (o *ownClaims) drop(n *node[*Claim]) {
	o.window.remove(n)
	delete(o.claims, n.value.id())
}
