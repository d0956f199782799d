package cli

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/tests/servers"
)

const (
	oddScope   = "a \"quoted\"\\\nsc\u00f6pe\x01"
	oddEscaped = `a \"quoted\"\\\nsc` + "\u00f6pe\x01"
)

func TestServeShowsTheKeysAndWhatThePurgesDo(t *testing.T) {
	promtool := servers.Program(t, "promtool", "prometheus")
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dsn := d.dsn(t)
			firsttime(t, dsn, "migrate", "up")
			firsttime(t, dsn, "exec", "--scope", oddScope, "--key", "A", "--", "true")
			firsttime(t, dsn, "exec", "--scope", oddScope, "--key", "B", "--", "true")
			firsttime(t, dsn, "exec", "--key", "short", "--lease", "1s", "--retention", "2s", "--", "true")
			abandon(t, dsn, "payments", "C", "1s")
			abandon(t, dsn, "payments", "D", "10m")

			s := serve(t, dsn, "--every", "1s", "--count-every", "1s")
			if status, body := s.get(t, "/healthz"); status != http.StatusOK || body != "ok\n" {
				t.Errorf("/healthz: %d: %s", status, body)
			}
			s.until(t, `firsttime_keys{scope="payments",state="stale"}`, is(1))
			s.until(t, `firsttime_keys{scope="payments",state="claimed"}`, is(1))
			s.until(t, `firsttime_keys{scope="`+oddEscaped+`",state="confirmed"}`, is(2))
			s.until(t, `firsttime_keys_past_retention{scope="payments"}`, is(0))
			s.until(t, `firsttime_oldest_claim_age_seconds{scope="payments"}`, atLeast(0.1))
			s.until(t, `firsttime_table_size_bytes{part="table"}`, atLeast(1))
			s.until(t, `firsttime_table_size_bytes{part="index"}`, atLeast(0))
			s.until(t, "firsttime_purged_keys_total", is(1))
			s.until(t, "firsttime_purges_total", atLeast(2))
			s.until(t, "firsttime_purge_failures_total", is(0))
			s.until(t, "firsttime_purge_last_duration_seconds", atLeast(0.000001))
			s.until(t, "firsttime_purge_last_success_timestamp_seconds", func(at float64) bool {
				return time.Since(time.Unix(int64(at), 0)).Abs() < time.Minute
			})
			s.until(t, "firsttime_up", is(1))

			_, text := s.get(t, "/metrics")
			check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
			check.Stdin = strings.NewReader(text)
			if output, err := check.CombinedOutput(); err != nil || len(output) > 0 {
				t.Errorf("promtool check metrics: %v: %s", err, output)
			}
			s.end(t, syscall.SIGTERM)
		})
	}
}

func TestServeReadsTheTableAtMostOncePerInterval(t *testing.T) {
	dsn := databases()[0].dsn(t)
	firsttime(t, dsn, "migrate", "up")
	firsttime(t, dsn, "exec", "--key", "A", "--", "true")
	s := serve(t, dsn, "--count-every", "1h")
	s.until(t, `firsttime_keys{scope="default",state="confirmed"}`, is(1))
	firsttime(t, dsn, "exec", "--key", "B", "--", "true")
	if n, _ := s.metric(t, `firsttime_keys{scope="default",state="confirmed"}`); n != 1 {
		t.Errorf("%v keys: it read the table again", n)
	}
	s.end(t, syscall.SIGINT)
}

// withPassword is a DSN of an administrator with a password that must not be seen.
func withPassword(t *testing.T, kind servers.Kind, s *servers.Server) string {
	t.Helper()
	dsn := s.Database(t)
	if kind == servers.Postgres { // it trusts everybody
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("postgres", "hunter2")
		return u.String()
	}
	db, err := sql.Open("mysql", s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{"CREATE USER purger IDENTIFIED BY 'hunter2'", "GRANT ALL ON *.* TO purger"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Replace(dsn, "root@", "purger:hunter2@", 1)
}

// A database that dies and comes back is seen by /healthz, costs purges that are counted, and ends nothing.
func TestServeOutlivesItsDatabase(t *testing.T) {
	for _, kind := range []servers.Kind{servers.Postgres, servers.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, err := servers.Start(t.Context(), kind)
			if err != nil {
				t.Fatal(err)
			}
			dsn := withPassword(t, kind, server)
			firsttime(t, dsn, "migrate", "up")
			s := serve(t, dsn, "--every", "1s", "--count-every", "1s")
			healthy := func(want int) {
				t.Helper()
				poll(t, fmt.Sprintf("/healthz says %d", want), func() (bool, string) {
					status, body := s.get(t, "/healthz")
					if strings.Count(body, "\n") != 1 {
						t.Errorf("not one line: %q", body)
					}
					return status == want, body
				})
			}
			for _, fell := range []func() error{server.Kill, server.Stop} {
				healthy(http.StatusOK)
				s.until(t, "firsttime_up", is(1))
				failures, _ := s.metric(t, "firsttime_purge_failures_total")
				if err := fell(); err != nil {
					t.Fatal(err)
				}
				healthy(http.StatusServiceUnavailable)
				s.until(t, "firsttime_purge_failures_total", atLeast(failures+1))
				s.until(t, "firsttime_up", is(0))
				if _, there := s.metric(t, `firsttime_table_size_bytes{part="table"}`); there {
					t.Error("the size of a table that cannot be read is still shown")
				}
				if err := server.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				healthy(http.StatusOK)
				purges, _ := s.metric(t, "firsttime_purge_last_success_timestamp_seconds")
				s.until(t, "firsttime_purge_last_success_timestamp_seconds", atLeast(purges+0.001))
			}
			firsttime(t, dsn, "migrate", "down")
			healthy(http.StatusServiceUnavailable)
			if _, body := s.get(t, "/healthz"); !strings.Contains(body, "firsttime migrate up") {
				t.Errorf("without a table /healthz says %s", body)
			}
			s.end(t, syscall.SIGTERM)
			if log := s.text(); strings.Contains(log, "hunter2") || !strings.Contains(log, "purge failed") {
				t.Errorf("the log has the password, or no failure of a purge: %s", log)
			}
		})
	}
}

