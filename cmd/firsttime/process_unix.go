//go:build unix

package main

import (
	"os"
	"syscall"
)

// passedOn are the signals that a command gets from exec.
var passedOn = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// signalOf is the signal that ended a process, 0 if none did.
func signalOf(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return int(status.Signal())
	}
	return 0
}
