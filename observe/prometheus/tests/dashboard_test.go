package tests

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/firsttime-go/firsttime/tests/servers"
)

const (
	dashboardFile = root + "/docs/grafana-dashboard.json"
	alertsFile    = root + "/docs/alerts.yml"
	alertsTest    = root + "/docs/alerts_test.yml"
)

// dashboard is what these tests look at of a dashboard of Grafana.
type dashboard struct {
	SchemaVersion int
	Templating    struct{ List []struct{ Name, Type string } }
	Panels        []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct {
		Expr       string
		Datasource struct{ Type, UID string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheDashboardIsWhole(t *testing.T) {
	d := readDashboard(t)
	variables := map[string]string{}
	for _, v := range d.Templating.List {
		variables[v.Name] = v.Type
	}
	if d.SchemaVersion < 36 || variables["datasource"] != "datasource" || variables["scope"] != "query" {
		t.Errorf("schema %d, variables %v", d.SchemaVersion, variables)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x >= 24 {
					t.Fatalf("%q is over %q, or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d has no title, no description or no query", p.ID)
		}
		for _, target := range p.Targets {
			if target.Datasource.Type != "prometheus" || target.Datasource.UID != "${datasource}" {
				t.Errorf("%q asks %v, not the chosen data source", p.Title, target.Datasource)
			}
		}
	}
}

func TestTheAlertsAreValidAndFire(t *testing.T) {
	promtool := servers.Program(t, "promtool", "prometheus")
	for _, args := range [][]string{{"check", "rules", alertsFile}, {"test", "rules", alertsTest}} {
		if output, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v: %s", args, err, output)
		}
	}
	alerts, tests := read(t, alertsFile), read(t, alertsTest)
	names := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(alerts, -1)
	if len(names) < 5 {
		t.Errorf("only %d alerts", len(names))
	}
	for _, name := range names {
		if !regexp.MustCompile(`alertname: ` + name[1] + `\s+exp_alerts:`).MatchString(tests) {
			t.Errorf("no test wants %s to fire", name[1])
		}
		if !regexp.MustCompile(`alertname: ` + name[1] + `\n(\s+- eval_time|\n|$)`).MatchString(tests) {
			t.Errorf("no test wants %s to be silent", name[1])
		}
	}
	for _, part := range []string{"summary:", "description:", "severity:"} {
		if n := strings.Count(alerts, part); n != len(names) {
			t.Errorf("%d alerts, %d times %s", len(names), n, part)
		}
	}
}

// What dashboard and alerts ask for is there: by name in what the programs answer, and panel by panel as the answer
// of a Prometheus that scrapes them.
func TestTheDashboardShowsWhatTheProgramsSay(t *testing.T) {
	b := newBroker(t)
	db := filepath.Join(t.TempDir(), "keys.db")
	example := b.example(t, db, 0)
	serve := start(t, "firsttime", "--db", "sqlite:"+db, "serve", "--listen", "127.0.0.1:0", "--every", "1s", "--count-every", "1s")
	b.publish(t, "A", "A", "B", "")
	example.until(t, 1, "firsttime_deliveries_total", "scope", b.queue, "outcome", "duplicate")
	serve.until(t, 2, "firsttime_keys", "scope", b.queue, "state", "confirmed")
	serve.until(t, 1, "firsttime_purge_last_success_timestamp_seconds")

	exposed := map[string]bool{}
	for _, scraped := range []map[string]*dto.MetricFamily{example.scrape(t), serve.scrape(t)} {
		for name, family := range scraped {
			exposed[name] = true
			if family.GetType() == dto.MetricType_HISTOGRAM {
				exposed[name+"_bucket"] = true
			}
		}
	}
	for _, file := range []string{dashboardFile, alertsFile} {
		names := metricName.FindAllString(read(t, file), -1)
		if len(names) == 0 {
			t.Errorf("%s names no metrics", file)
		}
		for _, name := range names {
			if !exposed[name] {
				t.Errorf("%s: nothing exposes %s", file, name)
			}
		}
	}

	prometheus := startPrometheus(t, example.address, serve.address)
	variables := strings.NewReplacer("$__rate_interval", "10s", "$scope", ".*")
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			query := variables.Replace(target.Expr)
			poll(t, func() error {
				if n := prometheus.ask(t, query); n == 0 {
					return fmt.Errorf("%q shows nothing: %s", p.Title, query)
				}
				return nil
			})
		}
	}
}

var metricName = regexp.MustCompile(`firsttime_[a-z_]+`)

// server is a Prometheus.
type server struct{ base string }

func startPrometheus(t *testing.T, targets ...string) *server {
	t.Helper()
	program := servers.Program(t, "prometheus", "prometheus")
	rules, err := filepath.Abs(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: firsttime, static_configs: [{targets: [%s]}]}]\n", rules, strings.Join(targets, ", "))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	s := &server{base: "http://" + address}
	poll(t, s.ready)
	return s
}

func (s *server) ready() error {
	response, err := http.Get(s.base + "/-/ready")
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // its status is enough
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("prometheus is not ready: %s", response.Status)
	}
	return nil
}

// ask returns the number of series that answer a query.
func (s *server) ask(t *testing.T, query string) int {
	t.Helper()
	var answer struct {
		Status string
		Data   struct{ Result []json.RawMessage }
	}
	text := get(t, s.base+"/api/v1/query?query="+url.QueryEscape(query))
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s: %v: %s", query, err, text)
	}
	return len(answer.Data.Result)
}
