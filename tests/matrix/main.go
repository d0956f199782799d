// Command matrix runs the conformance and concurrency tests on every version and driver that is supported, and
// prints what passed where. It fails unless each of them had its tests, and all of them passed. Its own tests are
// those of SQLite with mattn/go-sqlite3, which the root's go.mod must not carry.
package main

import (
	"errors"
	"flag"
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
	want []row // what must have been tested; a version is given by its first numbers
}

const (
	pgx    = "github.com/jackc/pgx/v5/stdlib"
	pq     = "github.com/lib/pq"
	mysql  = "github.com/go-sql-driver/mysql"
	modern = "modernc.org/sqlite"
	mattn  = "github.com/mattn/go-sqlite3"
)

// tested is what `make test` runs as well, where the servers are those of this system.
var tested = run{
	dir:  "../..",
	env:  []string{"FIRSTTIME_TEST_POSTGRES_VERSION=15", "FIRSTTIME_TEST_MARIADB_VERSION=10.11", "FIRSTTIME_TEST_MYSQL_VERSION=9.7"},
	args: []string{"-run", "^(TestConformance|TestEveryKeyHasOneFirst)$", "./tests"},
	want: []row{{"PostgreSQL 15", pgx}, {"PostgreSQL 15", pq}, {"MariaDB 10.11", mysql}, {"MySQL 9.7", mysql}, {"SQLite 3", modern}},
}

// others are the later versions and the driver that needs a C compiler.
var others = []run{
	{
		dir:  "../..",
		env:  []string{"FIRSTTIME_TEST_POSTGRES_VERSION=18", "FIRSTTIME_TEST_MARIADB_VERSION=11.8"},
		args: []string{"-run", "^(TestConformance|TestEveryKeyHasOneFirst|TestARolledBack.*|TestAClaim.*|TestAnOvertaken.*|TestLongLeases.*|TestInTx.*)$/^(PostgreSQL|MariaDB)", "./tests"},
		want: []row{{"PostgreSQL 18", pgx}, {"PostgreSQL 18", pq}, {"MariaDB 11.8", mysql}},
	},
	{
		dir:  ".",
		args: []string{"./..."},
		want: []row{{"SQLite 3", mattn}},
	},
}

func main() {
	onlyOthers := flag.Bool("others", false, "leave out what make test runs")
	flag.Parse()
	runs := others
	if !*onlyOthers {
		runs = append([]run{tested}, others...)
	}
	var t table
	var failed []error
	for _, r := range runs {
		failed = append(failed, r.into(&t), t.lacks(r.want))
	}
	fmt.Print(t.String())
	if err := errors.Join(failed...); err != nil {
		fmt.Fprintf(os.Stderr, "matrix: %v\n", err)
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
