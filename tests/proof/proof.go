// Package proof gathers what tests under faults count, for the table in docs/reliability.md. A package of tests
// adds its rows while it runs and writes them in its TestMain.
package proof

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// variable names the file with the table; without it nothing is written.
const variable = "FIRSTTIME_TEST_TABLE"

// Row is what was counted under one fault on one database.
type Row struct {
	Fault    string
	Database string // with its version, where that matters
	Runs     int
	Effects  int // that had to happen
	Lost     int // of them
	Doubled  int
	Figures  map[string]int // what else was counted, by what it is: "kills"
	Command  string         // prints the row again
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
			for what, n := range row.Figures {
				known.Figures[what] += n
			}
			return
		}
	}
	row.Figures = maps.Clone(row.Figures)
	if row.Figures == nil {
		row.Figures = map[string]int{}
	}
	table.rows = append(table.rows, row)
}

// Write adds the rows, in the order of their faults and databases, to the table of Markdown in the file that
// FIRSTTIME_TEST_TABLE names. It makes the file if there is none, and aligns the whole. Processes that write to
// one file do so one after the other.
func Write() error {
	path := os.Getenv(variable)
	table.mu.Lock()
	defer table.mu.Unlock()
	if path == "" || len(table.rows) == 0 {
		return nil
	}
	written, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	lines := cells(string(written))
	if len(lines) == 0 {
		lines = [][]string{{"fault", "database", "runs", "effects", "lost", "doubled", "also counted", "command"}}
	}
	slices.SortStableFunc(table.rows, func(a, b Row) int {
		return strings.Compare(a.Fault+"\x00"+a.Database, b.Fault+"\x00"+b.Database)
	})
	for _, row := range table.rows {
		lines = append(lines, row.cells())
	}
	return os.WriteFile(path, []byte(aligned(lines)), 0o644)
}

func (r Row) cells() []string {
	var figures []string
	for _, what := range slices.Sorted(maps.Keys(r.Figures)) {
		figures = append(figures, fmt.Sprintf("%d %s", r.Figures[what], what))
	}
	return []string{
		r.Fault, r.Database, strconv.Itoa(r.Runs), strconv.Itoa(r.Effects), strconv.Itoa(r.Lost), strconv.Itoa(r.Doubled),
		strings.Join(figures, ", "), "`" + r.Command + "`",
	}
}

// cells reads a table that was written before, without the line below its head.
func cells(text string) (lines [][]string) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		if strings.Trim(fields[0], "-") != "" {
			lines = append(lines, fields)
		}
	}
	return lines
}

// aligned is a table of Markdown with columns of one width, for people who read it in a terminal.
func aligned(lines [][]string) string {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	for n, line := range lines {
		for i, cell := range line {
			fmt.Fprintf(&b, "| %-*s ", widths[i], cell)
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for _, width := range widths {
			b.WriteString("|" + strings.Repeat("-", width+2))
		}
		b.WriteString("|\n")
	}
	return b.String()
}
