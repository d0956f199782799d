// Package store keeps the keys of messages, CLAIMED while a handler works and CONFIRMED when one
// finished, so that a message which is delivered twice is worked on once.
//
//	s, err := store.New(db, postgres.Dialect)         // the table comes from package migrations
//	payments, err := s.Scope("payments")              // one scope per consumer
//	c, err := payments.Claim(ctx, "order-1")          // one INSERT: the primary key decides
//	if c.Outcome().Held() {                           // First or TakenOver
//		err = c.InTx(ctx, db, func(tx *sql.Tx) error { // the work and its key commit together
//			_, err := tx.ExecContext(ctx, "INSERT INTO charges ...")
//			return err
//		})
//	}
//
// # What is promised
//
// At most one claim on a key is live at any time. A claim that is never finished, because its process
// died, holds the key for its lease; then the next delivery takes it over, with a token of its own. The
// former holder's Confirm, ConfirmTx and InTx fail with ErrClaimLost from that moment on. So the effects
// of handlers that work in the store's database inside InTx, or call ConfirmTx in their own transaction,
// happen exactly once, whoever stalls, dies or is called twice.
//
// A confirmed key stays confirmed until its retention is over and it is purged. The database's clock
// decides about leases and retentions; the clocks of the processes do not matter.
//
// # What is not promised
//
// Work outside of the database, an e-mail or a call to somebody else's API, cannot be undone by a fence:
// it happens at least once, and twice only if a process dies between the work and the confirm, or stalls
// for longer than its lease. Hand the key on as the other side's idempotency key. A duplicate that comes
// after the retention is new. A database that loses committed transactions in a failover loses keys too.
//
// # Which store
//
// SQL keeps the keys in the table firsttime_keys of PostgreSQL, MySQL, MariaDB or SQLite. Memory keeps
// them in one process. Both implement the small contract (Store, Confirmer, Forgetter) and the large one
// (Claimer); package storetest checks any implementation against it.
package store
