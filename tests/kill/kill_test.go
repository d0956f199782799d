package kill

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	amqp "github.com/rabbitmq/amqp091-go"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/dialects/all"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/tests/servers"
)

const (
	workers  = 4
	lease    = 2 * time.Second
	interval = 300 * time.Millisecond
	// patience is for a run to come to its end after its last disturbance.
	patience = 4 * time.Minute
)

// run is one test: the service on a database, with a fault beside the killing of its workers.
type run struct {
	kind    string // of database
	server  servers.Kind
	dialect string
	driver  string
	fault   fault
	outside bool          // the charge is not in the key's transaction
	work    time.Duration // per charge; on SQLite it keeps all other writers waiting

	concurrency int // of each worker
}

type fault string

const (
	nothing  fault = "nothing"
	broker   fault = "RabbitMQ, twice"
	database fault = "database by SIGKILL, twice"
)

func (r run) where() string {
	if r.outside {
		return "outside the transaction"
	}
	return "in the transaction"
}

func runs() []run {
	sqlite := run{kind: "SQLite", dialect: "sqlite", driver: "sqlite", work: 10 * time.Millisecond, concurrency: 4}
	postgres := run{kind: "PostgreSQL", server: servers.Postgres, dialect: "postgres", driver: "pgx", work: 100 * time.Millisecond, concurrency: 4}
	mariadb := run{kind: "MariaDB", server: servers.MariaDB, dialect: "mysql", driver: "mysql", work: 100 * time.Millisecond, concurrency: 4}
	var all []run
	for _, r := range []run{sqlite, postgres, mariadb} {
		for _, f := range []fault{nothing, broker, database} {
			if f == database && r.server == "" {
				continue // SQLite dies with its workers
			}
			r.fault = f
			all = append(all, r)
		}
	}
	postgres.fault, postgres.outside = nothing, true
	return append(all, postgres)
}

// Orders are charged exactly once while workers die. A charge outside of the transaction is there to show
// what the transaction is good for: its doubles are counted and are no failure.
func TestOrdersAreChargedOnceWhileProcessesDie(t *testing.T) {
	for _, r := range runs() {
		t.Run(fmt.Sprintf("%s, charge %s, restart of %s", r.kind, r.where(), r.fault), func(t *testing.T) {
			result := r.do(t)
			result.record()
			t.Logf("%d orders in %d messages, %d workers killed, %d restarts: %d charges, %d missing, %d double, %d dead letters",
				*orders, result.messages, result.kills, result.restarts, result.charges, result.missing, result.double, result.deadEnd)
			if result.missing != 0 || result.deadEnd != 0 || result.double != 0 && !r.outside {
				t.Error("an order was lost, was charged twice, or ended among the dead letters")
			}
			if result.kills < 3 {
				t.Errorf("only %d workers were killed", result.kills)
			}
		})
	}
}

func (r run) do(t *testing.T) result {
	s := r.setUp(t)
	f := s.startFleet(t, r, workers)
	s.waitFor(t, "the queue", func() bool { return s.ready(s.queue) >= 0 })
	result := result{run: r, messages: s.publishOrders(t, *orders, 0.3)}

	stop := make(chan struct{})
	var killing sync.WaitGroup
	killing.Go(func() { f.killAtRandom(interval, stop) })
	for n := range 2 {
		s.waitFor(t, "progress", func() bool { return s.charged() >= *orders*(n+1)/3 })
		s.disturb(t, r.fault, n)
	}
	s.waitFor(t, "all charges", func() bool { return s.charged() >= *orders })
	close(stop)
	killing.Wait()

	// What the dead have left is taken over, and what waits comes back.
	s.waitFor(t, "all keys confirmed", func() bool {
		return s.count("SELECT COUNT(*) FROM firsttime_keys WHERE state = 'CONFIRMED'") >= *orders
	})
	s.waitFor(t, "empty queues", func() bool { return s.waiting() == 0 })
	f.terminate(40 * time.Second)
	s.waitFor(t, "empty queues", func() bool { return s.waiting() == 0 })

	if n := s.count("SELECT COUNT(*) FROM firsttime_keys WHERE state <> 'CONFIRMED'"); n != 0 {
		t.Errorf("%d claims were left behind", n)
	}
	result.kills, result.restarts = f.counts()
	result.charges = s.count("SELECT COUNT(*) FROM charges")
	charged := s.charged()
	result.missing, result.double = *orders-charged, result.charges-charged
	result.deadEnd = s.ready(s.queue + ".dlq")
	return result
}

