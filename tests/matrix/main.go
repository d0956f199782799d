// Command matrix runs the conformance and concurrency tests on every version and driver that is supported, and
// prints what passed where. Its own tests are those of SQLite with mattn/go-sqlite3, which the root's go.mod must
// not carry.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
)

// run is one call of go test.
type run struct {
	dir  string
	env  []string
	args []string
}

var runs = []run{
	// What this system has: PostgreSQL, MariaDB, and SQLite of modernc; MySQL of Debian's sid.
	{dir: "../..", args: []string{"-run", "^(TestConformance|TestEveryKeyHasOneFirst)$", "./tests"}},
	// The versions after those.
	{
		dir:  "../..",
		env:  []string{"FIRSTTIME_TEST_POSTGRES_VERSION=18", "FIRSTTIME_TEST_MARIADB_VERSION=11.8"},
		args: []string{"-run", "^(TestConformance|TestEveryKeyHasOneFirst|TestARolledBack.*|TestAClaim.*|TestAnOvertaken.*|TestLongLeases.*|TestInTx.*)$/^(PostgreSQL|MariaDB)", "./tests"},
	},
	{dir: ".", args: []string{"./..."}},
}

func main() {
	var t table
	failed := false
	for _, r := range runs {
		if err := r.into(&t); err != nil {
			fmt.Fprintln(os.Stderr, "matrix:", err)
			failed = true
		}
	}
	fmt.Print(t.String())
	if failed {
		os.Exit(1)
	}
}

// into runs the tests and adds what they say to t.
func (r run) into(t *table) error {
	args := append([]string{"test", "-json", "-count=1", "-parallel=16", "-timeout=20m"}, r.args...)
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = r.dir, append(os.Environ(), r.env...), os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := t.read(events, os.Stdout); err != nil {
		_, _ = io.Copy(io.Discard, events)
		return err
	}
	return cmd.Wait()
}
