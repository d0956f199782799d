//go:build proof

package faults

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/firsttime-go/firsttime/tests/servers"
)

// The defaults are for `make test`; `make proof` takes more.
var (
	messages = flag.Int("messages", 400, "different messages of every load")
	runs     = flag.Int("runs", 1, "loads for every fault on every database")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Its driver prints every lost connection by default, and these tests lose many.
	if err := mysql.SetLogger(&mysql.NopLogger{}); err != nil {
		panic(err)
	}
	code := m.Run()
	servers.Cleanup()
	if err := table.write(os.Getenv("FIRSTTIME_TEST_TABLE")); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// outcome is what became of the effects of one run or of several.
type outcome struct{ runs, lost, doubled int }

// table collects the outcomes.
var table results

type results struct {
	mu   sync.Mutex
	rows []string
}

// prove runs a load under a fault as often as is asked for. Nothing may be lost, and nothing doubled.
func prove(t *testing.T, fault, database string, times int, run func(t *testing.T) outcome) {
	t.Helper()
	var sum outcome
	defer func() { table.add(fault, database, sum) }()
	for n := range times {
		t.Run(fmt.Sprintf("run %d", n+1), func(t *testing.T) {
			o := run(t)
			sum.runs++
			sum.lost += o.lost
			sum.doubled += o.doubled
		})
	}
	if sum.lost != 0 || sum.doubled != 0 {
		t.Errorf("%d effects were lost and %d doubled", sum.lost, sum.doubled)
	}
}

func (r *results) add(fault, database string, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, fmt.Sprintf("| %s | %s | %d | %d | %d |\n", fault, database, o.runs, o.lost, o.doubled))
}

// write appends the results to a table of Markdown, if a file is wanted.
func (r *results) write(path string) error {
	if path == "" || len(r.rows) == 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		fmt.Fprintln(f) // the end of another table
	}
	fmt.Fprintln(f, "| fault | database | runs | effects lost | effects doubled |")
	fmt.Fprintln(f, "|---|---|---|---|---|")
	for _, row := range r.rows {
		fmt.Fprint(f, row)
	}
	return f.Close()
}
