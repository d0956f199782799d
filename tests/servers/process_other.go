//go:build !linux

package servers

import "os/exec"

func isolate(*exec.Cmd, *account) {}

func startBound(cmd *exec.Cmd) error { return cmd.Start() }

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// lockFile does nothing: what it guards exists on Linux alone.
func lockFile(string) (unlock func(), err error) { return func() {}, nil }
