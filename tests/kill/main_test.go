// Package kill kills the processes of a service, its broker and its database while they work, and counts
// what was done.
package kill

import (
	"flag"
	"fmt"
	"os"
	"sync"
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
	if err := table.write(os.Getenv("FIRSTTIME_TEST_TABLE")); err != nil {
		panic(err)
	}
	if err := proof.Write(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// table collects the results of the runs.
var table results

type results struct {
	mu   sync.Mutex
	rows []result
}

type result struct {
	run                               run
	messages, kills, restarts         int
	charges, missing, double, deadEnd int
}

func (r *results) add(row result) {
	if !row.run.outside {
		proof.Add(proof.Row{
			Fault: "workers killed by SIGKILL; restarted meanwhile: " + string(row.run.fault), Database: row.run.kind,
			Runs: 1, Effects: *orders, Lost: row.missing, Doubled: row.double,
			Command: fmt.Sprintf("go test ./tests/kill -run Orders -orders=%d", *orders),
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, row)
}

// write writes the results as a table of Markdown, if a file is wanted.
func (r *results) write(path string) error {
	if path == "" || len(r.rows) == 0 {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	fmt.Fprintln(f, "| database | charge | restarted meanwhile | orders | messages | workers killed | charges | missing | double | dead letters |")
	fmt.Fprintln(f, "|---|---|---|---|---|---|---|---|---|---|")
	for _, row := range r.rows {
		fmt.Fprintf(f, "| %s | %s | %s | %d | %d | %d | %d | %d | %d | %d |\n", row.run.kind, row.run.where(), row.run.fault,
			*orders, row.messages, row.kills, row.charges, row.missing, row.double, row.deadEnd)
	}
	return f.Close()
}