// site is what the workers of one run use.
type site struct {
	t       *testing.T
	rabbit  *servers.Server
	server  *servers.Server // nil for SQLite
	queue   string
	dsn     string
	dialect dialects.Dialect
	db      *sql.DB
}

func (r run) setUp(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, queue: "payments-" + strings.ToLower(rand.Text()[:8])}
	var err error
	if r.fault == broker {
		s.rabbit = start(t, servers.RabbitMQ)
	} else {
		s.rabbit = servers.Shared(t, servers.RabbitMQ)
	}
	switch {
	case r.server == "":
		s.dsn = "file:" + filepath.Join(t.TempDir(), "payments.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate"
	case r.fault == database:
		s.server = start(t, r.server)
		s.dsn = s.server.Database(t)
	default:
		s.server = servers.Shared(t, r.server)
		s.dsn = s.server.Database(t)
	}
	if s.dialect, err = all.ByName(r.dialect); err != nil {
		t.Fatal(err)
	}
	if s.db, err = sql.Open(r.driver, s.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.db.Close() })
	if err := migrations.Up(t.Context(), s.db, s.dialect); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) startFleet(t *testing.T, r run, size int) *fleet {
	t.Helper()
	return startFleet(t, size, build(t, "payments"), "-amqp", s.rabbit.URL(), "-queue", s.queue,
		"-dialect", r.dialect, "-dsn", s.dsn, "-lease", lease.String(), "-concurrency", fmt.Sprint(r.concurrency),
		"-work", r.work.String(), fmt.Sprintf("-outside-transaction=%v", r.outside))
}

func start(t *testing.T, kind servers.Kind) *servers.Server {
	t.Helper()
	s, err := servers.Start(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Kill() })
	return s
}

// disturb restarts what is to be restarted. RabbitMQ is stopped in an orderly way the first time, because it
// answers the declaration of a queue before it is safe from a kill.
func (s *site) disturb(t *testing.T, f fault, n int) {
	t.Helper()
	var server *servers.Server
	var end func() error
	switch f {
	case nothing:
		return
	case broker:
		server, end = s.rabbit, s.rabbit.Kill
		if n == 0 {
			end = s.rabbit.Stop
		}
	case database:
		server, end = s.server, s.server.Kill
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// publishOrders returns the number of messages.
func (s *site) publishOrders(t *testing.T, orders int, duplicates float64) int {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), build(t, "publish"), "-amqp", s.rabbit.URL(), "-queue", s.queue,
		"-orders", fmt.Sprint(orders), "-duplicates", fmt.Sprint(duplicates)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	var ordered, messages int
	if _, err := fmt.Sscanf(string(output), "%d orders in %d messages", &ordered, &messages); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return messages
}

func (s *site) waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within %v: %d orders charged, %d keys confirmed, %d claimed, %d messages waiting, %d dead letters", what, patience,
				s.charged(), s.count("SELECT COUNT(*) FROM firsttime_keys WHERE state = 'CONFIRMED'"),
				s.count("SELECT COUNT(*) FROM firsttime_keys WHERE state <> 'CONFIRMED'"), s.waiting(), s.ready(s.queue+".dlq"))
		}
	}
}

// charged is the number of orders that have a charge, -1 while the database does not answer.
func (s *site) charged() int { return s.count("SELECT COUNT(DISTINCT order_id) FROM charges") }

func (s *site) count(query string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	n := -1
	if err := s.db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return -1
	}
	return n
}

// waiting is the number of messages that no worker has, dead letters apart, -1 while the broker does not
// answer.
func (s *site) waiting() int {
	sum := 0
	for _, behind := range []string{"", ".retry.1000", ".retry.2000", ".retry.4000", ".retry.8000", ".retry.16000",
		".retry.32000", ".retry.60000", ".wait.1000", ".wait.5000", ".wait.30000"} {
		n := s.ready(s.queue + behind)
		if n < 0 {
			return -1
		}
		sum += n
	}
	return sum
}

// ready is the number of messages in a queue that no consumer has, -1 if the queue is not there.
func (s *site) ready(queue string) int {
	conn, err := amqp.Dial(s.rabbit.URL())
	if err != nil {
		return -1
	}
	defer conn.Close() //nolint:errcheck // only read from
	ch, err := conn.Channel()
	if err != nil {
		return -1
	}
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return -1
	}
	return q.Messages
}
