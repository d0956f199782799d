package cli

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	_ "modernc.org/sqlite"             // driver "sqlite"

	"github.com/firsttime-go/firsttime/tests/servers"
)

// open opens the database of a script beside the command.
func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	driver := "mysql"
	switch scheme, path, _ := strings.Cut(dsn, ":"); scheme {
	case "sqlite":
		driver, dsn = scheme, "file:"+path+"?_pragma=busy_timeout(10000)&_txlock=immediate"
	case "postgres":
		driver = "pgx"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func command(t *testing.T, dsn string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), "FIRSTTIME_DB="+dsn)
	return cmd
}

func mustRun(t *testing.T, dsn string, args ...string) {
	t.Helper()
	if output, err := command(t, dsn, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, output)
	}
}

// fill doubles what is in the table until there are 1<<doublings keys. Copies are past their retention.
func fill(t *testing.T, db *sql.DB, doublings int) {
	t.Helper()
	for n := range doublings {
		_, err := db.ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO firsttime_keys
	(scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, confirmed_at, expires_at)
SELECT scope, CONCAT(message_id, '-%d'), state, claimed_by, attempts, recorded_at, leased_until, confirmed_at, recorded_at
FROM firsttime_keys`, n))
		if err != nil {
			t.Fatal(err)
		}
	}
}

func countKeys(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM firsttime_keys").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

var deletedLine = regexp.MustCompile(`(?m)^(\d+) keys? deleted in \S+$`)

// Interrupted half way, a purge says what it has deleted: it is what is gone. It exits with 130; one that was told
// to stay was told to end, and exits with 0.
func TestAnInterruptedPurgeReportsWhatItDeleted(t *testing.T) {
	const doublings, keys = 13, 1 << 13
	for _, d := range databases() {
		for name, test := range map[string]struct {
			args   []string
			signal os.Signal
			code   int
		}{
			"once":             {nil, os.Interrupt, 130},
			"once, by SIGTERM": {nil, syscall.SIGTERM, 130},
			"staying":          {[]string{"--every", "1h"}, os.Interrupt, 0},
		} {
			t.Run(d.name+" "+name, func(t *testing.T) {
				t.Parallel()
				dsn := d.dsn(t)
				mustRun(t, dsn, "migrate", "up")
				mustRun(t, dsn, "confirm", "--create", "seed")
				db := open(t, dsn)
				fill(t, db, doublings)

				// After the first batch it pauses for a time in which the signal finds it.
				cmd := command(t, dsn, append([]string{"purge", "--share", "0.0001"}, test.args...)...)
				var stdout, stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				for deadline := time.Now().Add(30 * time.Second); countKeys(t, db) == keys; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						_ = cmd.Process.Kill()
						t.Fatalf("it deletes nothing: %s", stderr.String())
					}
				}
				if err := cmd.Process.Signal(test.signal); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); code != test.code {
					t.Errorf("exit %d, want %d", code, test.code)
				}
				reported := deletedLine.FindStringSubmatch(stdout.String())
				if reported == nil {
					t.Fatalf("no report: %s%s", stdout.String(), stderr.String())
				}
				deleted, left := keys-countKeys(t, db), countKeys(t, db)
				if reported[1] != strconv.Itoa(deleted) || deleted == 0 || left < 2 {
					t.Errorf("%s reported, %d deleted, %d left", reported[1], deleted, left)
				}
				if want := map[int]string{130: "firsttime: interrupted\n"}[test.code]; stderr.String() != want {
					t.Errorf("stderr %q, want %q", stderr.String(), want)
				}
			})
		}
	}
}

// A signal that comes while the key is claimed has no command yet that it could be passed on to: none is started, and
// the key is free.
func TestAnExecThatIsInterruptedBeforeItsCommandStartsDoesNotStartIt(t *testing.T) {
	dsn := servers.Shared(t, servers.Postgres).Database(t)
	mustRun(t, dsn, "migrate", "up")
	db := open(t, dsn)
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback() //nolint:errcheck // it is rolled back below
			if _, err := tx.Exec("LOCK TABLE firsttime_keys IN EXCLUSIVE MODE"); err != nil {
				t.Fatal(err)
			}
			cmd := command(t, dsn, "exec", "--key", "K", "--", "echo", "started")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			waiting := func() (n int) {
				t.Helper()
				if err := db.QueryRow("SELECT COUNT(*) FROM pg_locks WHERE relation = 'firsttime_keys'::regclass AND NOT granted").Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			for deadline := time.Now().Add(30 * time.Second); waiting() == 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					_ = cmd.Process.Kill()
					t.Fatalf("it does not claim: %s", stderr.String())
				}
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond) // nothing shows that the signal has arrived
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 130 || stdout.String() != "" || stderr.String() != "firsttime: interrupted\n" {
				t.Errorf("exit %d: %s%s", code, stdout.String(), stderr.String())
			}
			if n := countKeys(t, db); n != 0 {
				t.Errorf("%d keys are left, want none", n)
			}
		})
	}
}

func mustExec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
