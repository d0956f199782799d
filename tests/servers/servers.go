// Package servers brings the real servers that tests run against. For each kind it takes the first of
//
//   - a server that the user offers by a DSN in the environment: FIRSTTIME_TEST_POSTGRES,
//     FIRSTTIME_TEST_MARIADB, FIRSTTIME_TEST_MYSQL;
//   - a container of compose.yaml, where a Docker engine answers;
//   - a private throwaway server from local binaries, in a temporary directory on a free port of
//     127.0.0.1, with its durability at its default. As root on Debian or Ubuntu, packages that are
//     missing are installed first, and named.
//
// Tests get databases of their own, made and dropped by them, and touch no other.
package servers

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
)

// Kind is a kind of server.
type Kind string

// The kinds.
const (
	Postgres Kind = "PostgreSQL"
	MariaDB  Kind = "MariaDB"
	MySQL    Kind = "MySQL"
)

// Server is a running server. It is safe for concurrent use, but for Kill, Restart and Stop.
type Server struct {
	kind    Kind
	engine  engine
	admin   string // DSN of an administrator, without a database of ours
	version string
	private *process // nil for a server that is not ours to stop
	dir     string
}

// engine is what differs between the kinds.
type engine struct {
	driver string
	// variable is the environment variable with the DSN of a server that the user offers.
	variable string
	// install names the command, for the error when nothing else helped.
	install string
	// versionQuery asks the server what it is.
	versionQuery string
	// dsn leads to one database of the server that admin leads to.
	dsn func(admin, database string) (string, error)
	// prepare makes a data directory in dir and returns how to start a server on it.
	prepare func(ctx context.Context, dir string, port int) (command, error)
}

func (k Kind) engine() engine {
	switch k {
	case Postgres:
		return postgres()
	case MariaDB:
		return mariadb()
	case MySQL:
		return mysql()
	}
	panic("unknown kind of server: " + string(k))
}

var shared struct {
	mu      sync.Mutex
	servers map[Kind]func() (*Server, error)
	running []*Server
}

// Shared returns the process's server of this kind, started at its first use. It fails the test, with
// what to do, when the server cannot be had.
func Shared(tb testing.TB, kind Kind) *Server {
	tb.Helper()
	shared.mu.Lock()
	get := shared.servers[kind]
	if get == nil {
		get = sync.OnceValues(func() (*Server, error) { return obtain(context.Background(), kind) })
		if shared.servers == nil {
			shared.servers = make(map[Kind]func() (*Server, error))
		}
		shared.servers[kind] = get
	}
	shared.mu.Unlock()
	s, err := get()
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// obtain takes the first way that works.
func obtain(ctx context.Context, kind Kind) (*Server, error) {
	e := kind.engine()
	if dsn := os.Getenv(e.variable); dsn != "" {
		s := &Server{kind: kind, engine: e, admin: dsn}
		if err := s.connect(ctx, "server of "+e.variable); err != nil {
			return nil, fmt.Errorf("%s leads to no %s: %w", e.variable, kind, err)
		}
		return s, nil
	}
	if admin, err := composed(ctx, kind); err == nil {
		s := &Server{kind: kind, engine: e, admin: admin}
		return s, s.connect(ctx, "container")
	} else if !errors.Is(err, errNoDocker) {
		return nil, err
	}
	return Start(ctx, kind)
}

// Start starts a private server of its own, for a test that stops it or looks into its log.
func Start(ctx context.Context, kind Kind) (*Server, error) {
	return start(ctx, kind, nil)
}

// StartWithClock is Start with a server whose clock is off by offset, ahead or behind.
func StartWithClock(ctx context.Context, kind Kind, offset time.Duration) (*Server, error) {
	env, err := fakeClock(ctx, offset)
	if err != nil {
		return nil, fmt.Errorf("a server with another clock needs libfaketime: %w", err)
	}
	return start(ctx, kind, env)
}

func start(ctx context.Context, kind Kind, env []string) (*Server, error) {
	e := kind.engine()
	s, err := startPrivate(ctx, kind, e, env)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be had: offer a server with %s=<DSN>, or install it (%s): %w",
			kind, e.variable, e.install, err)
	}
	shared.mu.Lock()
	shared.running = append(shared.running, s)
	shared.mu.Unlock()
	return s, nil
}

