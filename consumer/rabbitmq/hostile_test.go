package rabbitmq_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/rabbitmq"
	"github.com/firsttime-go/firsttime/store"
)

// nilError panics when it is asked anything: the classic nil pointer in an interface.
type nilError struct{ cause error }

func (e *nilError) Error() string { return e.cause.Error() }
func (e *nilError) Unwrap() error { return e.cause }

func TestAnErrorThatPanicsEndsAmongTheDeadLettersLikeAnyOther(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue, m := b.queue(), memory(t)
	stop := b.consume(queue, func(context.Context, amqp.Delivery) consumer.Ack {
		var err *nilError
		return consumer.FromError(err)
	}, fast(2), rabbitmq.WithStore(m))
	b.publish("", queue, message("A-1"))
	dead := b.take(queue + ".dlq")
	if err := stop(); err != nil {
		t.Error(err)
	}
	if text, _ := dead.Headers[rabbitmq.HeaderError].(string); !strings.Contains(text, "nilError") || m.Len() != 0 {
		t.Errorf("error %q, %d keys", text, m.Len())
	}
}

func TestAHandlerThatEndsItsGoroutineCostsNoWorker(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue, s := b.queue(), newSeen()
	stop := b.consume(queue, func(_ context.Context, d amqp.Delivery) consumer.Ack {
		if s.add(d); d.MessageId == "ends" {
			runtime.Goexit()
		}
		return consumer.Accept()
	}, fast(2), rabbitmq.WithConcurrency(1))
	b.publish("", queue, message("ends"), message("A-1"))
	s.wait(t, 3)
	if dead := b.take(queue + ".dlq"); dead.MessageId != "ends" {
		t.Errorf("dead letter %q", dead.MessageId)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Somebody else does the work, or did it: that is no reason to give the message up.
func TestALostClaimSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue, m, s := b.queue(), memory(t), newSeen()
	scoped, err := m.Scope(queue)
	if err != nil {
		t.Fatal(err)
	}
	stop := b.consume(queue, func(ctx context.Context, d amqp.Delivery) consumer.Ack {
		if s.add(d) > 1 {
			return consumer.Accept()
		}
		m.EndLeases() // this process stood still, and another one took over
		other, err := scoped.Claim(ctx, d.MessageId)
		if err != nil || !other.Outcome().Held() {
			t.Error(other, err)
		}
		lost := consumer.ClaimFrom(ctx).Confirm(ctx)
		if err := other.Forget(ctx); err != nil {
			t.Error(err)
		}
		return consumer.Reject(fmt.Errorf("commit: %w", lost))
	}, fast(1), rabbitmq.WithStore(m, quietly))
	b.publish("", queue, message("A-1"))
	s.wait(t, 2)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := b.ready(queue + ".dlq"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// A handler whose claim is lost is canceled. Whatever it says then is no verdict on the message.
func TestAHandlerThatIsCanceledForItsLostClaimRejectsNothing(t *testing.T) {
	m, err := store.NewMemory(store.WithLease(300 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	handle := consumer.Idempotent(m, rabbitmq.Key, func(ctx context.Context, d amqp.Delivery) consumer.Ack {
		m.EndLeases()
		if c, err := m.Claim(context.WithoutCancel(ctx), d.MessageId); err != nil || !c.Outcome().Held() {
			t.Error(c, err)
		}
		<-ctx.Done()
		return consumer.Reject(fmt.Errorf("query: %w", ctx.Err()))
	}, quietly)
	if ack := handle(t.Context(), amqp.Delivery{MessageId: "A-1"}); ack.Verdict() != consumer.VerdictRetry || ack.SpendsAttempt() {
		t.Errorf("answer %v", ack)
	}
}

// The queue is deleted while all workers are busy: there are two signs of it, and either may be seen first.
func TestAQueueThatIsDeletedUnderBusyWorkersIsLeft(t *testing.T) {
	t.Parallel()
	b := shared(t)
	for range 5 {
		queue := b.queue()
		begun, proceed := make(chan struct{}, 10), make(chan struct{})
		stop := b.consume(queue, func(context.Context, amqp.Delivery) consumer.Ack {
			begun <- struct{}{}
			<-proceed
			return consumer.Accept()
		}, fast(3), rabbitmq.WithConcurrency(1), rabbitmq.WithPrefetch(2))
		b.publish("", queue, message("A-1"), message("A-2"))
		<-begun
		if _, err := b.ch.QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		close(proceed)
		wantEnd(t, patience, stop)
	}
}

func wantEnd(t *testing.T, limit time.Duration, stop func() error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	select {
	case err := <-ended:
		t.Logf("Consume returned %v", err)
	case <-time.After(limit):
		stacks := make([]byte, 1<<20)
		t.Fatalf("Consume does not end within %v:\n%s", limit, stacks[:runtime.Stack(stacks, true)])
	}
}

// A broker that is out of memory reads nothing more from a connection that publishes.
func TestConsumeEndsWhileTheBrokerIsOutOfMemory(t *testing.T) {
	t.Parallel()
	server := startBroker(t)
	b := connect(t, server.URL())
	begun, proceed := make(chan struct{}, 10), make(chan struct{})
	stop := b.consume("orders", func(context.Context, amqp.Delivery) consumer.Ack {
		begun <- struct{}{}
		<-proceed
		return consumer.Reject(errHandler)
	}, fast(3), rabbitmq.WithDrainTimeout(time.Second))
	b.publish("", "orders", message("A-1"), message("A-2"))
	<-begun
	<-begun
	const control = "/usr/lib/rabbitmq/bin/rabbitmqctl"
	if _, err := server.Run(t.Context(), control, "set_vm_memory_high_watermark", "0.00001"); err != nil {
		t.Fatal(err)
	}
	close(proceed)
	time.Sleep(time.Second) // for the workers to wait for the broker
	wantEnd(t, 30*time.Second, stop)
	if _, err := server.Run(t.Context(), control, "set_vm_memory_high_watermark", "0.4"); err != nil {
		t.Fatal(err)
	}
	b = connect(t, server.URL())
	for deadline := time.Now().Add(patience); b.ready("orders")+b.ready("orders.dlq") < 2; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d messages and %d dead letters of 2 messages", b.ready("orders"), b.ready("orders.dlq"))
		}
	}
}

// A network that swallows everything must not keep handlers from being told to end.
func TestHandlersAreEndedInTimeWhenTheBrokerIsSilent(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue := b.queue()
	through, swallow := hole(t, b.url)
	ended := make(chan time.Duration, 1)
	begun := make(chan struct{})
	var asked atomic.Int64
	stop := connect(t, through).consume(queue, func(ctx context.Context, _ amqp.Delivery) consumer.Ack {
		close(begun)
		<-ctx.Done()
		ended <- time.Since(time.UnixMilli(asked.Load()))
		return consumer.Retry(errHandler)
	}, rabbitmq.WithDrainTimeout(500*time.Millisecond))
	b.publish("", queue, message("A-1"))
	<-begun
	swallow()
	asked.Store(time.Now().UnixMilli())
	wantEnd(t, 20*time.Second, stop)
	if took := <-ended; took > 5*time.Second {
		t.Errorf("the handler was told after %v, want half a second", took)
	}
}

// hole is a proxy that can swallow everything.
func hole(t *testing.T, address string) (through string, swallow func()) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	broker := u.Host
	u.Host = listener.Addr().String()
	var swallows atomic.Bool
	relay := func(from, to net.Conn) {
		defer to.Close()
		_, _ = io.Copy(gate{to, &swallows}, from)
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", broker)
			if err != nil {
				client.Close()
				return
			}
			go relay(client, server)
			go relay(server, client)
		}
	}()
	return u.String(), func() { swallows.Store(true) }
}

// gate writes, or only says so.
type gate struct {
	to       io.Writer
	swallows *atomic.Bool
}

func (g gate) Write(p []byte) (int, error) {
	if g.swallows.Load() {
		return len(p), nil
	}
	return g.to.Write(p)
}

func TestOneConfigurationServesManyConsumers(t *testing.T) {
	t.Parallel()
	b := shared(t)
	config := amqp.Config{Heartbeat: 10 * time.Second, Locale: "en_US", Properties: amqp.Table{"product": "mine"}}
	queue, s := b.queue(), newSeen()
	stops := make(chan func() error, 8)
	for range cap(stops) {
		go func() { stops <- b.consume(queue, s.accept, rabbitmq.WithConfig(config)) }()
	}
	for range cap(stops) {
		if err := (<-stops)(); err != nil {
			t.Error(err)
		}
	}
	if len(config.Properties) != 1 {
		t.Errorf("properties changed: %v", config.Properties)
	}
}
