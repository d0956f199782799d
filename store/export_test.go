package store

// OwnClaims is how many claims are remembered for Confirm and Forget by key.
func (s *Scoped) OwnClaims() int {
	s.own.mu.Lock()
	defer s.own.mu.Unlock()
	return len(s.own.claims)
}
