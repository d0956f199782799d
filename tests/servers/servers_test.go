package servers

import (
	"database/sql"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	code := m.Run()
	Cleanup()
	os.Exit(code)
}

func TestAKilledServerKeepsItsData(t *testing.T) {
	for _, kind := range []Kind{Postgres, MariaDB, MySQL} {
		t.Run(string(kind), func(t *testing.T) {
			s, err := Start(t.Context(), kind)
			if err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open(s.engine.driver, s.Database(t))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec("CREATE TABLE t (a INT)"); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec("INSERT INTO t VALUES (1)"); err != nil {
				t.Fatal(err)
			}
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := db.Ping(); err == nil {
				t.Error("a killed server answers")
			}
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			var n int
			if err := db.QueryRow("SELECT COUNT(*) FROM t").Scan(&n); err != nil || n != 1 {
				t.Errorf("after the restart: %d rows, %v; want 1", n, err)
			}
			t.Log(s.Version())
		})
	}
}
