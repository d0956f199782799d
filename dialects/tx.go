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
type Tx struct {
	*sql.Tx
	conn      *sql.Conn // nil when the connection was given back
	normalize func(error) error
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
		tx, err := conn.BeginTx(ctx, options)
		if err == nil {
			return &Tx{Tx: tx, conn: conn, normalize: normalize}, nil
		}
		_ = conn.Close()
		if dead == maxDead || !errors.Is(err, driver.ErrBadConn) {
			return nil, err
		}
	}
}

// Commit is that of sql.Tx.
func (t *Tx) Commit() error { return t.end(t.Tx.Commit()) }

// Rollback is that of sql.Tx.
func (t *Tx) Rollback() error { return t.end(t.Tx.Rollback()) }

// endLimit is for the answer to a ROLLBACK, while which nothing can be waited for in a server that is well.
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
	return err
}
