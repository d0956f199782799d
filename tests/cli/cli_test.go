// Package cli runs the command as users do: each script in testdata once on every database.
package cli

import (
	"flag"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/firsttime-go/firsttime/tests/servers"
)

var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "firsttime-cli-")
	if err != nil {
		panic(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // another user is to run the command
		panic(err)
	}
	binary = filepath.Join(dir, "firsttime")
	cmd := exec.Command("go", "build", "-o", binary, "../../cmd/firsttime")
	if output, err := cmd.CombinedOutput(); err != nil {
		panic(string(output))
	}
	code := m.Run()
	servers.Cleanup()
	os.RemoveAll(dir)
	os.Exit(code)
}

// database is where a script runs: FIRSTTIME_DB leads to a new one.
type database struct {
	name string
	dsn  func(t *testing.T) string
}

func databases() []database {
	return []database{
		{"SQLite", func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "keys.db") }},
		{"PostgreSQL", func(t *testing.T) string { return servers.Shared(t, servers.Postgres).Database(t) }},
		{"MariaDB", func(t *testing.T) string { return servers.Shared(t, servers.MariaDB).Database(t) }},
	}
}

func TestScripts(t *testing.T) {
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			scripts, err := filepath.Glob("testdata/*.txtar")
			if err != nil || len(scripts) == 0 {
				t.Fatal("no scripts", err)
			}
			for _, script := range scripts {
				t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
					t.Parallel()
					dsn := d.dsn(t)
					testscript.Run(t, testscript.Params{
						Files:               []string{script},
						RequireExplicitExec: true,
						Setup: func(env *testscript.Env) error {
							env.Setenv("FIRSTTIME_DB", dsn)
							env.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+env.Getenv("PATH"))
							env.Setenv("DIALECT", map[string]string{"SQLite": "sqlite", "PostgreSQL": "postgres", "MariaDB": "mysql"}[d.name])
							return nil
						},
						Condition: func(condition string) (bool, error) { return strings.EqualFold(condition, d.name), nil },
						Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
							"exit": exit, "waitfor": waitFor, "waitfile": waitFile, "terminate": terminate,
						},
					})
				})
			}
		})
	}
}

// exit N COMMAND... runs a command and wants its exit code to be N. Its output is for stdout and stderr.
func exit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit N COMMAND [ARGUMENT...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s: exit %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// waitFor STATE [FLAG...] KEY waits until firsttime shows the key in a state.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: waitfor STATE [FLAG...] KEY")
	}
	wait(ts, "key in state "+args[0], func() bool {
		err := ts.Exec("firsttime", append([]string{"--json", "show"}, args[1:]...)...)
		return err == nil && strings.Contains(ts.ReadFile("stdout"), `"state":"`+args[0]+`"`)
	})
}

// waitFile FILE waits until a file is there.
func waitFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitfile FILE")
	}
	wait(ts, args[0], func() bool {
		info, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil && info.Size() > 0
	})
}

// terminate sends SIGTERM to the commands in the background.
func terminate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: terminate")
	}
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	}
}

func wait(ts *testscript.TestScript, what string, done func() bool) {
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("no %s", what)
		}
	}
}

// A wrong DSN is one line, with what to do, and without the password.
func TestWrongDatabases(t *testing.T) {
	offered, err := url.Parse(servers.Shared(t, servers.Postgres).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	offered.User = url.UserPassword("nobody", "hunter2")
	for name, test := range map[string]struct {
		dsn  string
		code int
		want string
	}{
		"none":            {"", 2, "FIRSTTIME_DB"},
		"no scheme":       {"nonsense", 2, "postgres://"},
		"unknown scheme":  {"oracle://u:hunter2@h/d", 2, "unknown database scheme"},
		"malformed":       {"postgres://u:hunter2@h:port/d", 2, ""},
		"malformed mysql": {"mysql://u:hunter2@h:port", 2, "malformed"},
		"driver's DSN":    {"u:hunter2@tcp(127.0.0.1:1)/d", 1, "cannot be reached"},
		"nobody there":    {"postgres://u:hunter2@127.0.0.1:1/d", 1, "cannot be reached"},
		"wrong user":      {offered.String(), 1, ""},
		"no file":         {"sqlite:/no/such/folder/keys.db", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, command := range [][]string{{"stats"}, {"doctor"}, {"purge"}, {"show", "K"}, {"migrate", "up"}, {"exec", "--key", "K", "--", "true"}} {
				cmd := exec.CommandContext(t.Context(), binary, append([]string{"--timeout", "5s"}, command...)...)
				cmd.Env = append(os.Environ(), "FIRSTTIME_DB="+test.dsn)
				output, _ := cmd.CombinedOutput()
				text := string(output)
				if cmd.ProcessState.ExitCode() != test.code || !strings.Contains(text, test.want) && command[0] == "stats" {
					t.Errorf("%v: exit %d, want %d: %s", command, cmd.ProcessState.ExitCode(), test.code, text)
				}
				if strings.Count(text, "\n") != 1 || strings.Contains(text, "hunter2") || strings.Contains(text, "goroutine") {
					t.Errorf("%v: not one line without the password: %s", command, text)
				}
			}
		})
	}
}

// A key may have everything in it but a NUL; nothing of it reaches a terminal as it is.
func TestOddKeys(t *testing.T) {
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dsn := d.dsn(t)
			mustRun(t, dsn, "migrate", "up")
			const odd, shown = "two\nlines\x1b[31m", `"two\nlines\x1b[31m"`
			mustRun(t, dsn, "exec", "--scope", odd, "--key", odd, "--", "true")
			for _, test := range []struct {
				code int
				args []string
				want string
			}{
				{0, []string{"show", "--scope", odd, odd}, shown},
				{0, []string{"stats"}, shown},
				{0, []string{"exec", "--scope", odd, "--key", odd, "--", "false"}, "key " + shown + " is confirmed"},
				{3, []string{"release", "--scope", odd, odd}, "key " + shown + " is confirmed"},
				{3, []string{"show", odd}, "no key " + shown + " in scope default"},
				{3, []string{"stats", "--scope", "odd"}, "these have: " + shown},
				{2, []string{"show", strings.Repeat("k", 256)}, "256 bytes"},
				{2, []string{"show", "\xff"}, "UTF-8"},
				{2, []string{"show", "--scope", "\xff", "K"}, "UTF-8"},
			} {
				cmd := command(t, dsn, test.args...)
				output, _ := cmd.CombinedOutput()
				text := string(output)
				if cmd.ProcessState.ExitCode() != test.code || !strings.Contains(text, test.want) || strings.Contains(text, "\x1b") {
					t.Errorf("%q: exit %d, want %d and %s: %q", test.args, cmd.ProcessState.ExitCode(), test.code, test.want, text)
				}
				if test.code > 0 && strings.Count(text, "\n") != 1 {
					t.Errorf("%q: not one line: %q", test.args, text)
				}
			}
		})
	}
}

// Whatever the name of a file looks like, it is a file.
func TestOddFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, path := range []string{"u:p@tcp(h:1)/d/keys.db", "100%/a?b&c#d.db", "two words/über.db", "-"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mustRun(t, "sqlite:"+path, "exec", "--key", "K", "--", "true")
		mustRun(t, "sqlite:"+path, "show", "K")
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%s is not where the keys are: %v", path, err)
		}
	}
}
