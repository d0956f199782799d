package servers

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNoServerOutlivesAKilledTestBinary(t *testing.T) {
	for _, kind := range []Kind{Postgres, MariaDB, MySQL, RabbitMQ} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), childVariable+"="+string(kind))
			child.Stderr = os.Stderr
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			line, _ := bufio.NewReader(out).ReadString('\n')
			dir, ok := strings.CutPrefix(strings.TrimSpace(line), "serving in ")
			var before []string
			if ok {
				defer os.RemoveAll(dir)
				before = processesIn(dir)
			}
			_ = child.Process.Kill()
			_ = child.Wait()
			if len(before) == 0 {
				t.Fatalf("no server ran: %q", line)
			}
			deadline := time.Now().Add(10 * time.Second)
			for len(processesIn(dir)) > 0 {
				if time.Now().After(deadline) {
					t.Fatalf("of %v still run %v", before, processesIn(dir))
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Logf("%d processes are gone: %v", len(before), before)
		})
	}
}

// processesIn names the processes that work in a directory: every server, and what it starts, does.
func processesIn(dir string) (names []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		cwd, err := os.Readlink(link)
		if err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/")) {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "comm"))
			names = append(names, strings.TrimSpace(string(name)))
		}
	}
	return names
}
