package servers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server of the user's is used, reported once, and never stopped.
func TestAnOfferedServerIsUsedAndLeftAlone(t *testing.T) {
	for _, kind := range []Kind{Postgres, RabbitMQ} {
		t.Run(string(kind), func(t *testing.T) {
			own := Shared(t, kind)
			reports := filepath.Join(t.TempDir(), "report")
			t.Setenv("FIRSTTIME_TEST_REPORT", reports)
			t.Setenv(kind.engine().variable, own.URL())
			var s *Server
			for range 2 {
				var err error
				if s, err = obtain(t.Context(), kind, kind.engine()); err != nil {
					t.Fatal(err)
				}
			}
			if s.Private() || s.LogFile() != "" || s.Version() != own.Version() {
				t.Errorf("private %v, log %q, version %q", s.Private(), s.LogFile(), s.Version())
			}
			if s.Kill() == nil || s.Stop() == nil || s.Restart(t.Context()) == nil {
				t.Error("a server of the user's can be ended")
			}
			text, err := os.ReadFile(reports)
			want := own.Version() + " (server of " + kind.engine().variable + ")\n"
			if err != nil || string(text) != want {
				t.Errorf("the report is %q, %v; want %q", text, err, want)
			}
		})
	}
}

func TestAnotherProductBehindADSNIsRefused(t *testing.T) {
	t.Setenv("FIRSTTIME_TEST_MYSQL", Shared(t, MariaDB).URL())
	s, err := obtain(t.Context(), MySQL, MySQL.engine())
	if err == nil || !strings.Contains(err.Error(), "FIRSTTIME_TEST_MYSQL") || !strings.Contains(err.Error(), "MariaDB") {
		t.Errorf("%v, %v; want an error that names the variable and MariaDB", s, err)
	}
}

func TestAnotherVersionThanTheOneAskedForIsRefused(t *testing.T) {
	own := Shared(t, Postgres)
	_, version, _ := strings.Cut(own.Version(), " ")
	major, _, _ := strings.Cut(version, ".")
	t.Setenv("FIRSTTIME_TEST_POSTGRES", own.URL())
	for wanted, fits := range map[string]bool{major: true, version: true, major + "0": false, "1": false} {
		t.Setenv("FIRSTTIME_TEST_POSTGRES_VERSION", wanted)
		s, err := obtain(t.Context(), Postgres, Postgres.engine())
		switch {
		case fits && err != nil:
			t.Errorf("%s is refused as %s: %v", version, wanted, err)
		case !fits && (err == nil || !strings.Contains(err.Error(), version) || !strings.Contains(err.Error(), wanted)):
			t.Errorf("%v, %v; want an error that names %s and %s", s, err, version, wanted)
		}
	}
}

// Without the programs, and without apt-get to install them, the error names every way out.
func TestAMissingServerIsAnErrorThatSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // without docker and apt-get
	e := Postgres.engine()
	t.Setenv(e.variable, "")
	e.prepare = func(ctx context.Context, _ string, _ int) (command, error) {
		_, err := program(ctx, func() (string, error) { return find("initdb") }, "postgresql")
		return command{}, err
	}
	s, err := obtain(t.Context(), Postgres, e)
	if err == nil {
		t.Fatalf("obtained %s without any program", s.Version())
	}
	for _, part := range []string{"set FIRSTTIME_TEST_POSTGRES", "apt-get install postgresql", "initdb", "only root on Debian"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestTheMirrorIsThatOfTheMachine(t *testing.T) {
	for list, want := range map[string]string{
		"Types: deb\nURIs: http://mirror.test/debian\nSuites: stable\n":                                 "http://mirror.test/debian",
		"deb http://mirror.test/debian/ stable main\n":                                                  "http://mirror.test/debian",
		"deb [arch=amd64 signed-by=/k.gpg] https://mirror.test/debian stable main":                      "https://mirror.test/debian",
		"URIs: http://mirror.test/debian-security\ndeb http://mirror.test/ubuntu stable main\n":         "",
		"# deb http://old.test/debian stable main\ndeb http://mirror.test/pub/debian stable main\n":     "http://mirror.test/pub/debian",
		"deb http://mirror.test/other stable main\nURIs:  http://mirror.test/debian/\nSuites: stable\n": "http://mirror.test/debian",
	} {
		if got := mirrorIn([]byte(list)); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}
