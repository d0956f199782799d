package kill

import (
	"fmt"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/tests/servers"
)

// SIGTERM while fifty handlers run: they finish, the process exits with 0 well before its deadline, and
// neither a claim nor a message is left in between.
func TestSIGTERMLetsFiftyHandlersFinish(t *testing.T) {
	const handlers, published = 50, 120
	for _, r := range []run{
		{kind: "PostgreSQL", server: servers.Postgres, dialect: "postgres", driver: "pgx"},
		{kind: "MariaDB", server: servers.MariaDB, dialect: "mysql", driver: "mysql"},
	} {
		t.Run(r.kind, func(t *testing.T) {
			s := r.setUp(t)
			f := startFleet(t, 1, build(t, "payments"), "-amqp", s.rabbit.URL(), "-queue", s.queue,
				"-dialect", r.dialect, "-dsn", s.dsn, "-concurrency", fmt.Sprint(handlers), "-work", "3s")
			s.waitFor(t, "the queue", func() bool { return s.ready(s.queue) >= 0 })
			s.publishOrders(t, published, 0)
			claimed := func() int { return s.count("SELECT COUNT(*) FROM firsttime_keys WHERE state = 'CLAIMED'") }
			s.waitFor(t, "fifty handlers", func() bool { return claimed() == handlers })

			started := time.Now()
			f.terminate(20 * time.Second)
			t.Logf("it ended after %v", time.Since(started).Round(time.Millisecond))

			confirmed := s.count("SELECT COUNT(*) FROM firsttime_keys WHERE state = 'CONFIRMED'")
			if claimed() != 0 || confirmed != s.charged() || confirmed < handlers {
				t.Errorf("%d claims left behind, %d keys confirmed, %d orders charged", claimed(), confirmed, s.charged())
			}
			s.waitFor(t, "messages given back", func() bool { return s.waiting() == published-confirmed })
			if dead := s.ready(s.queue + ".dlq"); dead != 0 {
				t.Errorf("%d dead letters", dead)
			}
		})
	}
}
