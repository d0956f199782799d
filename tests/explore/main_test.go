package explore

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

var faults = flag.Int("explore.faults", defaultFaults, "faults in every schedule, at most")

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := explored.write(os.Getenv("FIRSTTIME_TEST_TABLE")); err != nil {
		panic(err)
	}
	os.Exit(code)
}

var explored results

// results collects what the explorations have found.
type results struct {
	mu   sync.Mutex
	rows []string
}

func (r *results) add(e *explorer, counterexamples int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, fmt.Sprintf("| %s | %d | %d | %d | %d |",
		e.scenario.name, e.faults, e.schedules, len(e.visited), counterexamples))
}

// write appends the results to a file as a table of Markdown, if one is wanted.
func (r *results) write(path string) error {
	if path == "" || len(r.rows) == 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	fmt.Fprintln(f, "\n| all interleavings of | faults | schedules | states | counterexamples |")
	fmt.Fprintln(f, "|---|---|---|---|---|")
	slices.Sort(r.rows)
	for _, row := range r.rows {
		fmt.Fprintln(f, row)
	}
	return f.Close()
}
