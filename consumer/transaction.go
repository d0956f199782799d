package consumer

import (
	"context"
	"database/sql"
)

// InTx is a handler whose work is one transaction on db, which is the one that has the keys: the work is
// committed exactly if the message's key is confirmed. Wrap it with Idempotent. It answers Accept when the
// transaction is committed, Reject when work returned a FatalError, and Retry for any other error.
//
//	handle := consumer.Idempotent(payments, key, consumer.InTx(db,
//		func(ctx context.Context, tx *sql.Tx, order Order) error {
//			_, err := tx.ExecContext(ctx, "INSERT INTO charges ...", order.ID)
//			return err
//		}))
//
// What else than the database work touches must not mind being called twice.
func InTx[M any](db *sql.DB, work func(ctx context.Context, tx *sql.Tx, message M) error) Handler[M] {
	return func(ctx context.Context, message M) Ack {
		claim := ClaimFrom(ctx)
		if claim == nil {
			return Retry(ErrNoClaim)
		}
		return FromError(claim.InTx(ctx, db, func(tx *sql.Tx) error { return work(ctx, tx, message) }))
	}
}
