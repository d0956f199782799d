package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// isolate gives cmd a process group of its own and lets the kernel end it when this process ends, however
// that happens. It leads cmd to the account's root.
func isolate(cmd *exec.Cmd, as *account) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if as != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
		if as.root != "" {
			cmd.SysProcAttr.Chroot, cmd.Dir = as.root, "/"
		}
	}
}

// enclose gives cmd namespaces of its own, where that is allowed: what it starts and mounts goes with it
// when it is killed, so that removing what it left behind meets no mount and no writer. Unsharing, unlike
// cloning, keeps its mounts from spreading to this system's.
func enclose(cmd *exec.Cmd) {
	namespaces := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	trial := exec.Command("true")
	trial.SysProcAttr = namespaces
	if trial.Run() == nil {
		cmd.SysProcAttr = namespaces
	}
}

var starter struct {
	once sync.Once
	jobs chan func()
}

// startBound starts cmd from a thread that lives as long as this process: the death signal follows the
// thread that started the child.
func startBound(cmd *exec.Cmd) error {
	starter.once.Do(func() {
		starter.jobs = make(chan func())
		go func() {
			runtime.LockOSThread()
			for job := range starter.jobs {
				job()
			}
		}()
	})
	done := make(chan error)
	starter.jobs <- func() { done <- cmd.Start() }
	return <-done
}

// killTree kills cmd and all its descendants and waits until none is left. They are more than the process
// group, since PostgreSQL's backends have sessions of their own; and a backend that lived on could still
// commit, and would keep the server from starting again.
func killTree(cmd *exec.Cmd, ended <-chan struct{}) {
	root := cmd.Process.Pid
	_ = syscall.Kill(root, syscall.SIGSTOP) // from here on it starts no further process
	tree := descendants(root)
	_ = syscall.Kill(root, syscall.SIGKILL)
	for _, pid := range tree {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-ended
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if !anyAlive(tree) {
			return
		}
	}
}

// descendants are the processes that root started, directly or not.
func descendants(root int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	children := make(map[int][]int)
	for _, stat := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err != nil {
			continue
		}
		if _, parent, ok := processState(pid); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	found := []int{root}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found[1:]
}

func anyAlive(pids []int) bool {
	for _, pid := range pids {
		if state, _, ok := processState(pid); ok && state != 'Z' { // a zombie has let go of everything
			return true
		}
	}
	return false
}

// processState reads a process's state and parent, which follow its name in parentheses.
func processState(pid int) (state byte, parent int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	_, err = fmt.Sscanf(string(text[bytes.LastIndexByte(text, ')')+1:]), " %c %d", &state, &parent)
	return state, parent, err == nil
}

// processorTime is what the process and its descendants have used, those included that have ended.
func (p *process) processorTime() (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alive() {
		return 0, errors.New("the server does not run")
	}
	var ticks int64
	for _, pid := range append(descendants(p.cmd.Process.Pid), p.cmd.Process.Pid) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended meanwhile
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third on: the state
		for _, field := range fields[11:15] {                                     // utime, stime, cutime, cstime
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, err
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / ticksPerSecond), nil
}

// ticksPerSecond is the unit of /proc/PID/stat: USER_HZ, which is 100 on every Linux that Go knows.
const ticksPerSecond = 100

// lockFile waits until this process has the file to itself.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
