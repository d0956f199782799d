package histories

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/firsttime-go/firsttime/tests/servers"
)

var wanted = flag.Int("histories", 500, "histories on every database")

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	servers.Cleanup()
	if err := table.write(os.Getenv("FIRSTTIME_TEST_TABLE")); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// table collects the results of the databases.
var table results

type results struct {
	mu   sync.Mutex
	rows []string
}

func (r *results) add(name string, c *census) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d |\n", name, c.histories, c.operations(),
		c.count(claims, takenOver), c.lost(), c.void, c.illegal))
}

// write appends the results as a table of Markdown, if a file is wanted.
func (r *results) write(path string) error {
	if path == "" || len(r.rows) == 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	fmt.Fprint(f, "\n| random histories on | histories | operations | takeovers | claims lost | void | illegal |\n|---|---|---|---|---|---|---|\n")
	for _, row := range r.rows {
		fmt.Fprint(f, row)
	}
	return f.Close()
}
