package explore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/firsttime-go/firsttime/store"
)

var (
	// errUndone is what the database says that undid a statement, a deadlock say.
	errUndone = errors.New("undone by the database")
	// errLost is the end of a connection.
	errLost = fmt.Errorf("the connection is lost: %w", io.ErrUnexpectedEOF)
	// errCrashed lets what runs in a crashed process come to its end. Nothing that it does has an effect.
	errCrashed = fmt.Errorf("the process has crashed: %w", store.ErrClosed)
)

// connector opens the connections of a process to the table. Through it database/sql itself is a part of
// what is explored.
type connector struct{ p *process }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	s := &session{p: c.p}
	c.p.w.mu.Lock()
	defer c.p.w.mu.Unlock()
	c.p.sessions = append(c.p.sessions, s)
	return s, nil
}

func (c connector) Driver() driver.Driver { return c }

func (c connector) Open(string) (driver.Conn, error) { return c.Connect(context.Background()) }

// session is a connection. It is guarded by the world's mutex.
type session struct {
	p      *process
	tx     *transaction // nil outside of one
	broken bool
}

// Ping answers at once: it is no step.
func (s *session) Ping(context.Context) error { return nil }

// IsValid takes a broken connection out of the pool.
func (s *session) IsValid() bool {
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	return !s.broken
}

// Close ends the session, and its transaction with it.
func (s *session) Close() error {
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	s.breaks()
	return nil
}

// breaks ends the session for the server. The world's mutex is held.
func (s *session) breaks() {
	s.broken = true
	if s.tx != nil {
		s.p.w.table.rollback(s.tx)
		s.tx = nil
	}
}

// Prepare is never asked for: whatever is executed is a statement.
func (s *session) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

// Begin is never asked for, because there is BeginTx.
func (s *session) Begin() (driver.Tx, error) { return nil, errors.ErrUnsupported }

// CheckNamedValue takes statements as arguments.
func (s *session) CheckNamedValue(*driver.NamedValue) error { return nil }

// ExecContext executes the statement that is its argument. The only other one that comes is the ROLLBACK by
// which InTx makes sure that a transaction is over.
func (s *session) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if query == "ROLLBACK" {
		return driver.ResultNoRows, s.Rollback()
	}
	statement, ok := args[0].Value.(*statement)
	if !ok {
		return nil, fmt.Errorf("%T is no statement", args[0].Value)
	}
	return driver.ResultNoRows, s.p.await(ctx, &step{session: s, statement: statement})
}

// BeginTx begins a transaction.
func (s *session) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	err := s.p.await(ctx, &step{session: s, statement: &statement{name: "BEGIN", run: func(view) string {
		s.tx = s.p.adopt()
		return "done"
	}}})
	return s, err
}

// Commit commits the transaction.
func (s *session) Commit() error {
	return s.p.await(context.Background(), &step{session: s, commit: true, statement: &statement{name: "COMMIT", run: func(v view) string {
		tx := v.tx
		s.tx = nil
		v.commit(tx)
		return "committed"
	}}})
}

// Rollback takes effect at once: nobody can see when.
func (s *session) Rollback() error {
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	if s.tx != nil {
		s.p.w.table.rollback(s.tx)
		s.tx = nil
	}
	return nil
}
