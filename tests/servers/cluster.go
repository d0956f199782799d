package servers

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Cluster is three private servers that form one database to which each of them may write. Each is at the end of a
// cable of its own, which can be cut: clients reach it all the same, the other nodes do not.
//
// Making the network takes root, on Linux.
type Cluster struct {
	Nodes []*Server

	network *network
	// members is a query of a node for the number of full members that it knows of, itself included.
	members string
	// join brings a server that has just been started, or that has been cut off, into the cluster.
	join func(ctx context.Context, node *Server) error
}

const clusterSize = 3

// formPatience is how long the nodes may take to agree on who they are.
const formPatience = 2 * time.Minute

// startCluster starts the nodes one after the other: the first one forms the cluster. node returns how to start
// one of them.
func startCluster(ctx context.Context, name string, c *Cluster, node func(ctx context.Context, dir string, i int) (*Server, error)) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "firsttime-"+name+"-")
	if err != nil {
		return nil, err
	}
	release := func() {}
	err = os.Chmod(dir, 0o755) // the servers may run as another user
	if err == nil {
		c.network, err = newNetwork(ctx, clusterSize)
	}
	if err == nil {
		release = c.network.close
		err = c.form(ctx, dir, node)
	}
	if err != nil {
		for _, s := range c.Nodes {
			s.private.kill()
		}
		release()
		os.RemoveAll(dir)
		return nil, fmt.Errorf("no cluster of %s could be started: %w", name, err)
	}
	last := c.Nodes[clusterSize-1]
	last.private.command.release = func() { release(); os.RemoveAll(dir) }
	shared.mu.Lock()
	shared.running = append(shared.running, c.Nodes...)
	shared.mu.Unlock()
	return c, Report(c.Nodes[0].version+" "+name, "private cluster")
}

func (c *Cluster) form(ctx context.Context, dir string, node func(ctx context.Context, dir string, i int) (*Server, error)) error {
	for i := range clusterSize {
		own := filepath.Join(dir, fmt.Sprintf("node%d", i+1))
		if err := os.Mkdir(own, 0o755); err != nil {
			return err
		}
		s, err := node(ctx, own, i)
		if err != nil {
			return err
		}
		s.dir = own
		s.private.log = filepath.Join(own, "server.log")
		s.private.command.in = c.network.nodes[i]
		c.Nodes = append(c.Nodes, s)
		if err := c.enter(ctx, i, i+1); err != nil {
			return err
		}
	}
	return nil
}

// enter starts a node and waits until it and the others see that they are as many as they should be.
func (c *Cluster) enter(ctx context.Context, node, members int) error {
	if err := c.Nodes[node].Restart(ctx); err != nil {
		return err
	}
	return c.admit(ctx, node, members)
}

// admit brings a node that runs into the cluster, and waits until all see that.
func (c *Cluster) admit(ctx context.Context, node, members int) error {
	err := c.join(ctx, c.Nodes[node])
	if err == nil {
		err = c.Await(ctx, members)
	}
	if err != nil {
		return fmt.Errorf("%w; the log of node %d ends with:\n%s", err, node+1, c.Nodes[node].private.logTail())
	}
	return nil
}

// Rejoin starts a node that was killed, and waits until all nodes are full members.
func (c *Cluster) Rejoin(ctx context.Context, node int) error {
	return c.enter(ctx, node, len(c.Nodes))
}

// Cut cuts the cable of a node: it is alone, and the others have the majority.
func (c *Cluster) Cut(ctx context.Context, node int) error { return c.network.cut(ctx, node) }

// Mend mends the cable of a node and waits until all nodes are full members.
func (c *Cluster) Mend(ctx context.Context, node int) error {
	if err := c.network.mend(ctx, node); err != nil {
		return err
	}
	return c.admit(ctx, node, len(c.Nodes))
}

// Await waits until as many nodes of the cluster say that it has as many full members.
func (c *Cluster) Await(ctx context.Context, members int) error {
	ctx, cancel := context.WithTimeout(ctx, formPatience)
	defer cancel()
	for {
		agreed, seen := 0, ""
		for i := range c.Nodes {
			n, err := c.Members(ctx, i)
			if n == members {
				agreed++
			}
			seen += fmt.Sprintf("; node %d: %d members, %v", i+1, n, err)
		}
		if agreed >= members {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster does not have %d members after %v%s", members, formPatience, seen)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Members is the number of full members that a node knows of: fewer than half of all say that it can do nothing.
func (c *Cluster) Members(ctx context.Context, node int) (n int, err error) {
	s := c.Nodes[node]
	if s.stopped() {
		return 0, errors.New("it is not running")
	}
	db, err := sql.Open(s.engine.driver, s.admin)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = db.QueryRowContext(ctx, c.members).Scan(&n)
	return n, err
}

// Database creates an empty database and returns its DSN on each node. It goes with the cluster.
func (c *Cluster) Database(tb testing.TB) []string {
	tb.Helper()
	name := "firsttime_test_" + strings.ToLower(rand.Text())
	if err := c.Nodes[0].exec("CREATE DATABASE " + name); err != nil {
		tb.Fatal(err)
	}
	dsns := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		dsn, err := s.engine.database(s.admin, name)
		if err != nil {
			tb.Fatal(err)
		}
		dsns[i] = dsn
	}
	return dsns
}

// nodeOf is a server that clients reach by its socket.
func nodeOf(kind Kind, socket string, command command) *Server {
	return &Server{kind: kind, engine: kind.engine(), admin: "root@unix(" + socket + ")/", private: &process{command: command}}
}
