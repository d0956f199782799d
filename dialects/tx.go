package dialects

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"
)

// Tx is a transaction whose connection goes back to the pool only when the transaction is over for certain.
//
// A node of a Galera cluster that is cut off refuses COMMIT and even ROLLBACK, and leaves the transaction open, while
// package sql takes it for ended. The next user of the connection would be part of it, and might commit it.
//
// The end of the context interrupts no COMMIT. PostgreSQL waits in it until its synchronous standby has the transaction,
// and if that wait is interrupted it shows everybody what would be lost with this server: redeliveries would be
// acknowledged as duplicates.
type Tx struct {
	*sql.Tx
	conn      *sql.Conn // nil when the connection was given back
	normalize func(error) error
	ctx       context.Context // the caller's
	// detach keeps the end of ctx from the transaction. It reports false if ctx has ended before: then undone is
	// closed when the transaction has been rolled back.
	detach func() bool
	undone chan struct{}
	cancel context.CancelFunc // ends what the driver may still be waiting for
}

// maxDead bounds how many connections of a pool may be found dead for one transaction.
const maxDead = 100

// BeginTx begins a transaction of db. normalize is that of its dialect.
//
// Like DB.BeginTx it passes over connections that died in the pool.
func BeginTx(ctx context.Context, db *sql.DB, options *sql.TxOptions, normalize func(error) error) (*Tx, error) {
	for dead := 0; ; dead++ {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		detach := context.AfterFunc(ctx, cancel)
		tx, err := conn.BeginTx(own, options)
		if err == nil && detach() {
			t := &Tx{Tx: tx, conn: conn, normalize: normalize, ctx: ctx, undone: make(chan struct{}), cancel: cancel}
			t.detach = context.AfterFunc(ctx, t.undo)
			return t, nil
		}
		detach()
		cancel()
		_ = conn.Close() // when package sql has undone what may have begun
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if dead == maxDead || !errors.Is(err, driver.ErrBadConn) {
			return nil, err
		}
	}
}

// undo rolls the transaction back when its context has ended. Package sql would do so itself, but unseen: it would take
// its connection away from under a statement of end, which panics then.
func (t *Tx) undo() {
	defer close(t.undone)
	limit := time.AfterFunc(endLimit, t.cancel)
	defer limit.Stop()
	_ = t.Tx.Rollback()
}

// Commit is that of sql.Tx, but does not wait for ever after its context ended: then it leaves the transaction to its
// fate, and its error matches ErrOutcomeUnknown.
func (t *Tx) Commit() error {
	if t.conn == nil {
		return t.Tx.Commit()
	}
	if !t.detach() {
		<-t.undone
		return t.end(t.Tx.Commit())
	}
	answer := make(chan error, 1)
	go func() { answer <- t.Tx.Commit() }()
	if err, answered := t.await(answer); answered {
		return t.end(err)
	}
	abandoned := *t
	t.conn = nil
	go func() { _ = abandoned.end(<-answer) }()
	return Mark(ErrOutcomeUnknown, t.ctx.Err())
}

// await waits for the answer to COMMIT until the context has ended and some time has passed.
func (t *Tx) await(answer <-chan error) (err error, answered bool) {
	select {
	case err := <-answer:
		return err, true
	case <-t.ctx.Done():
	}
	limit := time.NewTimer(endLimit)
	defer limit.Stop()
	select {
	case err := <-answer:
		return err, true
	case <-limit.C:
		return nil, false
	}
}

// Rollback is that of sql.Tx.
func (t *Tx) Rollback() error {
	if t.conn != nil && !t.detach() {
		<-t.undone
	}
	return t.end(t.Tx.Rollback())
}

// endLimit is how long to wait for the answer to a ROLLBACK, in which a server that is well waits for nothing, and for
// that to a COMMIT after the end of its context.
const endLimit = 5 * time.Second

// end gives the connection back. If the transaction did not end by its own word, which includes that the end of its
// context ended it unseen, one more ROLLBACK has to succeed first, or be refused because there is nothing to undo.
func (t *Tx) end(err error) error {
	if t.conn == nil {
		return err
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), endLimit)
		defer cancel()
		if _, open := t.conn.ExecContext(ctx, "ROLLBACK"); open != nil && (ctx.Err() != nil || Marked(t.normalize(open))) {
			_ = t.conn.Raw(func(any) error { return driver.ErrBadConn }) // package sql closes it
		}
	}
	_ = t.conn.Close()
	t.conn = nil
	t.cancel()
	return err
}
