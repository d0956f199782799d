package rabbitmq_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/consumer/rabbitmq"
)

// strange is a message with everything that could get lost or do harm on its way.
func strange() amqp.Publishing {
	return amqp.Publishing{
		Headers: amqp.Table{
			"text": "x", "number": int32(7), "flag": true, "list": []any{"a", int64(1)}, "table": amqp.Table{"k": "v"},
			"bytes": []byte{0, 255}, "when": time.Unix(1_700_000_000, 0).UTC(), "nothing": nil, "x-acemq-id": "A-1",
		},
		ContentType: "application/x-order", ContentEncoding: "gzip", Priority: 3, CorrelationId: "c", ReplyTo: "r",
		Expiration: "600000", MessageId: "A-1", Timestamp: time.Unix(1_700_000_001, 0).UTC(), Type: "order",
		UserId: "guest", AppId: "shop", Body: []byte{0, 1, 254, 255},
	}
}

// wantSame compares what must go round unchanged.
func wantSame(t *testing.T, got amqp.Delivery, want amqp.Publishing, exchange, key string) {
	t.Helper()
	if when, ok := got.Headers["when"].(time.Time); ok {
		got.Headers["when"] = when.UTC() // the client makes it local time
	}
	for header := range got.Headers {
		if strings.HasPrefix(header, "x-death") || strings.HasPrefix(header, "x-first-death") ||
			strings.HasPrefix(header, "x-last-death") || header == "x-delivery-count" {
			delete(got.Headers, header) // the broker's own
		}
	}
	have := amqp.Publishing{
		Headers: got.Headers, ContentType: got.ContentType, ContentEncoding: got.ContentEncoding, Priority: got.Priority,
		CorrelationId: got.CorrelationId, ReplyTo: got.ReplyTo, Expiration: got.Expiration, MessageId: got.MessageId,
		Timestamp: got.Timestamp.UTC(), Type: got.Type, UserId: got.UserId, AppId: got.AppId, Body: got.Body,
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("message changed on its way:\n%+v\nwant\n%+v", have, want)
	}
	if got.Exchange != exchange || got.RoutingKey != key {
		t.Errorf("published to %q with %q, want %q with %q", got.Exchange, got.RoutingKey, exchange, key)
	}
	if got.DeliveryMode != amqp.Persistent {
		t.Error("the message is not persistent any more")
	}
}

