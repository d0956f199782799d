package kill

import (
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/tests/servers"
)

// SIGTERM while fifty handlers run: they finish, the process exits with 0 well before its deadline, and
// neither a claim nor a message is left in between.
func TestSIGTERMLetsFiftyHandlersFinish(t *testing.T) {
	const handlers, published = 50, 120
	for _, r := range []run{
		{kind: "PostgreSQL", server: servers.Postgres, dialect: "postgres", driver: "pgx", work: 3 * time.Second, concurrency: handlers},
		{kind: "MariaDB", server: servers.MariaDB, dialect: "mysql", driver: "mysql", work: 3 * time.Second, concurrency: handlers},
	} {
		t.Run(r.kind, func(t *testing.T) {
			s := r.setUp(t)
			f := s.startFleet(t, r, 1)
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
			// None may be missing. There may be more: acknowledgements can be lost with their channel.
			s.waitFor(t, "messages given back", func() bool { return s.waiting() >= published-confirmed })
			f = s.startFleet(t, r, 1)
			s.waitFor(t, "all charges", func() bool { return s.charged() == published })
			s.waitFor(t, "an empty queue", func() bool { return s.waiting() == 0 })
			f.terminate(20 * time.Second)
			charges, dead := s.count("SELECT COUNT(*) FROM charges"), s.ready(s.queue+".dlq")
			if charges != published || dead != 0 {
				t.Errorf("%d charges of %d orders, %d dead letters", charges, published, dead)
			}
		})
	}
}
