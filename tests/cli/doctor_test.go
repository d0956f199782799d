package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/firsttime-go/firsttime/tests/servers"
)

// diagnosis is what "doctor --json" prints.
type diagnosis []struct{ Level, Check, Detail, Remedy string }

func diagnose(t *testing.T, dsn string, code int, args ...string) diagnosis {
	t.Helper()
	cmd := command(t, dsn, append([]string{"--json", "doctor"}, args...)...)
	output, _ := cmd.Output() // the exit code says how it ended
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("exit %d, want %d: %s", got, code, output)
	}
	var found diagnosis
	decoder := json.NewDecoder(bytes.NewReader(output))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&found); err != nil || decoder.More() {
		t.Fatalf("not one JSON value: %v: %s", err, output)
	}
	return found
}

// A script finds in every finding its level, what was looked at and what it is like, and unless it is a note,
// what to do.
func TestDoctorsJSON(t *testing.T) {
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dsn := d.dsn(t)
			sick := diagnose(t, dsn, 3)
			mustRun(t, dsn, "migrate", "up")
			for name, found := range map[string]diagnosis{"sick": sick, "healthy": diagnose(t, dsn, 0)} {
				levels := map[string]int{}
				for _, f := range found {
					levels[f.Level]++
					if !slices.Contains([]string{"note", "warning", "fault"}, f.Level) || f.Check == "" || f.Detail == "" || (f.Remedy == "") != (f.Level == "note") {
						t.Errorf("%s: %+v", name, f)
					}
				}
				if bad := levels["warning"] + levels["fault"]; levels["note"] < 4 || (bad == 2) != (name == "sick") {
					t.Errorf("%s: %v", name, levels)
				}
			}
		})
	}
}

// Consumers that prepare statements are warned of a pooler that hands them round; others are told nothing.
func TestDoctorKnowsWhetherConsumersPrepareStatements(t *testing.T) {
	t.Parallel()
	server := servers.Shared(t, servers.Postgres)
	pooler, err := servers.StartPgbouncer(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pooler.Stop() })
	direct := server.Database(t)
	mustRun(t, direct, "migrate", "up")
	through := pooler.At(t, direct)
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "warning pooler"},
		{[]string{"--unprepared"}, ""},
	} {
		var got []string
		for _, f := range diagnose(t, through, 0, test.args...) {
			if f.Level != "note" {
				got = append(got, f.Level+" "+f.Check)
			}
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%v: %v, want %q", test.args, got, test.want)
		}
	}
}
