package cli

import (
	"bufio"
	"os"
	"regexp"
	"testing"
	"time"
)

// A purge that stays says what failed, and goes on.
func TestPurgeEveryGoesOnAfterAnError(t *testing.T) {
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dsn := d.dsn(t)
			mustRun(t, dsn, "migrate", "up")
			cmd := command(t, dsn, "purge", "--every", "1s")
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			cmd.Stdout, cmd.Stderr = write, write
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill() }()
			write.Close()
			lines := make(chan string)
			go func() {
				defer close(lines)
				for scanner := bufio.NewScanner(read); scanner.Scan(); {
					lines <- scanner.Text()
				}
			}()
			until := func(want string) {
				t.Helper()
				wanted := regexp.MustCompile(want)
				for timeout := time.After(30 * time.Second); ; {
					select {
					case line, open := <-lines:
						if wanted.MatchString(line) {
							return
						} else if !open {
							t.Fatalf("it ended before it said %q", want)
						}
					case <-timeout:
						t.Fatalf("it does not say %q", want)
					}
				}
			}
			until("^0 keys deleted in ")
			mustRun(t, dsn, "migrate", "down")
			until(`^firsttime: purge: .*: run "firsttime migrate up"; the next purge is in 1s$`)
			mustRun(t, dsn, "migrate", "up")
			mustRun(t, dsn, "exec", "--key", "K", "--lease", "1s", "--retention", "1100ms", "--", "true")
			until("^1 key deleted in ")
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			for range lines { // to its end
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("interrupted: %v, want exit 0", err)
			}
		})
	}
}
