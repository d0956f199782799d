package rabbitmq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/rabbitmq"
	"github.com/firsttime-go/firsttime/store"
	"github.com/firsttime-go/firsttime/tests/servers"
)

func startBroker(t *testing.T) *servers.Server {
	t.Helper()
	s, err := servers.Start(t.Context(), servers.RabbitMQ)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Kill() })
	return s
}

// A handler that is at work while the connection is lost finishes; its message is delivered again over the
// new one, and is found to be a duplicate. Its answer must not settle another message there, which has the
// same number on its channel.
func TestTheConsumerComesBackAfterTheBroker(t *testing.T) {
	t.Parallel()
	server := startBroker(t)
	b := connect(t, server.URL())
	queue := "orders"
	var (
		calls   sync.Map
		double  atomic.Int32
		begun   = make(chan struct{}, 1)
		proceed = make(chan struct{})
		s       = newSeen()
	)
	stop := b.consume(queue, func(_ context.Context, d amqp.Delivery) consumer.Ack {
		if _, again := calls.LoadOrStore(d.MessageId, true); again {
			double.Add(1)
		}
		if d.MessageId == "slow" {
			begun <- struct{}{}
			<-proceed
		}
		s.add(d)
		return consumer.Accept()
	}, rabbitmq.WithStore(memory(t)), rabbitmq.WithConcurrency(4))

	// The broker answers a declaration before it is safe from a kill: see servers.Kill.
	cycle := func(end func() error) {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		b = connect(t, server.URL())
	}
	cycle(server.Stop)
	b.publish("", queue, message("slow"))
	<-begun
	sent := 1
	for _, end := range []func() error{server.Kill, server.Stop, server.Kill} {
		for range 20 {
			b.publish("", queue, message(fmt.Sprint(sent)))
			sent++
		}
		cycle(end)
		for range 20 {
			b.publish("", queue, message(fmt.Sprint(sent)))
			sent++
		}
	}
	close(proceed)
	s.wait(t, sent)
	for deadline := time.Now().Add(patience); b.ready(queue) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the queue is not empty")
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if len(s.ids()) != sent || double.Load() != 0 || b.ready(queue+".dlq") != 0 {
		t.Errorf("%d of %d messages handled, %d of them twice, %d dead letters", len(s.ids()), sent, double.Load(), b.ready(queue+".dlq"))
	}
	if left := b.ready(queue); left != 0 {
		t.Errorf("%d messages left", left)
	}
}

// The broker closes the channel of a consumer that takes too long to acknowledge.
func TestAChannelThatTheBrokerClosesIsOpenedAgain(t *testing.T) {
	t.Parallel()
	server := startBroker(t)
	_, err := server.Run(t.Context(), "/usr/lib/rabbitmq/bin/rabbitmqctl", "eval",
		"application:set_env(rabbit, consumer_timeout, 300), application:set_env(rabbit, channel_tick_interval, 100).")
	if err != nil {
		t.Fatal(err)
	}
	b := connect(t, server.URL())
	var log lockedBuffer
	queue, s := "slow", newSeen()
	proceed := make(chan struct{})
	stop := b.consume(queue, func(_ context.Context, d amqp.Delivery) consumer.Ack {
		<-proceed
		return s.accept(t.Context(), d)
	}, rabbitmq.WithStore(memory(t)), rabbitmq.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	b.publish("", queue, message("A-1"))
	for deadline := time.Now().Add(patience); !strings.Contains(log.String(), "PRECONDITION_FAILED"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the broker's reason is not in the log:\n%s", log.String())
		}
	}
	close(proceed)
	s.wait(t, 1)
	b.publish("", queue, message("A-2"))
	s.wait(t, 2)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if s.ids()["A-1"] != 1 {
		t.Errorf("handled: %v", s.ids())
	}
	if strings.Contains(log.String(), "guest:guest") {
		t.Error("the log has the password")
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestQueuesThatAreDeletedAreCreatedAgain(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue, s := b.queue(), newSeen()
	stop := b.consume(queue, func(_ context.Context, d amqp.Delivery) consumer.Ack {
		if s.add(d) == 1 {
			return consumer.Retry(errHandler)
		}
		return consumer.Accept()
	}, fast(3))
	if _, err := b.ch.QueueDelete(queue+".retry.50", false, false, false); err != nil {
		t.Fatal(err)
	}
	b.publish("", queue, message("A-1")) // its rung is gone
	s.wait(t, 2)
	if _, err := b.ch.QueueDelete(queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		confirmation, err := b.ch.PublishWithDeferredConfirm("", queue, false, false, message("A-2"))
		if err != nil {
			t.Fatal(err)
		}
		confirmation.Wait()
		if s.ids()["A-2"] > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the queue does not come back")
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestShuttingDownLetsFiftyHandlersFinish(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue := b.queue()
	const handlers, messages = 50, 120
	m := memory(t)
	var begun, done atomic.Int32
	proceed := make(chan struct{})
	stop := b.consume(queue, func(ctx context.Context, _ amqp.Delivery) consumer.Ack {
		n := begun.Add(1)
		<-proceed
		if ctx.Err() != nil {
			t.Error("the handler's context ended with the consumer's")
		}
		if n%5 == 0 {
			return consumer.Retry(errHandler)
		}
		done.Add(1)
		return consumer.Accept()
	}, fast(3), rabbitmq.WithStore(m), rabbitmq.WithConcurrency(handlers))
	for n := range messages {
		b.publish("", queue, message(fmt.Sprint(n)))
	}
	for deadline := time.Now().Add(patience); begun.Load() < handlers; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d handlers run", begun.Load())
		}
	}
	ended := make(chan error)
	go func() { ended <- stop() }()
	// What no handler has begun is given back while they still run.
	for deadline := time.Now().Add(patience); b.ready(queue) < messages-handlers; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d messages given back, want %d", b.ready(queue), messages-handlers)
		}
	}
	close(proceed)
	if err := <-ended; err != nil {
		t.Errorf("Consume returned %v", err)
	}
	if begun.Load() != handlers || done.Load() != handlers*4/5 {
		t.Errorf("%d handlers began and %d accepted", begun.Load(), done.Load())
	}
	scoped, err := m.Scope(queue)
	if err != nil {
		t.Fatal(err)
	}
	confirmed := 0
	for n := range messages {
		r, err := scoped.Get(t.Context(), fmt.Sprint(n))
		switch {
		case err == nil && r.Confirmed:
			confirmed++
		case err == nil:
			t.Errorf("a claim was left behind: %+v", r)
		case !errors.Is(err, store.ErrNotFound):
			t.Error(err)
		}
	}
	// Nothing is lost: what was not accepted is in the queue, or on its way back to it.
	s := newSeen()
	again := b.consume(queue, s.accept, fast(3), rabbitmq.WithStore(m))
	s.wait(t, messages-confirmed)
	if err := again(); err != nil {
		t.Error(err)
	}
	if len(s.ids()) != messages-confirmed {
		t.Errorf("%d messages came back, want %d", len(s.ids()), messages-confirmed)
	}
}

