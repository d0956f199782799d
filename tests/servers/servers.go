package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Kind is a kind of server.
type Kind string

// The kinds.
const (
	Postgres Kind = "PostgreSQL"
	MariaDB  Kind = "MariaDB"
	MySQL    Kind = "MySQL"
	RabbitMQ Kind = "RabbitMQ"
)

// engine is what differs between the kinds.
type engine struct {
	// variable is the environment variable with the DSN of a server that the user offers.
	variable string
	// install says how to get the programs by hand, for the error when nothing else helped.
	install string
	// home is the directory in which a private server gets its own; nil, or "", for that of temporary files.
	home func(ctx context.Context) (string, error)
	// port is the server's port in its container.
	port string
	// admin is the DSN of an administrator of the server at an address.
	admin func(address string) string
	// probe asks a server what it is, and fails when it does not answer.
	probe func(ctx context.Context, admin string) (product, version string, err error)
	// prepare makes a data directory in dir and returns how to start a server on it.
	prepare func(ctx context.Context, dir string, port int) (command, error)
	// driver is the database/sql driver, "" for a broker.
	driver string
	// database is the DSN of one database of the server that admin leads to.
	database func(admin, name string) (string, error)
}

func (k Kind) engine() engine {
	switch k {
	case Postgres:
		return postgres()
	case MariaDB:
		return mariadb()
	case MySQL:
		return mysql()
	case RabbitMQ:
		return rabbitmq()
	}
	panic("unknown kind of server: " + string(k))
}

// How long a server may take until it answers. One that the user offers should be there already; a
// container may have to make its data directory first.
const (
	offeredPatience = 20 * time.Second
	startPatience   = 2 * time.Minute
)

var shared struct {
	mu      sync.Mutex
	servers map[Kind]func() (*Server, error)
	running []*Server // the private ones, which Cleanup ends
}

// Shared returns the process's server of this kind, started at its first use. It fails the test, with
// what to do, when the server cannot be had. Tests that stop or kill a server use Start.
func Shared(tb testing.TB, kind Kind) *Server {
	tb.Helper()
	shared.mu.Lock()
	get := shared.servers[kind]
	if get == nil {
		get = sync.OnceValues(func() (*Server, error) { return obtain(context.Background(), kind, kind.engine()) })
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
func obtain(ctx context.Context, kind Kind, e engine) (*Server, error) {
	if dsn := os.Getenv(e.variable); dsn != "" {
		s := &Server{kind: kind, engine: e, admin: dsn}
		if err := s.identify(ctx, offeredPatience); err != nil {
			return nil, fmt.Errorf("%s leads to no usable %s: %w", e.variable, kind, err)
		}
		return s, Report(s.version, "server of "+e.variable)
	}
	s, err := contained(ctx, kind, e)
	if err == nil {
		return s, Report(s.version, "container")
	}
	if !errors.Is(err, errNoDocker) {
		fmt.Fprintf(os.Stderr, "servers: no container with %s, trying local programs: %v\n", kind, err)
	}
	s, err = startPrivate(ctx, kind, e, nil)
	if err != nil {
		return nil, fmt.Errorf("set %s to the DSN of a server that tests may use, or: %w", e.variable, err)
	}
	return s, nil
}

// Start starts a private server with a data directory of its own, for a test that kills it or looks into
// its log. The directory stays until Cleanup.
func Start(ctx context.Context, kind Kind) (*Server, error) {
	return startPrivate(ctx, kind, kind.engine(), nil)
}

// StartWithOptions is Start with more options in the server's command line.
func StartWithOptions(ctx context.Context, kind Kind, options ...string) (*Server, error) {
	e := kind.engine()
	prepare := e.prepare
	e.prepare = func(ctx context.Context, dir string, port int) (command, error) {
		command, err := prepare(ctx, dir, port)
		command.args = append(command.args, options...)
		return command, err
	}
	return startPrivate(ctx, kind, e, nil)
}

// StartWithClock is Start with a server whose clock is off by offset, ahead or behind.
func StartWithClock(ctx context.Context, kind Kind, offset time.Duration) (*Server, error) {
	env, err := fakeClock(ctx, offset)
	if err != nil {
		return nil, fmt.Errorf("a server with another clock needs libfaketime: %w", err)
	}
	return startPrivate(ctx, kind, kind.engine(), env)
}

func startPrivate(ctx context.Context, kind Kind, e engine, env []string) (*Server, error) {
	var home string
	if e.home != nil {
		var err error
		if home, err = e.home(ctx); err != nil {
			return nil, fmt.Errorf("install %s (%s): %w", kind, e.install, err)
		}
	}
	dir, err := os.MkdirTemp(home, "firsttime-"+strings.ToLower(string(kind))+"-")
	if err != nil {
		return nil, err
	}
	s, err := startIn(ctx, dir, kind, e, env)
	if err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("install %s (%s): no private server could be started: %w", kind, e.install, err)
	}
	shared.mu.Lock()
	shared.running = append(shared.running, s)
	shared.mu.Unlock()
	return s, Report(s.version, "private server")
}

func startIn(ctx context.Context, dir string, kind Kind, e engine, env []string) (*Server, error) {
	if err := os.Chmod(dir, 0o755); err != nil { // the server may run as another user
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	command, err := e.prepare(ctx, dir, port)
	if err != nil {
		return nil, err
	}
	if env != nil && command.as != nil && command.as.root != "" {
		return nil, fmt.Errorf("%s runs in %s, where what changes its environment is missing", kind, command.as.root)
	}
	command.env = append(command.env, env...)
	s := &Server{
		kind: kind, engine: e, admin: e.admin(fmt.Sprintf("127.0.0.1:%d", port)), dir: dir,
		private: &process{command: command, log: filepath.Join(dir, "server.log")},
	}
	if err := s.Restart(ctx); err != nil {
		s.discard()
		return nil, err
	}
	return s, nil
}

// Cleanup ends every private server of this process and removes its directory. It is for TestMain, after
// the last test.
func Cleanup() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	for _, s := range shared.running {
		s.discard()
	}
	shared.running, shared.servers = nil, nil
}
