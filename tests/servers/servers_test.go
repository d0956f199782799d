package servers

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(serveUntilKilled())
	}
	code := m.Run()
	Cleanup()
	os.Exit(code)
}

var databases = []Kind{Postgres, MariaDB, MySQL}

// start starts a private server and says how long that took.
func start(t *testing.T, kind Kind) *Server {
	t.Helper()
	begin := time.Now()
	s, err := Start(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s answered after %v", s.Version(), time.Since(begin).Round(10*time.Millisecond))
	return s
}

func restart(t *testing.T, s *Server) {
	t.Helper()
	begin := time.Now()
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("and again after %v", time.Since(begin).Round(10*time.Millisecond))
}

func TestADatabaseServerKeepsItsDataOverKillAndStop(t *testing.T) {
	for _, kind := range databases {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := start(t, kind)
			db, err := sql.Open(s.engine.driver, s.Database(t))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, statement := range []string{"CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)"} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			for _, way := range []struct {
				name string
				end  func() error
			}{{"kill", s.Kill}, {"stop", s.Stop}} {
				if err := way.end(); err != nil {
					t.Fatal(err)
				}
				if err := db.PingContext(t.Context()); err == nil {
					t.Errorf("after %s the server still answers", way.name)
				}
				restart(t, s)
				var n int
				if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&n); err != nil || n != 1 {
					t.Errorf("after %s and restart: %d rows, %v; want 1", way.name, n, err)
				}
			}
			if !s.Private() || !strings.HasPrefix(s.Version(), string(kind)+" ") {
				t.Errorf("private %v, version %q", s.Private(), s.Version())
			}
			if text, err := os.ReadFile(s.LogFile()); err != nil || len(text) == 0 {
				t.Errorf("the log has %d bytes, %v", len(text), err)
			}
		})
	}
}

// A backend that is busy notices the end of its server late. It must not survive a kill: it could commit
// after it, and the server would refuse to start beside it.
func TestKillEndsBusyBackends(t *testing.T) {
	t.Parallel()
	s := start(t, Postgres)
	db, err := sql.Open("pgx", s.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	failed := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(context.Background(), "SELECT count(*) FROM generate_series(1, 100000000000) /* busy */")
		failed <- err
	}()
	busy := func() (n int) {
		err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE state = 'active' AND query LIKE '%busy */' AND pid <> pg_backend_pid()`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for deadline := time.Now().Add(10 * time.Second); busy() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the query does not run")
		}
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	restart(t, s)
	if err := <-failed; err == nil {
		t.Error("the query of a killed server succeeded")
	}
}

func TestADatabaseIsEmptyAndGoesWithItsTest(t *testing.T) {
	for _, kind := range databases {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := Shared(t, kind)
			if s != Shared(t, kind) {
				t.Error("two servers are shared")
			}
			var dsn string
			t.Run("test", func(t *testing.T) {
				dsn = s.Database(t)
				if dsn == s.Database(t) {
					t.Error("two databases are one")
				}
				if err := ping(t, s, dsn); err != nil {
					t.Error(err)
				}
			})
			if err := ping(t, s, dsn); err == nil {
				t.Error("the database is still there after its test")
			}
		})
	}
}

func ping(t *testing.T, s *Server, dsn string) error {
	t.Helper()
	db, err := sql.Open(s.engine.driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return db.PingContext(t.Context())
}
