package dialects_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
)

var (
	errCutOff    = errors.New("this node is cut off")
	errNothing   = errors.New("no transaction is open")
	errViolation = errors.New("a deferred constraint")
)

func normalizeCutOff(err error) error {
	if errors.Is(err, errCutOff) {
		return dialects.Mark(dialects.ErrRetryable, err)
	}
	return err
}

// A pool must not get back a connection whose transaction may still be open: its next user would commit it.
func TestAConnectionLeavesThePoolUnlessItsTransactionIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		session
		end  func(tx *dialects.Tx) error
		want error
		kept bool
	}{
		"committed":                     {session{}, (*dialects.Tx).Commit, nil, true},
		"rolled back":                   {session{}, (*dialects.Tx).Rollback, nil, true},
		"COMMIT refused, ROLLBACK too":  {session{commit: errCutOff, rollback: errCutOff}, (*dialects.Tx).Commit, errCutOff, false},
		"ROLLBACK refused":              {session{rollback: errCutOff}, (*dialects.Tx).Rollback, errCutOff, false},
		"COMMIT refused, ROLLBACK done": {session{commit: errCutOff}, (*dialects.Tx).Commit, errCutOff, true},
		"COMMIT failed, nothing open":   {session{commit: errViolation, rollback: errNothing}, (*dialects.Tx).Commit, errViolation, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &c.session
			db := sql.OpenDB(s)
			defer db.Close()
			tx, err := dialects.BeginTx(t.Context(), db, nil, normalizeCutOff)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.end(tx); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			_ = tx.Rollback() // as a deferred call does
			if s.closed == c.kept || db.Stats().InUse != 0 {
				t.Errorf("closed %v, want %v; %d connections are in use, want none", s.closed, !c.kept, db.Stats().InUse)
			}
		})
	}
}

// The end of its context ends a transaction by a ROLLBACK whose failure nobody is told of.
func TestAConnectionLeavesThePoolIfItsContextEndedTheTransactionInVain(t *testing.T) {
	s := &session{rollback: errCutOff}
	db := sql.OpenDB(s)
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	tx, err := dialects.BeginTx(ctx, db, nil, normalizeCutOff)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := tx.Commit(); err == nil {
		t.Error("it was committed")
	}
	if !s.closed {
		t.Error("the connection was kept")
	}
}

// Whoever interrupts a COMMIT that waits for PostgreSQL's standby makes the server show what the standby lacks.
func TestTheEndOfTheContextInterruptsNoCommit(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		want  error
	}{
		"it is answered a little later": {2 * time.Second, nil},
		"it is left to its fate":        {time.Minute, dialects.ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowSession{takes: c.takes}
				db := sql.OpenDB(s)
				defer db.Close()
				ctx, cancel := context.WithCancel(t.Context())
				tx, err := dialects.BeginTx(ctx, db, nil, normalizeCutOff)
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Second, cancel)
				if err := tx.Commit(); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				_ = tx.Rollback() // as a deferred call does
				time.Sleep(c.takes)
				synctest.Wait()
				if s.interrupted || !s.committed || s.closed || db.Stats().InUse != 0 {
					t.Errorf("%+v; %d connections are in use, want none", s, db.Stats().InUse)
				}
			})
		})
	}
}

// Package sql must not undo a transaction in a goroutine of its own while it is being ended here: a connection that dies
// then is taken away from under a statement, and that panics. So nobody has the connection when Rollback returns.
func TestTheEndOfTheContextMayMeetTheEndOfTheTransaction(t *testing.T) {
	for range 20_000 {
		db := sql.OpenDB(&session{rollback: driver.ErrBadConn})
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := dialects.BeginTx(ctx, db, nil, normalizeCutOff)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		for range rand.IntN(100) {
			runtime.Gosched()
		}
		_ = tx.Rollback()
		if n := db.Stats().InUse; n != 0 {
			t.Fatalf("%d connections are in use, want none", n)
		}
		db.Close()
	}
}

func TestBeginTxPassesOverDeadConnections(t *testing.T) {
	s := &session{dead: 7}
	db := sql.OpenDB(s)
	defer db.Close()
	tx, err := dialects.BeginTx(t.Context(), db, nil, normalizeCutOff)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
}

// session is a driver with one session, which answers as it is told.
type session struct {
	commit, rollback error
	dead             int // connections that end at their first use
	closed           bool
}

func (s *session) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s *session) Driver() driver.Driver                        { return nil }
func (s *session) Prepare(string) (driver.Stmt, error)          { return nil, driver.ErrSkip }
func (s *session) Close() error                                 { s.closed = true; return nil }
func (s *session) Commit() error                                { return s.commit }
func (s *session) Rollback() error                              { return s.rollback }
func (s *session) ResetSession(context.Context) error           { return nil }
func (s *session) IsValid() bool                                { return true }

func (s *session) Begin() (driver.Tx, error) {
	if s.dead > 0 {
		s.dead--
		return nil, driver.ErrBadConn
	}
	return s, nil
}

func (s *session) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if query != "ROLLBACK" {
		return nil, errors.ErrUnsupported
	}
	return driver.ResultNoRows, s.rollback
}

// slowSession takes its time for a COMMIT, and gives it up when the context of the transaction ends.
type slowSession struct {
	session
	takes                  time.Duration
	ctx                    context.Context
	committed, interrupted bool
}

func (s *slowSession) Connect(context.Context) (driver.Conn, error) { return s, nil }

func (s *slowSession) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	s.ctx = ctx
	return s, nil
}

func (s *slowSession) Commit() error {
	select {
	case <-s.ctx.Done():
		s.interrupted = true
		return s.ctx.Err()
	case <-time.After(s.takes):
		s.committed = true
		return nil
	}
}
