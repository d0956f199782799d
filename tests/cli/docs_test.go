package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the pages show is what the command prints: the sessions of a page run in one shell, from top to bottom.
func TestPagesShowWhatTheCommandPrints(t *testing.T) {
	for _, page := range []string{"docs/commands.md", "README.md"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
			if err != nil {
				t.Fatal(err)
			}
			written := steps(sessions(string(text)))
			if len(written) == 0 {
				t.Fatal("the page has no console block")
			}
			printed := steps(runSession(t, written))
			for i, step := range written {
				if i >= len(printed) {
					t.Fatalf("the shell ended before $ %s", step.command)
				}
				if got, want := normalize(printed[i].output), normalize(step.output); got != want {
					t.Errorf("$ %s\nprints\n%sand the page says\n%s", step.command, printed[i].output, step.output)
				}
			}
		})
	}
}

// step is a command of a session and what it prints.
type step struct{ command, output string }

var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// sessions is what the console blocks of a page contain, one after the other.
func sessions(page string) string {
	var text strings.Builder
	for _, block := range consoleBlock.FindAllStringSubmatch(page, -1) {
		text.WriteString(block[1])
	}
	return text.String()
}

// steps are the commands of a session. The one that installs the command is left out: the test has built it.
func steps(session string) []step {
	var all []step
	for line := range strings.Lines(session) {
		if command, found := strings.CutPrefix(line, "$ "); found {
			all = append(all, step{command: strings.TrimSuffix(command, "\n")})
		} else if len(all) > 0 {
			all[len(all)-1].output += line
		}
	}
	return slices.DeleteFunc(all, func(s step) bool {
		return s.command == "go install github.com/firsttime-go/firsttime/cmd/firsttime@latest"
	})
}

// prompt prints a command as a terminal shows it, and leaves $? to the command.
const prompt = `exec 2>&1
prompt() { code=$?; printf '$ %s\n' "$1"; return $code; }
`

// runSession runs the commands in one shell, in a directory of their own, and returns what a terminal would show.
func runSession(t *testing.T, commands []step) string {
	t.Helper()
	script := prompt
	for _, s := range commands {
		script += fmt.Sprintf("prompt '%s'\n%s\n", strings.ReplaceAll(s.command, "'", `'\''`), s.command)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", script)
	shell.Dir = t.TempDir()
	shell.Env = append(os.Environ(), "FIRSTTIME_DB=", "PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
	output, err := shell.Output()
	if err != nil {
		t.Logf("the shell: %v", err) // its last command's exit code, which the page shows if it matters
	}
	return string(output)
}

// varying is what differs from run to run and from machine to machine, and what is compared in its place.
var varying = []struct {
	found *regexp.Regexp
	as    string
}{
	{regexp.MustCompile(`(?m)^firsttime \S+ go1\S+$`), "firsttime VERSION"},
	{regexp.MustCompile(`(?m)^.*\bKilled\b.*$`), "Killed"}, // as the shell says it
	{regexp.MustCompile(`SQLite 3\.[\d.]+`), "SQLite VERSION"},
	{regexp.MustCompile(`\S+/(keys|new)\.db`), "PATH"},
	{regexp.MustCompile(`\b[\w.-]+:\d+\b`), "HOST:PID"},
	{regexp.MustCompile(`seconds":-?[\d.e-]+`), `seconds":N`},
	{regexp.MustCompile(`-?\b(\d+(\.\d+)?(ms|µs|h|m|s))+\b`), "DURATION"},
	{regexp.MustCompile(`\b\d+(\.\d)? [kMG]?B\b`), "SIZE"},
	{regexp.MustCompile(` {2,}`), "  "}, // columns are as wide as what is in them
}

func normalize(output string) string {
	for _, v := range varying {
		output = v.found.ReplaceAllString(output, v.as)
	}
	return output
}
