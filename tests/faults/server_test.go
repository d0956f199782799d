package faults

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/tests/servers"
)

// serverFault is something that happens to a whole server.
type serverFault struct {
	name string
	// prepare readies the site for the load; may be nil.
	prepare func(t *testing.T, s *site)
	// pool changes the load's pool; may be nil.
	pool func(db *sql.DB)
	// strike lets it happen once, and ends when it is over.
	strike func(t *testing.T, s *site)
	// sign is the error, for each database, by which it is seen that the fault was there; none is needed
	// where the map has none.
	sign map[string]string
}

// How long a fault lasts that is switched on and off. A refusal lasts longer than the store tries again.
const (
	short   = 400 * time.Millisecond
	refusal = time.Second
)

// A server that is killed, refuses to write, is full, or runs into time limits.
func TestNothingIsLostOrDoubledWhenAServerFails(t *testing.T) {
	for _, d := range withServers() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			server, err := servers.Start(t.Context(), d.server)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range serverFaults() {
				t.Run(f.name, func(t *testing.T) {
					prove(t, f.name, d.name, func(t *testing.T) outcome {
						s := newSite(t, d, server)
						s.unprivileged(t)
						if f.prepare != nil {
							f.prepare(t, s)
						}
						l := startLoad(t, s, func(db *sql.DB) {
							if f.pool != nil {
								f.pool(db)
							}
						})
						l.disturb(strikes(), func() { f.strike(t, s) })
						o := l.finish()
						o.figures = map[string]int{"strikes": strikes()}
						if sign := f.sign[d.name]; sign != "" && l.seen.of(sign) == 0 {
							t.Errorf("no consumer met error %s: this showed less than it claims", sign)
						}
						return o
					})
				})
			}
		})
	}
}

func serverFaults() []serverFault {
	if !*long {
		return []serverFault{killed()}
	}
	return []serverFault{killed(), readOnly(), full(), lockTimeout(), statementTimeout()}
}

func killed() serverFault {
	return serverFault{
		name: "server killed by SIGKILL and restarted",
		strike: func(t *testing.T, s *site) {
			if err := s.server.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := s.server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func readOnly() serverFault {
	set := func(t *testing.T, s *site, on string) {
		if s.driver == "mysql" {
			s.execute(t, "SET GLOBAL read_only = "+on)
			return
		}
		s.execute(t, "ALTER SYSTEM SET default_transaction_read_only = "+on)
		s.execute(t, "SELECT pg_reload_conf()")
	}
	return serverFault{
		name: "database read-only for a while",
		strike: func(t *testing.T, s *site) {
			set(t, s, "on")
			time.Sleep(refusal)
			set(t, s, "off")
		},
		sign: map[string]string{"PostgreSQL": "25006", "MariaDB": "1290", "MySQL": "1290"},
	}
}

// full is a server that has no connection left, for consumers that need new ones all the time.
func full() serverFault {
	const limit = "20"
	return serverFault{
		name: "server's connections used up for a while",
		prepare: func(t *testing.T, s *site) {
			on, off := "ALTER ROLE app CONNECTION LIMIT "+limit, "ALTER ROLE app CONNECTION LIMIT -1"
			if s.driver == "mysql" {
				on, off = "SET GLOBAL max_connections = "+limit, "SET GLOBAL max_connections = 300"
			}
			s.execute(t, on)
			t.Cleanup(func() {
				if _, err := s.direct.Exec(off); err != nil {
					t.Error(err)
				}
			})
		},
		pool: func(db *sql.DB) { db.SetConnMaxLifetime(20 * time.Millisecond) },
		strike: func(t *testing.T, s *site) {
			db := s.open(t, s.dsn)
			defer db.Close() // after its connections, which would stay open in it
			for end := time.Now().Add(refusal); time.Now().Before(end); time.Sleep(time.Millisecond) {
				if conn, err := db.Conn(t.Context()); err == nil { // taken as soon as it is free
					defer conn.Close()
				}
			}
		},
		sign: map[string]string{"PostgreSQL": "53300", "MariaDB": "1040", "MySQL": "1040"},
	}
}

func lockTimeout() serverFault {
	return serverFault{
		name: "lock time-out",
		prepare: func(t *testing.T, s *site) {
			if s.driver == "mysql" {
				s.withSettings(t, map[string]string{"innodb_lock_wait_timeout": "1"})
			} else {
				s.withSettings(t, map[string]string{"lock_timeout": "100"})
			}
		},
		strike: func(t *testing.T, s *site) {
			if s.driver == "mysql" {
				lockRows(t, s, 1500*time.Millisecond)
			} else {
				lockTable(t, s, short)
			}
		},
	}
}

func statementTimeout() serverFault {
	return serverFault{
		name: "statement time-out",
		prepare: func(t *testing.T, s *site) {
			s.withSettings(t, map[string]map[string]string{
				"PostgreSQL": {"statement_timeout": "100"},
				"MariaDB":    {"max_statement_time": "0.1"},
				"MySQL":      {"max_execution_time": "100"}, // of a SELECT
			}[s.name])
		},
		strike: func(t *testing.T, s *site) { lockTable(t, s, short) },
		sign:   map[string]string{"PostgreSQL": "57014", "MariaDB": "1969"},
	}
}

// lockRows locks all keys, and the gaps between them.
func lockRows(t *testing.T, s *site, d time.Duration) {
	t.Helper()
	tx, err := s.direct.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing happens in it
	if _, err := tx.ExecContext(t.Context(), "DELETE FROM firsttime_keys WHERE attempts < 0"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(d)
}

// lockTable locks the table of keys against all others.
func lockTable(t *testing.T, s *site, d time.Duration) {
	t.Helper()
	conn, err := s.direct.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lock, unlock := []string{"BEGIN", "LOCK TABLE firsttime_keys IN ACCESS EXCLUSIVE MODE"}, "COMMIT"
	if s.driver == "mysql" {
		lock, unlock = []string{"LOCK TABLES firsttime_keys WRITE"}, "UNLOCK TABLES"
	}
	for _, statement := range lock {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(d)
	if _, err := conn.ExecContext(context.WithoutCancel(t.Context()), unlock); err != nil {
		t.Fatal(err)
	}
}
