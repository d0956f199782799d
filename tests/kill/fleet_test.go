package kill

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// build compiles an example once per run.
func build(t *testing.T, example string) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	path := filepath.Join(built.dir, example)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../examples/"+example)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, output)
	}
	return path
}

var built struct {
	mu  sync.Mutex
	dir string // made and removed by TestMain
}

// fleet is the processes of one service. One that ends by itself is started again, as an operator's
// supervisor would.
type fleet struct {
	t       *testing.T
	command []string
	log     *lockedBuffer // what all of them print

	mu      sync.Mutex
	workers []*worker
	ending  bool
	kills   int
	crashes int // processes that ended by themselves, with an error
}

type worker struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended
}

func startFleet(t *testing.T, size int, command ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, command: command, log: new(lockedBuffer), workers: make([]*worker, size)}
	t.Cleanup(func() {
		f.mu.Lock()
		f.ending = true
		f.mu.Unlock()
		for _, w := range f.workers {
			_ = w.cmd.Process.Kill()
			<-w.ended
		}
		if t.Failed() {
			t.Logf("the end of the workers' log:\n%s", f.log.tail(8000))
		}
	})
	for i := range f.workers {
		f.start(i)
	}
	return f
}

func (f *fleet) start(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending {
		return
	}
	own := new(lockedBuffer)
	cmd := exec.Command(f.command[0], f.command[1:]...)
	cmd.Stdout = io.MultiWriter(f.log, own)
	cmd.Stderr = cmd.Stdout
	w := &worker{cmd: cmd, ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		f.t.Error(err)
		return
	}
	f.workers[i] = w
	go func() {
		w.err = cmd.Wait()
		close(w.ended)
		if state := cmd.ProcessState; state.Exited() && !state.Success() {
			f.mu.Lock()
			f.crashes++
			f.mu.Unlock()
			f.t.Logf("a worker ended by itself: %v: %s", w.err, own.tail(300))
			time.Sleep(200 * time.Millisecond) // as a supervisor would, who is in no hurry
			f.start(i)
		}
	}()
}

// killAtRandom kills one process with SIGKILL and starts it again, at every interval, until stop is closed.
func (f *fleet) killAtRandom(interval time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		i := rand.IntN(len(f.workers))
		f.mu.Lock()
		w := f.workers[i]
		f.mu.Unlock()
		if err := w.cmd.Process.Kill(); err != nil {
			if !errors.Is(err, os.ErrProcessDone) {
				f.t.Error(err)
			}
			continue
		}
		<-w.ended
		f.mu.Lock()
		f.kills++
		f.mu.Unlock()
		f.start(i)
	}
}

// terminate asks all processes to end, waits for them and fails the test if one of them does not exit with
// 0 in time.
func (f *fleet) terminate(limit time.Duration) {
	f.t.Helper()
	f.mu.Lock()
	f.ending = true
	f.mu.Unlock()
	for _, w := range f.workers {
		if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			f.t.Error(err)
		}
	}
	deadline := time.After(limit)
	for i, w := range f.workers {
		select {
		case <-w.ended:
			if w.err != nil {
				f.t.Errorf("worker %d ended with %v after SIGTERM", i, w.err)
			}
		case <-deadline:
			f.t.Fatalf("worker %d did not end within %v of SIGTERM", i, limit)
		}
	}
}

func (f *fleet) counts() (kills, crashes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kills, f.crashes
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.b.Bytes()
	return string(all[max(0, len(all)-n):])
}
