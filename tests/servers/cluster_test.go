//go:build proof

package servers

import (
	"context"
	"testing"
	"time"
)

// A cluster that has lost a node goes on, a node that is cut off does not, and both come back.
func TestAClusterLosesNodesAndGetsThemBack(t *testing.T) {
	for name, start := range map[string]func(context.Context) (*Cluster, error){"Galera": StartGalera, "Group Replication": StartGroupReplication} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			took := func(what string) {
				t.Logf("%s: %v", what, time.Since(begin).Round(10*time.Millisecond))
				begin = time.Now()
			}
			c, err := start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			took("start")
			if err := c.Nodes[1].Kill(); err != nil {
				t.Fatal(err)
			}
			if err := c.Await(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			took("two of them")
			if err := c.Rejoin(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			took("rejoin")
			if err := c.Cut(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			if err := c.Await(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			took("two of them")
			poll(t, "the node that was cut off to notice", func() bool {
				n, err := c.Members(t.Context(), 2)
				return err == nil && n <= 1
			})
			took("noticed")
			if err := c.Mend(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			took("mended")
		})
	}
}

func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
