package servers

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// command is how to start a private server.
type command struct {
	path    string
	args    []string
	env     []string   // beside the environment of the tests
	as      *account   // nil for the tests' own
	in      *namespace // nil for the tests' own network
	stop    syscall.Signal
	release func() // ends what serves beside it, when the server is given up; may be nil
}

// process is a private server, running or not.
type process struct {
	command command
	once    []string // arguments of the first start only
	log     string

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive() {
		return errors.New("the server is running already")
	}
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.command.path, slices.Concat(p.command.args, p.once)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), p.command.env...)
	cmd.Dir = filepath.Dir(p.log)
	isolate(cmd, p.command.as)
	begin := startBound
	if p.command.in != nil {
		begin = p.command.in.start
	}
	if err := begin(cmd); err != nil {
		return err
	}
	p.once = nil
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(ended)
	}()
	return nil
}

// alive needs the lock.
func (p *process) alive() bool {
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

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alive()
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive() {
		killTree(p.cmd, p.ended)
	}
}

func (p *process) stop() error {
	p.mu.Lock()
	if !p.alive() {
		p.mu.Unlock()
		return nil
	}
	signalled, ended := p.cmd.Process.Signal(p.command.stop), p.ended
	p.mu.Unlock()
	if signalled != nil {
		p.kill()
		return fmt.Errorf("the server had to be killed: %w", signalled)
	}
	select {
	case <-ended:
		return nil
	case <-time.After(time.Minute):
		p.kill()
		return errors.New("the server did not stop within a minute and was killed")
	}
}

// logTail is the end of the server's log.
func (p *process) logTail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return tail(text)
}

// run runs a command that prepares a server, and returns the end of its output with the error.
func run(cmd *exec.Cmd, as *account) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	isolate(cmd, as)
	if err := startBound(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, tail(out.Bytes()))
	}
	return nil
}

func tail(text []byte) string { return string(text[max(0, len(text)-2000):]) }

// freePort finds a port that nobody listens on, below those that systems give to outgoing connections: such
// a connection could take the port while the server is killed, and a client that dials it could even meet
// itself.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 10000 + rand.IntN(32768-10000)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}
