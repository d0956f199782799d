package servers

import (
	"database/sql"
	"strings"
	"testing"
)

// That is what transaction mode means: a connection has a process of the server only while it is in a
// transaction, and the next one gets it.
func TestPgbouncerHandsTheServersProcessesRound(t *testing.T) {
	t.Parallel()
	pooler, err := StartPgbouncer(t.Context(), Shared(t, Postgres))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", pooler.Database(t)+"&default_query_exec_mode=simple_protocol")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	processes := map[int]bool{}
	for range 3 {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var pid int
		if err := conn.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		processes[pid] = true
	}
	if len(processes) != 1 {
		t.Errorf("three connections have %d processes, want one", len(processes))
	}
	if !strings.HasPrefix(pooler.Version(), "PgBouncer 1.") {
		t.Errorf("version %q", pooler.Version())
	}
	if err := pooler.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := db.PingContext(t.Context()); err == nil {
		t.Error("a stopped pooler answers")
	}
	restart(t, pooler)
	if err := db.PingContext(t.Context()); err != nil {
		t.Error(err)
	}
}
