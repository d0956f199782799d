package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// row is a database in a version, and the driver that reached it.
type row struct{ database, driver string }

type counts struct{ passed, failed, skipped int }

// table counts the tests of each row.
type table struct{ rows map[row]*counts }

// event is what go test -json prints, as far as it matters.
type event struct {
	Action, Test, Key, Value, Output string
}

// read adds the tests that go test -json tells of, and prints what the failed ones say. A test belongs to the row
// that it, or the nearest test above it, names by its attributes; tests with subtests are not counted.
func (t *table) read(events io.Reader, out io.Writer) error {
	rows := make(map[string]row)
	parents := make(map[string]bool)
	results := make(map[string]string)
	said := make(map[string]*strings.Builder)
	for d := json.NewDecoder(events); ; {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		switch e.Action {
		case "attr":
			r := rows[e.Test]
			switch e.Key {
			case "database":
				r.database = e.Value
			case "driver":
				r.driver = e.Value
			}
			rows[e.Test] = r
		case "run":
			parents[parent(e.Test)] = true
		case "output":
			if said[e.Test] == nil {
				said[e.Test] = new(strings.Builder)
			}
			said[e.Test].WriteString(e.Output)
		case "pass", "fail", "skip":
			results[e.Test] = e.Action
			if e.Action == "fail" && said[e.Test] != nil {
				fmt.Fprint(out, said[e.Test])
			}
		}
	}
	for test, result := range results {
		if test != "" && !parents[test] {
			t.count(rowOf(rows, test), result)
		}
	}
	return nil
}

func rowOf(rows map[string]row, test string) row {
	for ; test != ""; test = parent(test) {
		if r, ok := rows[test]; ok {
			return r
		}
	}
	return row{database: "(none)"}
}

// parent is the test that test is a subtest of, "" if it is none.
func parent(test string) string { return test[:max(0, strings.LastIndexByte(test, '/'))] }

func (t *table) count(r row, result string) {
	if t.rows == nil {
		t.rows = make(map[row]*counts)
	}
	c := t.rows[r]
	if c == nil {
		c = new(counts)
		t.rows[r] = c
	}
	switch result {
	case "pass":
		c.passed++
	case "fail":
		c.failed++
	case "skip":
		c.skipped++
	}
}

// lacks is an error that names the rows of want in which no test has passed, and those in which tests were skipped.
func (t *table) lacks(want []row) error {
	var lacks []error
	for _, w := range want {
		var sum counts
		for r, c := range t.rows {
			if r.driver == w.driver && (r.database == w.database || strings.HasPrefix(r.database, w.database+".")) {
				sum.passed += c.passed
				sum.skipped += c.skipped
			}
		}
		switch {
		case sum.passed == 0:
			lacks = append(lacks, fmt.Errorf("no test has passed on %s with %s", w.database, w.driver))
		case sum.skipped > 0:
			lacks = append(lacks, fmt.Errorf("%d tests were skipped on %s with %s", sum.skipped, w.database, w.driver))
		}
	}
	return errors.Join(lacks...)
}

func (t *table) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "database\tdriver\tpassed\tfailed\tskipped")
	var sorted []row
	for r := range t.rows {
		sorted = append(sorted, r)
	}
	slices.SortFunc(sorted, func(a, b row) int { return strings.Compare(a.database+"\n"+a.driver, b.database+"\n"+b.driver) })
	for _, r := range sorted {
		c := t.rows[r]
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\n", r.database, strings.TrimPrefix(r.driver, "github.com/"), c.passed, c.failed, c.skipped)
	}
	_ = w.Flush() // into memory
	return text.String()
}
