package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// serving is a running "firsttime serve".
type serving struct {
	cmd    *exec.Cmd
	base   string // of its URLs
	logged chan struct{}

	mu  sync.Mutex
	log strings.Builder
}

// serve starts "firsttime serve" on a free port and waits until it says which. It is killed when the test ends.
func serve(t *testing.T, dsn string, args ...string) *serving {
	t.Helper()
	s := &serving{logged: make(chan struct{})}
	s.cmd = exec.Command(binary, append([]string{"--db", dsn, "--json", "serve", "--listen", "127.0.0.1:0"}, args...)...)
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.logged
		_ = s.cmd.Wait()
	})
	address := make(chan string, 1)
	go s.read(stderr, address)
	select {
	case at := <-address:
		s.base = "http://" + at
	case <-s.logged:
		t.Fatalf("serve ended at once: %s", s.text())
	case <-time.After(30 * time.Second):
		t.Fatalf("serve does not say where it listens: %s", s.text())
	}
	return s
}

func (s *serving) read(stderr io.Reader, address chan<- string) {
	defer close(s.logged)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		s.mu.Lock()
		s.log.WriteString(lines.Text() + "\n")
		s.mu.Unlock()
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
			address <- line.Address
		}
	}
}

func (s *serving) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// end tells it to end, and wants exit 0.
func (s *serving) end(t *testing.T, by syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(by); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.logged:
	case <-time.After(20 * time.Second):
		t.Fatalf("%v did not end it: %s", by, s.text())
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("%v: %v, want exit 0: %s", by, err, s.text())
	}
}

func (s *serving) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("%s: %v: %s", path, err, s.text())
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// metric is the value of the sample that begins with series, and false if there is none.
func (s *serving) metric(t *testing.T, series string) (float64, bool) {
	t.Helper()
	status, text := s.get(t, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics: %d: %s", status, text)
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return value, true
		}
	}
	return 0, false
}

// until polls a metric until it is as wanted.
func (s *serving) until(t *testing.T, series string, wanted func(value float64) bool) {
	t.Helper()
	poll(t, series, func() (bool, string) {
		value, ok := s.metric(t, series)
		return ok && wanted(value), fmt.Sprintf("%v (there: %v), log: %s", value, ok, s.text())
	})
}

func is(want float64) func(float64) bool { return func(value float64) bool { return value == want } }

func atLeast(want float64) func(float64) bool {
	return func(value float64) bool { return value >= want }
}

func poll(t *testing.T, what string, done func() (ok bool, state string)) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		ok, state := done()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s", what, state)
		}
	}
}

// firsttime runs a command that must succeed.
func firsttime(t *testing.T, dsn string, args ...string) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), binary, append([]string{"--db", dsn}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, output)
	}
}

// abandon leaves a claim whose process died.
func abandon(t *testing.T, dsn, scope, key, lease string) {
	t.Helper()
	cmd := exec.Command(binary, "--db", dsn, "exec", "--scope", scope, "--key", key, "--lease", lease, "--", "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	show := func() (bool, string) {
		output, err := exec.CommandContext(t.Context(), binary, "--db", dsn, "show", "--scope", scope, key).CombinedOutput()
		return err == nil, string(output)
	}
	poll(t, "claim of "+key, show)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
