// Package tests scrapes the example and "firsttime serve" as running processes, and holds the dashboard and the
// alerts in docs against what they really say.
package tests

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/firsttime-go/firsttime/tests/servers"
)

const root = "../../.." // of the repository

// binaries is the folder with the programs example and firsttime.
var binaries string

func TestMain(m *testing.M) {
	var err error
	if binaries, err = os.MkdirTemp("", "firsttime-scraped-"); err != nil {
		panic(err)
	}
	build := func(dir, pkg string) {
		cmd := exec.Command("go", "build", "-o", binaries+string(filepath.Separator), pkg)
		cmd.Dir = dir
		if output, err := cmd.CombinedOutput(); err != nil {
			panic(string(output))
		}
	}
	build("..", "./example")
	build(root, "./cmd/firsttime")
	code := m.Run()
	servers.Cleanup()
	os.RemoveAll(binaries)
	os.Exit(code)
}

// process is a running program that serves metrics.
type process struct {
	cmd     *exec.Cmd
	address string
	ended   chan struct{}

	mu  sync.Mutex
	log strings.Builder
}

var serving = regexp.MustCompile(`serving"? address=(\S+)`)

// start starts a program and waits until its log says where it serves.
func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(filepath.Join(binaries, program), args...), ended: make(chan struct{})}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	address := make(chan string, 1)
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.mu.Lock()
			p.log.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
			if m := serving.FindStringSubmatch(lines.Text()); m != nil {
				address <- m[1]
			}
		}
	}()
	select {
	case p.address = <-address:
	case <-p.ended:
		t.Fatalf("%s ended: %s", program, p.text())
	case <-time.After(30 * time.Second):
		t.Fatalf("%s serves nothing: %s", program, p.text())
	}
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	_ = p.cmd.Wait()
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// scrape is what it answers, as Prometheus reads it.
func (p *process) scrape(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(get(t, "http://"+p.address+"/metrics")))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// value is that of a counter or gauge, or the number of observations of a histogram. Labels are pairs of a name and a
// value. It is -1 if there is no such metric.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	for _, m := range families[name].GetMetric() {
		has := map[string]string{}
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		fits := true
		for i := 0; i+1 < len(labels); i += 2 {
			fits = fits && has[labels[i]] == labels[i+1]
		}
		switch {
		case !fits:
		case m.Counter != nil:
			return m.Counter.GetValue()
		case m.Gauge != nil:
			return m.Gauge.GetValue()
		case m.Histogram != nil:
			return float64(m.Histogram.GetSampleCount())
		}
	}
	return -1
}

// until polls a metric until it has at least the value.
func (p *process) until(t *testing.T, least float64, name string, labels ...string) {
	t.Helper()
	poll(t, func() error {
		if got := value(p.scrape(t), name, labels...); got < least {
			return fmt.Errorf("%s%v is %v, want %v: %s", name, labels, got, least, p.text())
		}
		return nil
	})
}

func get(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %v: %s", url, response.Status, err, text)
	}
	return string(text)
}

// poll tries until it succeeds.
func poll(t *testing.T, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
