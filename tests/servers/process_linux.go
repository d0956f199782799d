package servers

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// isolate gives cmd a process group of its own and lets the kernel end it when this process ends, however
// that happens.
func isolate(cmd *exec.Cmd, as *account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if as != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
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

func killGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

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
