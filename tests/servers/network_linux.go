package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// namespace is a network namespace: a thread that lives in it, from which processes are started in it. It
// has no name and ends with its thread, so that nothing of it stays when this process is killed.
type namespace struct {
	jobs chan func()
	tid  int
}

func newNamespace() (*namespace, error) {
	n := &namespace{jobs: make(chan func())}
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
			entered <- fmt.Errorf("a network namespace: %w", err)
			return
		}
		n.tid = syscall.Gettid()
		entered <- nil
		for job := range n.jobs {
			job()
		}
	}()
	return n, <-entered
}

// start starts cmd in the namespace, bound to the life of its thread.
func (n *namespace) start(cmd *exec.Cmd) error {
	started := make(chan error)
	n.jobs <- func() { started <- cmd.Start() }
	return <-started
}

// ip runs Debian's ip in the namespace.
func (n *namespace) ip(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "ip", args...)
	done := make(chan error)
	n.jobs <- func() {
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%v: %w: %s", cmd, err, tail(out))
		}
		done <- err
	}
	return <-done
}

// close ends the namespace, with the processes that were started in it.
func (n *namespace) close() { close(n.jobs) }

// network is a switch with one cable to each of its nodes, apart from the machine's own network: nothing
// but the nodes can be reached in it, so their addresses and ports may be fixed. Clients come in by Unix
// sockets, which a cut cable leaves alone.
type network struct {
	hub   *namespace
	nodes []*namespace
}

func newNetwork(ctx context.Context, size int) (*network, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("run the tests as root: only root can make a network to cut")
	}
	if _, err := program(ctx, func() (string, error) { return find("ip") }, "iproute2"); err != nil {
		return nil, err
	}
	hub, err := newNamespace()
	if err != nil {
		return nil, err
	}
	w := &network{hub: hub}
	if err := w.lay(ctx, size); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *network) lay(ctx context.Context, size int) error {
	err := errors.Join(
		w.hub.ip(ctx, "link", "add", "switch", "type", "bridge"),
		w.hub.ip(ctx, "link", "set", "switch", "up"),
	)
	for i := 0; i < size && err == nil; i++ {
		var node *namespace
		if node, err = newNamespace(); err != nil {
			break
		}
		w.nodes = append(w.nodes, node)
		err = errors.Join(
			w.hub.ip(ctx, "link", "add", cable(i), "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(node.tid)),
			w.hub.ip(ctx, "link", "set", cable(i), "master", "switch", "up"),
			node.ip(ctx, "address", "add", w.address(i)+"/24", "dev", "eth0"),
			node.ip(ctx, "link", "set", "eth0", "up"),
			node.ip(ctx, "link", "set", "lo", "up"),
		)
	}
	return err
}

func cable(node int) string { return fmt.Sprintf("cable%d", node) }

func (w *network) address(node int) string { return fmt.Sprintf("10.0.0.%d", node+1) }

// cut takes a node off the switch: what is sent to it and by it vanishes.
func (w *network) cut(ctx context.Context, node int) error {
	return w.hub.ip(ctx, "link", "set", cable(node), "nomaster")
}

func (w *network) mend(ctx context.Context, node int) error {
	return w.hub.ip(ctx, "link", "set", cable(node), "master", "switch")
}

func (w *network) close() {
	for _, node := range w.nodes {
		node.close()
	}
	w.hub.close()
}
