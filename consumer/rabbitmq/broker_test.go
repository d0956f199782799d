package rabbitmq_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/rabbitmq"
	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/tests/servers"
)

func TestMain(m *testing.M) {
	code := m.Run()
	servers.Cleanup()
	os.Exit(code)
}

// patience is how long a test waits for what must happen soon.
const patience = time.Minute

var (
	errHandler = errors.New("the handler failed")
	quiet      = rabbitmq.WithLogger(slog.New(slog.DiscardHandler))
	quietly    = consumer.WithLogger(slog.New(slog.DiscardHandler))
)

// fast is a ladder that a test can wait for.
func fast(attempts int) rabbitmq.Option {
	return rabbitmq.WithLadder(rabbitmq.Ladder{
		MaxAttempts: attempts, Initial: 50 * time.Millisecond, Max: 200 * time.Millisecond, Factor: 2, Jitter: 0.2,
	})
}

// broker is a test's view of RabbitMQ.
type broker struct {
	*testing.T
	url string
	ch  *amqp.Channel
}

func shared(t *testing.T) *broker {
	t.Helper()
	return connect(t, servers.Shared(t, servers.RabbitMQ).URL())
}

func connect(t *testing.T, url string) *broker {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return &broker{t, url, ch}
}

// queue is the name of a new queue, which is deleted at the end with those beside it. It is created by the
// consumer, unless declare creates it before.
func (b *broker) queue() string {
	b.Helper()
	name := "firsttime-test-" + rand.Text()
	b.Cleanup(func() {
		for _, behind := range []string{"", ".dlq", ".retry.50", ".retry.100", ".retry.200", ".wait.1000", ".wait.5000", ".wait.30000"} {
			_, _ = b.ch.QueueDelete(name+behind, false, false, false)
		}
	})
	return name
}

func (b *broker) declare(name string, args amqp.Table) {
	b.Helper()
	if _, err := b.ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		b.Fatal(err)
	}
}

// publish puts messages into a queue, or to an exchange, and waits until the broker has them.
func (b *broker) publish(exchange, key string, messages ...amqp.Publishing) {
	b.Helper()
	for _, m := range messages {
		m.DeliveryMode = amqp.Persistent
		confirmation, err := b.ch.PublishWithDeferredConfirmWithContext(b.Context(), exchange, key, exchange == "", false, m)
		if err != nil {
			b.Fatal(err)
		}
		if acked, err := confirmation.WaitContext(b.Context()); err != nil || !acked {
			b.Fatalf("not confirmed: %v, %v", acked, err)
		}
	}
}

func message(id string) amqp.Publishing {
	return amqp.Publishing{MessageId: id, Body: []byte("body of " + id)}
}

// again is a dead letter as an operator moves it back.
func again(d amqp.Delivery) amqp.Publishing {
	return amqp.Publishing{
		Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, Priority: d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId, Timestamp: d.Timestamp,
		Type: d.Type, AppId: d.AppId, Body: d.Body,
	}
}

// ready is how many messages wait in a queue. Those that a consumer has do not count.
func (b *broker) ready(name string) int {
	b.Helper()
	q, err := b.ch.QueueDeclarePassive(name, true, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	return q.Messages
}

// take waits for a message in a queue and takes it.
func (b *broker) take(name string) amqp.Delivery {
	b.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		d, ok, err := b.ch.Get(name, true)
		if err != nil {
			b.Fatal(err)
		}
		if ok {
			return d
		}
		if time.Now().After(deadline) {
			b.Fatalf("no message in %q", name)
		}
	}
}

// consume consumes a queue until stop is called, which returns what Consume returned. It has begun when
// consume returns.
func (b *broker) consume(queue string, handle rabbitmq.Handler, options ...rabbitmq.Option) (stop func() error) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	up := make(chan struct{})
	var once sync.Once
	ended := make(chan error, 1)
	all := append([]rabbitmq.Option{
		quiet, rabbitmq.WithOnConnection(func(bool) { once.Do(func() { close(up) }) }),
	}, options...)
	go func() { ended <- rabbitmq.Consume(ctx, b.url, queue, handle, all...) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	b.Cleanup(func() { _ = stop() })
	select {
	case <-up:
	case err := <-ended:
		b.Fatalf("Consume returned %v", err)
	case <-time.After(patience):
		b.Fatal("Consume does not consume")
	}
	return stop
}

// seen collects deliveries.
type seen struct {
	mu   sync.Mutex
	all  []amqp.Delivery
	at   []time.Time
	news chan struct{}
}

func newSeen() *seen { return &seen{news: make(chan struct{}, 1)} }

func (s *seen) add(d amqp.Delivery) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.at = append(s.all, d), append(s.at, time.Now())
	select {
	case s.news <- struct{}{}:
	default:
	}
	return len(s.all)
}

// wait waits until at least n deliveries are there, and returns them.
func (s *seen) wait(t *testing.T, n int) []amqp.Delivery {
	t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		all := s.all
		s.mu.Unlock()
		if len(all) >= n {
			return all
		}
		select {
		case <-s.news:
		case <-deadline:
			t.Fatalf("%d deliveries, want %d", len(all), n)
		}
	}
}

func (s *seen) ids() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := map[string]int{}
	for _, d := range s.all {
		ids[d.MessageId]++
	}
	return maps.Clone(ids)
}

func (s *seen) accept(_ context.Context, d amqp.Delivery) consumer.Ack {
	s.add(d)
	return consumer.Accept()
}

func memory(t *testing.T) *store.Memory {
	t.Helper()
	m, err := store.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	return m
}
