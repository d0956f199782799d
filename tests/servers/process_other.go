//go:build !linux

package servers

import (
	"errors"
	"os/exec"
	"time"
)

func isolate(*exec.Cmd, *account) {}

func enclose(*exec.Cmd) {}

func startBound(cmd *exec.Cmd) error { return cmd.Start() }

func killTree(cmd *exec.Cmd, ended <-chan struct{}) {
	_ = cmd.Process.Kill()
	<-ended
}

func (p *process) processorTime() (time.Duration, error) {
	return 0, errors.New("processor time is measured on Linux only")
}

// lockFile does nothing: what it guards exists on Linux alone.
func lockFile(string) (unlock func(), err error) { return func() {}, nil }
