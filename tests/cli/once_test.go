package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Of two that start at once, one runs; the other is told that the key is in progress, or confirmed already. On SQLite
// the database is not there yet, in every round.
func TestOfTwoExecsAtOnceOneRuns(t *testing.T) {
	const rounds = 60
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dsn := d.dsn(t)
			if d.name != "SQLite" {
				mustRun(t, dsn, "migrate", "up")
			}
			file := filepath.Join(t.TempDir(), "runs")
			told := map[string]int{}
			for n := range rounds {
				key := fmt.Sprintf("key-%d", n)
				if d.name == "SQLite" {
					dsn = fmt.Sprintf("sqlite:%s-%d.db", file, n)
				}
				two := make([]running, 2)
				for i := range two {
					two[i].start(t, dsn, "exec", "--key", key, "--", "sh", "-c", "echo "+key+" >>"+file+"; sleep 0.03; echo ran")
				}
				ran := 0
				for i := range two {
					code, stdout, stderr := two[i].wait()
					switch {
					case code == 0 && stdout == "ran\n" && stderr == "":
						ran++
					case code == 3 && stdout == "" && strings.HasPrefix(stderr, "firsttime: key "+key+" is in progress: "):
						told["in progress"]++
					case code == 0 && stdout == "" && stderr == "firsttime: key "+key+" is confirmed: the command does not run again\n":
						told["confirmed"]++
					default:
						t.Errorf("%s: exit %d: %s%s", key, code, stdout, stderr)
					}
				}
				if ran != 1 {
					t.Errorf("%s: %d ran", key, ran)
				}
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if lines := strings.Fields(string(text)); len(lines) != rounds {
				t.Errorf("%d lines of %d keys: %v", len(lines), rounds, lines)
			}
			t.Logf("%d rounds: one ran in each, the others were told: %v", rounds, told)
		})
	}
}

// running is a running command and what it says.
type running struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

func (r *running) start(t *testing.T, dsn string, args ...string) {
	t.Helper()
	r.cmd = command(t, dsn, args...)
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

func (r *running) wait() (code int, stdout, stderr string) {
	_ = r.cmd.Wait() // its code says how it ended
	return r.cmd.ProcessState.ExitCode(), r.stdout.String(), r.stderr.String()
}
