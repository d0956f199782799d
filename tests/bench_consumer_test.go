package tests

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/rabbitmq"
	"github.com/firsttime-go/firsttime/tests/servers"
)

// BenchmarkEndToEnd takes messages from RabbitMQ with 16 handlers, claims and confirms their keys in
// PostgreSQL and acknowledges them. Its floor does the same with the broker's client and two prepared
// statements.
func BenchmarkEndToEnd(b *testing.B) {
	const handlers = 16
	d := postgresDB
	b.Run("impl=floor", func(b *testing.B) {
		q := newBenchQueue(b)
		db := d.pool(b)
		f := floorOf(d)
		claim, confirm := prepare(b, db, f.claim), prepare(b, db, f.confirm)
		q.fill(b, b.N)
		b.ResetTimer()
		if err := q.ch.Qos(2*handlers, 0, false); err != nil {
			b.Fatal(err)
		}
		deliveries, err := q.ch.Consume(q.name, "", false, false, false, false, nil)
		if err != nil {
			b.Fatal(err)
		}
		var left atomic.Int64
		left.Store(int64(b.N))
		var workers sync.WaitGroup
		for range handlers {
			workers.Go(func() {
				for d := range deliveries {
					if err := f.run(b.Context(), claim, confirm, d.MessageId); err != nil {
						b.Error(err)
					}
					if err := d.Ack(false); err != nil {
						b.Error(err)
					}
					if left.Add(-1) == 0 {
						_ = q.ch.Close()
					}
				}
			})
		}
		workers.Wait()
	})
	b.Run("impl=firsttime", func(b *testing.B) {
		q := newBenchQueue(b)
		s := d.store(b, d.pool(b))
		q.fill(b, b.N)
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		var left atomic.Int64
		left.Store(int64(b.N))
		settled := consumer.ObserverFunc(func(_ context.Context, e consumer.Event) {
			if e.Kind == consumer.Settled && left.Add(-1) == 0 {
				cancel()
			}
		})
		err := rabbitmq.Consume(ctx, q.url, q.name, func(context.Context, amqp.Delivery) consumer.Ack { return consumer.Accept() },
			rabbitmq.WithStore(s, consumer.WithObserver(settled)), rabbitmq.WithConcurrency(handlers),
			rabbitmq.WithLogger(slog.New(slog.DiscardHandler)), rabbitmq.WithOnConnection(func(up bool) {
				if up { // the floor's connection is there before its time is taken, too
					b.ResetTimer()
				}
			}))
		if err != nil {
			b.Fatal(err)
		}
	})
}

// benchQueue is a queue of its own, with the consumer's other queues there already.
type benchQueue struct {
	url, name string
	ch        *amqp.Channel
}

func newBenchQueue(b *testing.B) *benchQueue {
	b.Helper()
	q := &benchQueue{url: servers.Shared(b, servers.RabbitMQ).URL(), name: "firsttime-bench-" + rand.Text()}
	conn, err := amqp.Dial(q.url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	if q.ch, err = conn.Channel(); err != nil {
		b.Fatal(err)
	}
	if _, err := q.ch.QueueDeclare(q.name, true, false, false, false, nil); err != nil {
		b.Fatal(err)
	}
	ended, cancel := context.WithCancel(b.Context())
	err = rabbitmq.Consume(ended, q.url, q.name, func(context.Context, amqp.Delivery) consumer.Ack { return consumer.Accept() },
		rabbitmq.WithLogger(slog.New(slog.DiscardHandler)), rabbitmq.WithOnConnection(func(bool) { cancel() }))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ch, err := conn.Channel()
		if err != nil {
			b.Error(err)
			return
		}
		for _, behind := range []string{"", ".dlq", ".retry.1000", ".retry.2000", ".retry.4000", ".retry.8000", ".retry.16000",
			".retry.32000", ".retry.60000", ".wait.1000", ".wait.5000", ".wait.30000"} {
			if _, err := ch.QueueDelete(q.name+behind, false, false, false); err != nil {
				b.Error(err)
			}
		}
	})
	return q
}

// fill puts n messages into the queue and waits until the broker has them.
func (q *benchQueue) fill(b *testing.B, n int) {
	b.Helper()
	if err := q.ch.Confirm(false); err != nil {
		b.Fatal(err)
	}
	confirmations := make([]*amqp.DeferredConfirmation, n)
	for i := range n {
		var err error
		confirmations[i], err = q.ch.PublishWithDeferredConfirm("", q.name, true, false,
			amqp.Publishing{MessageId: fmt.Sprintf("order-%d-%d", n, i), DeliveryMode: amqp.Persistent})
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range confirmations {
		if !c.Wait() {
			b.Fatal("the broker did not take a message")
		}
	}
}
