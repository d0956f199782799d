package servers

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// command is how to start a private server.
type command struct {
	path  string
	args  []string
	env   []string // beside the environment of the tests
	as    *account // nil for the tests' own
	stop  syscall.Signal
	admin string // the DSN under which it will answer
}

// account is another user to run a server as: PostgreSQL refuses root.
type account struct{ uid, gid uint32 }

// process is a private server, running or not.
type process struct {
	command command
	log     string
	cmd     *exec.Cmd
	ended   chan struct{}
}

func (p *process) start() error {
	if p.running() {
		return errors.New("the server is running already")
	}
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.command.path, p.command.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), p.command.env...)
	cmd.Dir = filepath.Dir(p.log)
	isolate(cmd, p.command.as)
	if err := startBound(cmd); err != nil {
		return err
	}
	p.cmd, p.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.ended)
	}()
	return nil
}

func (p *process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) kill() error {
	if !p.running() {
		return nil
	}
	killGroup(p.cmd)
	<-p.ended
	return nil
}

func (p *process) stop() error {
	if !p.running() {
		return nil
	}
	if err := p.cmd.Process.Signal(p.command.stop); err != nil {
		return errors.Join(err, p.kill())
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(time.Minute):
		return errors.Join(errors.New("the server did not stop within a minute"), p.kill())
	}
}

// logTail is the end of the server's log.
func (p *process) logTail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// run runs a command that prepares a server, and returns its output with the error.
func run(cmd *exec.Cmd, as *account) error {
	isolate(cmd, as)
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(string(out[max(0, len(out)-2000):])))
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// find looks for a program in PATH and then in directories, which may be patterns; the last match of a
// pattern, the newest version, wins.
func find(name string, patterns ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	for _, pattern := range patterns {
		matches, err := filepath.Glob(filepath.Join(pattern, name))
		if err == nil && len(matches) > 0 {
			slices.Sort(matches)
			return matches[len(matches)-1], nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}