func TestAMessageGoesRoundUnchanged(t *testing.T) {
	t.Parallel()
	b := shared(t)
	for _, kind := range []rabbitmq.QueueType{rabbitmq.Quorum, rabbitmq.Classic} {
		t.Run(string(kind), func(t *testing.T) {
			queue, copies, exchange := b.queue(), b.queue(), "firsttime-test-"+b.queue()
			b.declare(copies, nil)
			if err := b.ch.ExchangeDeclare(exchange, "direct", false, true, false, false, nil); err != nil {
				t.Fatal(err)
			}
			s := newSeen()
			stop := b.consume(queue, func(_ context.Context, d amqp.Delivery) consumer.Ack {
				if d.Ack(false) == nil || d.Nack(false, true) == nil || d.Reject(true) == nil {
					t.Error("a handler could settle its delivery")
				}
				switch s.add(d) {
				case 1:
					return consumer.Retry(errHandler)
				case 2:
					return consumer.RetryAfter(errHandler, 10*time.Millisecond)
				case 3:
					return consumer.Retry(errHandler)
				}
				return consumer.Reject(errHandler)
			}, fast(5), rabbitmq.WithQueueType(kind))
			for _, bound := range []string{queue, copies} {
				if err := b.ch.QueueBind(bound, "order."+bound, exchange, false, nil); err != nil {
					t.Fatal(err)
				}
			}
			m := strange()
			m.Headers["CC"] = []any{"order." + copies}
			b.publish(exchange, "order."+queue, m)
			for _, d := range s.wait(t, 4) {
				wantSame(t, d, m, exchange, "order."+queue)
			}
			dead := b.take(queue + ".dlq")
			if err := stop(); err != nil {
				t.Error(err)
			}
			if dead.MessageId != "A-1" || string(dead.Body) != string(m.Body) || dead.UserId != "" || dead.Headers["CC"] != nil {
				t.Errorf("dead letter %+v", dead)
			}
			for header, want := range map[string]any{
				rabbitmq.HeaderReason: "rejected", rabbitmq.HeaderError: errHandler.Error(), rabbitmq.HeaderQueue: queue,
				rabbitmq.HeaderAttempts: int64(4), "x-firsttime-exchange": exchange, "x-firsttime-routing-key": "order." + queue,
				"x-firsttime-user-id": "guest", "text": "x",
			} {
				if dead.Headers[header] != want {
					t.Errorf("dead letter's header %s = %v, want %v", header, dead.Headers[header], want)
				}
			}
			if n := b.ready(copies); n != 1 {
				t.Errorf("the queue that CC names has %d messages, want 1", n)
			}

			// An operator moves it back: it has all its attempts again, and is what it was.
			s = newSeen()
			stop = b.consume(queue, s.accept, fast(5), rabbitmq.WithQueueType(kind))
			b.publish("", queue, again(dead))
			wantSame(t, s.wait(t, 1)[0], m, exchange, "order."+queue)
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// retryOnce answers Retry to the first delivery and Accept to those after it.
func (s *seen) retryOnce(_ context.Context, d amqp.Delivery) consumer.Ack {
	if s.add(d) == 1 {
		return consumer.Retry(errHandler)
	}
	return consumer.Accept()
}

// A broker drops a message on its way back from a rung if its x-death says that it died in that queue before.
func TestAMessageThatDiedBeforeComesBackFromItsRung(t *testing.T) {
	t.Parallel()
	b := shared(t)
	for _, kind := range []rabbitmq.QueueType{rabbitmq.Quorum, rabbitmq.Classic} {
		for _, reason := range []string{"expired", "delivery_limit"} {
			t.Run(string(kind)+" "+reason, func(t *testing.T) {
				queue, s := b.queue(), newSeen()
				death := []any{amqp.Table{"count": int64(1), "exchange": "", "queue": queue, "reason": reason, "routing-keys": []any{queue}}}
				m := message("A-1")
				m.Headers = amqp.Table{"x-death": death, "x-first-death-queue": queue}
				stop := b.consume(queue, s.retryOnce, fast(5), rabbitmq.WithQueueType(kind))
				b.publish("", queue, m)
				for i, d := range s.wait(t, 2) {
					if fmt.Sprint(d.Headers["x-death"]) != fmt.Sprint(death) || d.Headers["x-first-death-queue"] != queue || len(d.Headers) > 3 {
						t.Errorf("delivery %d has the headers %v", i+1, d.Headers)
					}
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// The consumer's own queues: a message expires while nobody consumes, and is moved back from the dead letters.
func TestAnExpiredMessageThatIsMovedBackIsRetried(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue, s := b.queue(), newSeen()
	if err := b.consume(queue, s.retryOnce, fast(5))(); err != nil {
		t.Fatal(err)
	}
	m := message("A-1")
	m.Expiration = "100"
	b.publish("", queue, m)
	dead := b.take(queue + ".dlq")
	stop := b.consume(queue, s.retryOnce, fast(5))
	b.publish("", queue, again(dead))
	s.wait(t, 2)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestWhatAHandlerDoesToItsDeliveryIsNotPublishedAgain(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue, s := b.queue(), newSeen()
	stop := b.consume(queue, func(ctx context.Context, d amqp.Delivery) consumer.Ack {
		ack := s.retryOnce(ctx, amqp.Delivery{Body: []byte(string(d.Body)), Headers: amqp.Table{"was": fmt.Sprint(d.Headers)}})
		d.Headers["seen"] = []string{"a type that AMQP does not have"}
		d.Headers["table"].(amqp.Table)["k"] = "changed"
		delete(d.Headers, "tenant")
		copy(d.Body, "XXXX")
		return ack
	}, fast(5))
	m := message("A-1")
	m.Headers = amqp.Table{"tenant": "7", "table": amqp.Table{"k": "v"}}
	b.publish("", queue, m)
	for i, d := range s.wait(t, 2) {
		if string(d.Body) != string(m.Body) || d.Headers["was"] != fmt.Sprint(m.Headers) {
			t.Errorf("delivery %d: body %q, headers %v", i+1, d.Body, d.Headers["was"])
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Headers fill a frame: there is no room for ours.
func TestAMessageWithHugeHeadersHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	b := shared(t)
	const huge = 130_900
	routingKeys := make([]any, huge/100)
	for i := range routingKeys {
		routingKeys[i] = strings.Repeat("k", 95)
	}
	for name, test := range map[string]struct {
		answer  consumer.Ack
		headers amqp.Table
	}{
		"rejected": {
			consumer.Reject(fmt.Errorf("%s", strings.Repeat("long ", 1000))), amqp.Table{"huge": strings.Repeat("x", huge)},
		},
		"retried":                {consumer.Retry(errHandler), amqp.Table{"huge": strings.Repeat("x", huge)}},
		"routing keys":           {consumer.Retry(errHandler), amqp.Table{"CC": routingKeys}},
		"headers that look ours": {consumer.Retry(errHandler), amqp.Table{"x-firsttime-huge": strings.Repeat("x", huge)}},
	} {
		t.Run(name, func(t *testing.T) {
			queue, s := b.queue(), newSeen()
			stop := b.consume(queue, func(_ context.Context, d amqp.Delivery) consumer.Ack {
				s.add(d)
				if d.MessageId == "huge" {
					return test.answer
				}
				return consumer.Accept()
			}, fast(3), rabbitmq.WithConcurrency(1))
			huge := message("huge")
			huge.Headers = test.headers
			b.publish("", queue, huge, message("A-1"))
			s.wait(t, 2)
			dead := b.take(queue + ".dlq")
			if dead.MessageId != "huge" || string(dead.Body) != string(huge.Body) || dead.Headers[rabbitmq.HeaderReason] == nil {
				t.Errorf("dead letter %q: %v", dead.MessageId, dead.Headers[rabbitmq.HeaderReason])
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The name of a header has room for 255 bytes, and ours before it makes it longer.
func TestAMessageWithALongHeaderNameHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue, s := b.queue(), newSeen()
	stop := b.consume(queue, s.retryOnce, fast(3), rabbitmq.WithConcurrency(1))
	long := "x-first-death-" + strings.Repeat("n", 240)
	m := message("A-1")
	m.Headers = amqp.Table{long: "v", "tenant": "7"}
	b.publish("", queue, m)
	for i, d := range s.wait(t, 2) {
		if d.Headers[long] != "v" || d.Headers["tenant"] != "7" {
			t.Errorf("delivery %d has the headers %v", i+1, d.Headers)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestAttemptsBeyondAllNumbersAreTooMany(t *testing.T) {
	t.Parallel()
	b := shared(t)
	queue, s := b.queue(), newSeen()
	stop := b.consume(queue, func(_ context.Context, d amqp.Delivery) consumer.Ack {
		s.add(d)
		return consumer.Retry(errHandler)
	}, fast(3))
	m := message("A-1")
	m.Headers = amqp.Table{"x-firsttime-attempt": int64(math.MaxInt64)}
	b.publish("", queue, m)
	s.wait(t, 1)
	if dead := b.take(queue + ".dlq"); dead.Headers[rabbitmq.HeaderReason] != "attempts exhausted" {
		t.Errorf("dead letter: %v", dead.Headers)
	}
	if n := len(s.wait(t, 1)); n != 1 {
		t.Errorf("handled %d times, want once", n)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
