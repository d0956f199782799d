// Package kill kills the processes of a service, its broker and its database while they work, and counts
// what was done.
package kill

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/firsttime-go/firsttime/tests/proof"
	"github.com/firsttime-go/firsttime/tests/servers"
)

var orders = flag.Int("orders", 500, "orders of every run")

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "firsttime-kill-")
	if err != nil {
		panic(err)
	}
	built.dir = dir
	code := m.Run()
	servers.Cleanup()
	os.RemoveAll(dir)
	if err := proof.Write(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

type result struct {
	run                               run
	messages, kills, restarts         int
	charges, missing, double, deadEnd int
}

// record adds the result to the proof. A charge outside of the transaction is none: it shows what is not promised.
func (r result) record() {
	if r.run.outside {
		return
	}
	fault := "workers killed by SIGKILL every 300 ms"
	if r.run.fault != nothing {
		fault += "; restarted meanwhile: " + string(r.run.fault)
	}
	proof.Add(proof.Row{
		Fault: fault, Database: r.run.kind, Runs: 1, Effects: *orders, Lost: r.missing, Doubled: r.double,
		Figures: map[string]int{"messages": r.messages, "kills": r.kills, "dead letters": r.deadEnd},
		Command: fmt.Sprintf("go test ./tests/kill -run Orders -orders=%d", *orders),
	})
}