func startPrivate(ctx context.Context, kind Kind, e engine, env []string) (*Server, error) {
	dir, err := os.MkdirTemp("", "firsttime-"+strings.ToLower(string(kind))+"-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the server may run as another user
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	command, err := e.prepare(ctx, dir, port)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	command.env = env
	s := &Server{kind: kind, engine: e, admin: command.admin, dir: dir, private: &process{command: command, log: dir + "/server.log"}}
	if err := s.Restart(ctx); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// Cleanup stops every private server of this process and removes its directory. It is for TestMain.
func Cleanup() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	for _, s := range shared.running {
		_ = s.private.kill()
		os.RemoveAll(s.dir)
	}
	shared.running = nil
}

// Database creates an empty database with a name of its own, returns its DSN, and drops it when the test
// ends.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := "firsttime_test_" + strings.ToLower(rand.Text())
	if err := s.exec("CREATE DATABASE " + name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		drop := "DROP DATABASE " + name
		if s.kind == Postgres {
			drop += " WITH (FORCE)"
		}
		if err := s.exec(drop); err != nil && !s.stopped() {
			tb.Error(err)
		}
	})
	dsn, err := s.engine.dsn(s.admin, name)
	if err != nil {
		tb.Fatal(err)
	}
	return dsn
}

func (s *Server) exec(statement string) error {
	db, err := sql.Open(s.engine.driver, s.admin)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// Version is the name and version that the server states, "PostgreSQL 15.18" for example.
func (s *Server) Version() string { return s.version }

// Private reports whether the server is this process's own, so that it may be killed.
func (s *Server) Private() bool { return s.private != nil }

// LogFile is the file that a private server logs to.
func (s *Server) LogFile() string { return s.private.log }

// Kill ends a private server by SIGKILL and waits until it is gone.
func (s *Server) Kill() error {
	if !s.Private() {
		return errors.New("the server is not this process's own: it is not killed")
	}
	return s.private.kill()
}

// Stop ends a private server in an orderly way and waits until it is gone.
func (s *Server) Stop() error {
	if !s.Private() {
		return errors.New("the server is not this process's own: it is not stopped")
	}
	return s.private.stop()
}

// Restart starts a private server that was killed or stopped, on the same data and port, and waits until
// it answers.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.private.start(); err != nil {
		return err
	}
	if err := s.connect(ctx, "private server"); err != nil {
		_ = s.private.kill()
		return fmt.Errorf("%w; its log ends with:\n%s", err, s.private.logTail())
	}
	return nil
}

func (s *Server) stopped() bool { return s.Private() && !s.private.running() }

// connect waits until the server answers, learns its version and reports it.
func (s *Server) connect(ctx context.Context, origin string) error {
	db, err := sql.Open(s.engine.driver, s.admin)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		var version string
		err := db.QueryRowContext(ctx, s.engine.versionQuery).Scan(&version)
		if err == nil {
			first, _, _ := strings.Cut(version, " (")
			s.version = string(s.kind) + " " + first
			return Report(s.version, origin)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
		if s.Private() && !s.private.running() {
			return fmt.Errorf("the server ended at once: %w", err)
		}
	}
}

// Report appends a server to the file that FIRSTTIME_TEST_REPORT names, so that a run can show what it really
// ran against. This package does so for the servers it brings.
func Report(version, origin string) error {
	path := os.Getenv("FIRSTTIME_TEST_REPORT")
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s (%s)\n", version, origin)
	return errors.Join(err, f.Close())
}