func TestHandlersThatTakeTooLongToShutDownAreEnded(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue := b.queue()
	m := memory(t)
	begun := make(chan struct{})
	stop := b.consume(queue, func(ctx context.Context, _ amqp.Delivery) consumer.Ack {
		close(begun)
		<-ctx.Done()
		return consumer.Retry(context.Cause(ctx))
	}, fast(1), rabbitmq.WithStore(m), rabbitmq.WithDrainTimeout(100*time.Millisecond))
	b.publish("", queue, message("A-1"))
	<-begun
	if err := stop(); err != nil {
		t.Errorf("Consume returned %v", err)
	}
	if m.Len() != 0 || b.ready(queue) != 1 || b.ready(queue+".dlq") != 0 {
		t.Errorf("%d claims, %d messages, %d dead letters; want 0, 1, 0", m.Len(), b.ready(queue), b.ready(queue+".dlq"))
	}
}

func TestHandlersThatDoNotEndAreReported(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue := b.queue()
	begun, proceed := make(chan struct{}), make(chan struct{})
	stop := b.consume(queue, func(context.Context, amqp.Delivery) consumer.Ack {
		close(begun)
		<-proceed
		return consumer.Accept()
	}, rabbitmq.WithDrainTimeout(0))
	b.publish("", queue, message("A-1"))
	<-begun
	if err := stop(); !errors.Is(err, rabbitmq.ErrDrainTimeout) {
		t.Errorf("Consume returned %v, want ErrDrainTimeout", err)
	}
	close(proceed)
	b.take(queue) // it is delivered again
}

func TestConsumeConnectsWhenTheBrokerStartsLater(t *testing.T) {
	t.Parallel()
	server := startBroker(t)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s, ended := newSeen(), make(chan error)
	go func() { ended <- rabbitmq.Consume(ctx, server.URL(), "orders", s.accept, quiet) }()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := connect(t, server.URL())
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		confirmation, err := b.ch.PublishWithDeferredConfirm("", "orders", false, false, message("A-1"))
		if err != nil {
			t.Fatal(err)
		}
		confirmation.Wait()
		if len(s.ids()) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the consumer does not connect")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Not parallel: it looks at all goroutines.
func TestConsumeLeavesNoGoroutineBehind(t *testing.T) {
	b := shared(t)
	queue, s := b.queue(), newSeen()
	m := memory(t)
	before := goleak.IgnoreCurrent()
	stop := b.consume(queue, func(_ context.Context, d amqp.Delivery) consumer.Ack {
		if s.add(d) == 1 {
			return consumer.Retry(errHandler)
		}
		return consumer.Accept()
	}, fast(3), rabbitmq.WithStore(m))
	b.publish("", queue, message("A-1"))
	s.wait(t, 2)
	if err := stop(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}

func TestAMessageThatCannotBeMovedIsKeptUntilItCan(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue := b.queue()
	b.declare(queue+".dlq", amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	b.publish("", queue+".dlq", message("fills it"))
	var (
		log   lockedBuffer
		calls atomic.Int32
	)
	stop := b.consume(queue, func(context.Context, amqp.Delivery) consumer.Ack {
		calls.Add(1)
		return consumer.Reject(errHandler)
	}, rabbitmq.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	b.publish("", queue, message("A-1"))
	for deadline := time.Now().Add(patience); strings.Count(log.String(), "could not be moved") < 3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the broker took it, or nobody said that it did not:\n%s", log.String())
		}
	}
	if _, err := b.ch.QueuePurge(queue+".dlq", false); err != nil {
		t.Fatal(err)
	}
	if dead := b.take(queue + ".dlq"); dead.MessageId != "A-1" || calls.Load() != 1 {
		t.Errorf("dead letter %q after %d calls", dead.MessageId, calls.Load())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
