package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// Server is a running server. It is safe for concurrent use.
type Server struct {
	kind    Kind
	engine  engine
	admin   string // DSN of an administrator, without a database of ours
	version string
	private *process // nil for a server that is not ours to stop
	dir     string
}

var errNotPrivate = errors.New("the server is not this process's own: it is neither stopped nor started")

// Version is the name and version that the server states, "PostgreSQL 15.18" for example.
func (s *Server) Version() string { return s.version }

// URL is the DSN of the server itself: for RabbitMQ what a client dials, for a database an
// administrator's, which tests use for what concerns no database of the user's.
func (s *Server) URL() string { return s.admin }

// Private reports whether the server is this process's own, so that it may be killed.
func (s *Server) Private() bool { return s.private != nil }

// LogFile is the file that a private server logs to, and "" for any other.
func (s *Server) LogFile() string {
	if !s.Private() {
		return ""
	}
	return s.private.log
}

// Running reports whether the server runs, as far as is known: of one that is not private it is taken for granted.
func (s *Server) Running() bool { return !s.stopped() }

// Kill ends a private server and all its processes by SIGKILL, as a crash would, and waits until they are
// gone.
//
// RabbitMQ (3.10) answers the declaration of a durable queue a moment before the decision is on disk, and
// its recovery undoes it: a queue killed within milliseconds of its declaration is often gone, with the
// messages that were confirmed into it. Declare first, then Stop and Restart, and kill after that.
func (s *Server) Kill() error {
	if !s.Private() {
		return errNotPrivate
	}
	s.private.kill()
	return nil
}

// Stop ends a private server in an orderly way and waits until it is gone.
func (s *Server) Stop() error {
	if !s.Private() {
		return errNotPrivate
	}
	return s.private.stop()
}

// Restart starts a private server that was killed or stopped, on the same data and port, and waits until
// it answers.
func (s *Server) Restart(ctx context.Context) error {
	if !s.Private() {
		return errNotPrivate
	}
	if err := s.private.start(); err != nil {
		return err
	}
	if err := s.identify(ctx, startPatience); err != nil {
		s.private.kill()
		return fmt.Errorf("%w; its log ends with:\n%s", err, s.private.logTail())
	}
	return nil
}

// Run runs a program of the machine's in the environment of a private server, its control program for
// example, and returns what it prints.
func (s *Server) Run(ctx context.Context, program string, args ...string) (string, error) {
	if !s.Private() {
		return "", errNotPrivate
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), s.private.command.env...)
	cmd.Dir = s.dir
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, output)
	}
	return string(output), nil
}

// ProcessorTime is what the processes of a private server that run now have used since their start. It is known
// on Linux only.
func (s *Server) ProcessorTime() (time.Duration, error) {
	if !s.Private() {
		return 0, errNotPrivate
	}
	return s.private.processorTime()
}

func (s *Server) stopped() bool { return s.Private() && !s.private.running() }

// discard ends a private server and removes all that it has.
func (s *Server) discard() {
	s.private.kill()
	if s.private.command.release != nil {
		s.private.command.release()
	}
	os.RemoveAll(s.dir)
}

// identify waits until the server answers, and makes sure that it is what it is taken for.
func (s *Server) identify(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		product, version, err := s.probe(ctx)
		if err == nil && product != string(s.kind) {
			return fmt.Errorf("a %s %s answers, not %s", product, version, s.kind)
		}
		if wanted := versionWanted(s.engine.variable); err == nil && !isVersion(version, wanted) {
			return fmt.Errorf("a %s %s answers, not version %s", product, version, wanted)
		}
		if err == nil {
			if s.version == "" { // a restart changes nothing, so Version needs no lock
				s.version = product + " " + version
			}
			return nil
		}
		if s.stopped() {
			return fmt.Errorf("the server ended at once: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not answer within %v: %w", patience, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// probe asks once. A server that is not ready may accept a connection and say nothing.
func (s *Server) probe(ctx context.Context) (product, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return s.engine.probe(ctx, s.admin)
}
