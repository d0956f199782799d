//go:build !linux

package servers

import (
	"context"
	"errors"
	"os/exec"
)

type namespace struct{}

func (*namespace) start(cmd *exec.Cmd) error { return cmd.Start() }

type network struct{ nodes []*namespace }

func newNetwork(context.Context, int) (*network, error) {
	return nil, errors.New("run the tests on Linux: a network to cut is made of its namespaces")
}

func (*network) address(int) string { return "" }

func (*network) cut(context.Context, int) error { return nil }

func (*network) mend(context.Context, int) error { return nil }

func (*network) close() {}
