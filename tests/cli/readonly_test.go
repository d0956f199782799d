package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/firsttime-go/firsttime/tests/servers"
)

// A server that takes no writes can be read from. Whoever writes is told in one line.
func TestAServerThatTakesNoWritesIsTold(t *testing.T) {
	const told = "takes no writes: connect to the primary"
	for name, dsn := range map[string]func(t *testing.T) string{
		"PostgreSQL standby":                       standby,
		"PostgreSQL default_transaction_read_only": readOnlyByDefault,
		"MariaDB read_only":                        func(t *testing.T) string { return readOnlyServer(t, servers.MariaDB) },
		"MySQL read_only":                          func(t *testing.T) string { return readOnlyServer(t, servers.MySQL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dsn(t)
			var faults []string
			for _, f := range diagnose(t, dsn, 3) {
				if f.Level == "fault" {
					faults = append(faults, f.Check)
				}
			}
			if !slices.Equal(faults, []string{"server", "write"}) {
				t.Errorf("faults %v, want those of the server and of writing", faults)
			}
			for _, r := range []refusal{
				{"stats", 0, "default"}, {"stale", 0, "no claim is stale"}, {"show old", 0, "confirmed"}, {"migrate status", 0, "true"},
				{"confirm --create new", 1, told}, {"purge", 1, told}, {"exec --key new -- echo charged", 1, told}, {"migrate down", 1, told},
			} {
				r.check(t, command(t, dsn, strings.Fields(r.line)...))
			}
		})
	}
}

func start(t *testing.T, kind servers.Kind) *servers.Server {
	t.Helper()
	server, err := servers.Start(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	return server
}

// migratedIn makes a database with the table and the key "old".
func migratedIn(t *testing.T, server *servers.Server) string {
	t.Helper()
	dsn := server.Database(t)
	mustRun(t, dsn, "migrate", "up")
	mustRun(t, dsn, "confirm", "--create", "old")
	return dsn
}

// standby is a database of a server that follows another one.
func standby(t *testing.T) string {
	t.Helper()
	primary := start(t, servers.Postgres)
	dsn := migratedIn(t, primary)
	server, err := servers.StartStandby(t.Context(), primary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	return server.At(t, dsn)
}

func readOnlyByDefault(t *testing.T) string {
	t.Helper()
	return migratedIn(t, servers.Shared(t, servers.Postgres)) + "&default_transaction_read_only=on"
}

// readOnlyServer is a database for a user with all rights, of a server that takes writes from administrators alone.
func readOnlyServer(t *testing.T, kind servers.Kind) string {
	t.Helper()
	server := start(t, kind)
	dsn := migratedIn(t, server)
	db := open(t, dsn)
	user := userWith(t, dsn, "ALL")
	mustExec(t, db, "GRANT ALL ON firsttime_goose_version TO "+strings.SplitN(user, ":", 2)[0], "SET GLOBAL read_only = ON")
	return user
}
