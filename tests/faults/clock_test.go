package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Workers whose clocks are two hours ahead and behind handle the same messages while they are killed: what the dead
// leave is taken over when its lease is over, and nobody alive loses a claim. SQLite's clock is that of its process,
// and processes that share a file share a machine.
func TestNothingIsLostOrDoubledWhenTheClocksOfWorkersAreOff(t *testing.T) {
	if !*long {
		t.Skip("in short: the contract holds on servers with other clocks, in package tests")
	}
	const fault = "workers' clocks two hours ahead and behind, workers killed by SIGKILL"
	program := withAnotherClock(t)
	for _, d := range withServers() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			prove(t, fault, d.name, func(t *testing.T) outcome {
				var crew []settings
				offsets := []time.Duration{2 * time.Hour, -2 * time.Hour, 0}
				for _, offset := range offsets {
					crew = append(crew, settings{
						program: program, env: []string{fmt.Sprintf("%s=%d", clockVariable, int(offset.Seconds()))},
						lease: 5 * time.Second, pause: 10 * time.Millisecond, // a lease that nobody loses by being slow
					})
				}
				l, c := startCrew(t, sharedSite(t, d), messages(), crew...)
				for place, offset := range offsets {
					if ahead := c.at(place).clock; (ahead - offset).Abs() > time.Minute {
						t.Fatalf("a worker's clock is ahead by %v, want %v: this test shows nothing", ahead, offset)
					}
				}
				place := 0
				l.disturb(len(crew), func() {
					c.at(place).awaitCharge(t)
					c.replace(place, crew[place])
					place++
				})
				o := l.finish()
				if n := l.seen.of(claimLost); n != 0 {
					t.Errorf("%d claims were lost by workers who were alive", n)
				}
				o.figures = map[string]int{"kills": len(crew)}
				return o
			})
		})
	}
}

// clockVariable says how many seconds the clock of a program that withAnotherClock made is ahead.
const clockVariable = "FIRSTTIME_TEST_CLOCK"

// withAnotherClock compiles these tests with a package time whose wall clock is off. libfaketime does nothing to
// programs of Go, which ask the kernel themselves, and Linux has no namespace for this clock.
func withAnotherClock(t *testing.T) string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir, origin := t.TempDir(), filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(origin, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const read = "mono := runtimeNow()\n"
	if strings.Count(string(source), read) != 1 {
		t.Fatalf("time.Now does not read the clock by %q any more: adapt this test to %s", read, runtime.Version())
	}
	files := map[string]string{
		"time.go": strings.Replace(string(source), read, read+"\tsec += clockAhead\n", 1),
		"ahead.go": `package time

import "syscall"

var clockAhead = func() int64 {
	text, _ := syscall.Getenv("` + clockVariable + `")
	ahead, sign := int64(0), int64(1)
	for _, c := range text {
		if c == '-' {
			sign = -1
		} else {
			ahead = 10*ahead + int64(c-'0')
		}
	}
	return sign * ahead
}()
`,
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range files {
		copied := filepath.Join(dir, name)
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(origin, name)] = copied
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "faults.test")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", list, "-o", program, ".")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, output)
	}
	return program
}