// fillExpired puts keys past their retention into the table.
func fillExpired(t *testing.T, dsn string, n int) {
	t.Helper()
	s := storeOf(t, dsn)
	for i := range n {
		if err := s.Confirm(t.Context(), "old-"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	poll(t, "all keys are past their retention", func() (bool, string) {
		stats, err := s.Stats(t.Context())
		return err == nil && len(stats) == 1 && stats[0].Purgeable == int64(n), fmt.Sprint(stats, err)
	})
}

func TestServesSideBySideShareThePurge(t *testing.T) {
	const keys = 1500
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dsn := d.dsn(t)
			firsttime(t, dsn, "migrate", "up")
			fillExpired(t, dsn, keys)
			a, b := serve(t, dsn, "--every", "1s"), serve(t, dsn, "--every", "1s")
			poll(t, "both purged", func() (bool, string) {
				ofA, _ := a.metric(t, "firsttime_purged_keys_total")
				ofB, _ := b.metric(t, "firsttime_purged_keys_total")
				return ofA+ofB == keys, fmt.Sprintf("%v and %v of %d", ofA, ofB, keys)
			})
			for _, s := range []*serving{a, b} {
				s.until(t, "firsttime_purges_total", atLeast(3))
				s.until(t, "firsttime_purge_failures_total", is(0))
				s.end(t, syscall.SIGTERM)
			}
		})
	}
}

// A purge that would take minutes stops at once, and says what it did.
func TestServeStopsAPurgeUnderWay(t *testing.T) {
	const keys = 1500
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dsn := d.dsn(t)
			firsttime(t, dsn, "migrate", "up")
			fillExpired(t, dsn, keys)
			s := serve(t, dsn, "--share", "0.0001")
			s.until(t, "firsttime_purged_keys_total", atLeast(1))
			s.end(t, syscall.SIGTERM)
			var stopped struct{ Deleted int }
			for line := range strings.Lines(s.text()) {
				if strings.Contains(line, "purge stopped") {
					if err := json.Unmarshal([]byte(line), &stopped); err != nil {
						t.Fatal(err)
					}
				}
			}
			if stopped.Deleted < 1 || stopped.Deleted >= keys {
				t.Errorf("%d of %d keys deleted when it was stopped: %s", stopped.Deleted, keys, s.text())
			}
			left, err := storeOf(t, dsn).Stats(t.Context())
			if err != nil || len(left) != 1 || left[0].Purgeable != int64(keys-stopped.Deleted) {
				t.Errorf("%+v left, %v", left, err)
			}
		})
	}
}

func TestServeSaysInOneLineWhyItCannotStart(t *testing.T) {
	dsn := databases()[0].dsn(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	run := func(args ...string) (code int, output string) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, append([]string{"--timeout", "2s", "serve"}, args...)...)
		text, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(text)
	}
	if code, output := run("--db", dsn); code != 1 || !strings.Contains(output, "firsttime migrate up") {
		t.Errorf("without a table: exit %d: %s", code, output)
	}
	firsttime(t, dsn, "migrate", "up")
	for _, test := range []struct {
		code int
		args []string
	}{
		{2, []string{"--db", dsn, "--listen", "nonsense"}},
		{2, []string{"--db", dsn, "--every", "1ms"}},
		{2, []string{"--db", dsn, "--share", "0"}},
		{2, []string{"--db", dsn, "--share", "NaN"}},
		{2, []string{"--db", dsn, "--count-every", "0"}},
		{2, []string{"--db", dsn, "everything"}},
		{1, []string{"--db", dsn, "--listen", taken.Addr().String()}},
		{1, []string{"--db", "postgres://u:hunter2@127.0.0.1:1/d"}},
		{1, []string{"--db", "u:hunter2@tcp(127.0.0.1:1)/d"}},
	} {
		code, output := run(test.args...)
		if code != test.code || strings.Count(output, "\n") != 1 || strings.Contains(output, "hunter2") {
			t.Errorf("%v: exit %d, want %d: %s", test.args, code, test.code, output)
		}
	}
}
