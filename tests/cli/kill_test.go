package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A command that appends a line is run for 200 keys, and firsttime is killed at a random moment of every other run,
// until a call is told that the key is confirmed. Every key has a line; it has more only where firsttime was
// killed between the line and its confirm: the file is not in the database, so this is at least once. The command is
// started once for each attempt, and there is no attempt after the first without a kill before it.
func TestExecUnderKill(t *testing.T) {
	t.Parallel()
	const keys, side = 200, 8
	dir := t.TempDir()
	file := filepath.Join(dir, "lines")
	firsttime := func(args ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), binary, append([]string{"--db", "sqlite:" + filepath.Join(dir, "keys.db"), "--timeout", "1m"}, args...)...)
	}
	kills := make([]int, keys)
	once := func(n int) {
		key := keyOf(n)
		for deadline := time.Now().Add(time.Minute); ; {
			cmd := firsttime("exec", "--key", key, "--lease", "300ms", "--", "sh", "-c", "echo "+key+" >>"+file+"; exec sleep 0.02")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			if rand.IntN(2) == 0 { // half of them live
				killer := time.AfterFunc(time.Duration(rand.IntN(200))*time.Millisecond, func() { _ = cmd.Process.Kill() })
				defer killer.Stop()
			}
			_ = cmd.Wait()
			switch code := cmd.ProcessState.ExitCode(); {
			case code == 0 && strings.Contains(stderr.String(), "does not run again"):
				return
			case code == -1:
				kills[n]++
			case code == 3: // in progress: the dead one's lease
				time.Sleep(300 * time.Millisecond)
			case code != 0:
				t.Errorf("%s: exit %d: %s", key, code, stderr.String())
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("%s is never confirmed", key)
				return
			}
		}
	}
	var work sync.WaitGroup
	next := make(chan int)
	for range side {
		work.Go(func() {
			for n := range next {
				once(n)
			}
		})
	}
	for n := range keys {
		next <- n
	}
	close(next)
	work.Wait()

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	for _, line := range strings.Fields(string(text)) {
		lines[line]++
	}
	again, killed := 0, 0
	for n := range keys {
		key := keyOf(n)
		output, err := firsttime("--json", "show", key).CombinedOutput()
		var shown struct {
			State    string `json:"state"`
			Attempts int    `json:"attempts"`
		}
		if err != nil || json.Unmarshal(output, &shown) != nil {
			t.Fatalf("%s: %v: %s", key, err, output)
		}
		if shown.State != "confirmed" || lines[key] < 1 || lines[key] > shown.Attempts || shown.Attempts > 1+kills[n] {
			t.Errorf("%s: %d lines, %+v, %d kills", key, lines[key], shown, kills[n])
		}
		again += lines[key] - 1
		killed += kills[n]
		delete(lines, key)
	}
	if len(lines) > 0 {
		t.Errorf("lines of no key: %v", lines)
	}
	t.Logf("%d keys, %d kills, %d lines: %d were killed between their line and their confirm, and ran again", keys, killed, keys+again, again)
	if killed < 20 {
		t.Errorf("only %d kills", killed)
	}
}

func keyOf(n int) string { return fmt.Sprintf("key-%d", n) }
