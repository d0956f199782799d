//go:build !linux

package servers

import "os/exec"

func isolate(*exec.Cmd, *account) {}

func enclose(*exec.Cmd) {}

func startBound(cmd *exec.Cmd) error { return cmd.Start() }

func killTree(cmd *exec.Cmd, ended <-chan struct{}) {
	_ = cmd.Process.Kill()
	<-ended
}

// lockFile does nothing: what it guards exists on Linux alone.
func lockFile(string) (unlock func(), err error) { return func() {}, nil }
