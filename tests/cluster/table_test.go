//go:build proof

package cluster

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// table collects the results of the runs.
var table results

type results struct {
	mu   sync.Mutex
	rows []result
}

// result is what became of the orders while one fault happened to one database.
type result struct {
	fault, database string
	runs            int // of the fault
	orders          int
	lost, doubled   int
}

func (r *results) add(row result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, row)
}

// append adds the results to a file, as a table of Markdown, if a file is wanted.
func (r *results) append(path string) error {
	if path == "" || len(r.rows) == 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	text := "\n| fault | database | times | orders | lost | doubled |\n|---|---|---|---|---|---|\n"
	for _, row := range r.rows {
		text += fmt.Sprintf("| %s | %s | %d | %d | %d | %d |\n", row.fault, row.database, row.runs, row.orders, row.lost, row.doubled)
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
