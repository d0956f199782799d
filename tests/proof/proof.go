// Package proof gathers what the tests under faults count, for the table in docs/reliability.md. A package of
// tests adds its rows while it runs and writes them in its TestMain.
package proof

import (
	"fmt"
	"os"
	"sync"
)

// variable names the file that rows are appended to; without it nothing is written.
const variable = "FIRSTTIME_TEST_PROOF"

// Row is what was counted under one fault on one database.
type Row struct {
	Fault    string
	Database string // with its version, where that matters
	Runs     int
	Effects  int // that had to happen
	Lost     int // of them
	Doubled  int
	Command  string // prints the row again
}

var table struct {
	mu   sync.Mutex
	rows []Row
}

// Add adds the row, or its counts to those of an earlier row on the same fault, database and command. It is
// safe for concurrent use.
func Add(row Row) {
	table.mu.Lock()
	defer table.mu.Unlock()
	for i := range table.rows {
		known := &table.rows[i]
		if known.Fault == row.Fault && known.Database == row.Database && known.Command == row.Command {
			known.Runs += row.Runs
			known.Effects += row.Effects
			known.Lost += row.Lost
			known.Doubled += row.Doubled
			return
		}
	}
	table.rows = append(table.rows, row)
}

// Write appends the rows, as lines of a table of Markdown, to the file that FIRSTTIME_TEST_PROOF names.
func Write() error {
	path := os.Getenv(variable)
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	table.mu.Lock()
	defer table.mu.Unlock()
	for _, row := range table.rows {
		_, err = fmt.Fprintf(f, "| %s | %s | %d | %d | %d | %d | `%s` |\n",
			row.Fault, row.Database, row.Runs, row.Effects, row.Lost, row.Doubled, row.Command)
		if err != nil {
			break
		}
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
