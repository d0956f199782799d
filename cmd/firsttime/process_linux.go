package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startBound starts a command that the kernel kills when this process dies: nobody would extend its lease
// any more, and the next call would run beside it.
func startBound(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the kernel means the thread that started it; it is never given back
	return cmd.Start()
}
