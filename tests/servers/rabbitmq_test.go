package servers

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The queue is declared before the stop, for the reason that Kill gives.
func TestABrokerKeepsItsMessagesOverStopAndKill(t *testing.T) {
	t.Parallel()
	s := start(t, RabbitMQ)
	if _, err := channel(t, s).QueueDeclare("orders", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		name string
		end  func() error
	}{{"stop", s.Stop}, {"kill", s.Kill}} {
		publish(t, s, "orders", way.name)
		if err := way.end(); err != nil {
			t.Fatal(err)
		}
		if conn, err := amqp.Dial(s.URL()); err == nil {
			_ = conn.Close()
			t.Errorf("after %s the broker still answers", way.name)
		}
		restart(t, s)
		if body := take(t, s, "orders"); body != way.name {
			t.Errorf("after %s and restart: message %q", way.name, body)
		}
	}
	if !s.Private() || !strings.HasPrefix(s.Version(), "RabbitMQ ") {
		t.Errorf("private %v, version %q", s.Private(), s.Version())
	}
}

func channel(t *testing.T, s *Server) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// publish sends a durable message and waits until the broker has it on disk.
func publish(t *testing.T, s *Server, queue, body string) {
	t.Helper()
	ch := channel(t, s)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirmation, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, true, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	if acked, err := confirmation.WaitContext(t.Context()); err != nil || !acked {
		t.Fatalf("the broker did not confirm: %v, %v", acked, err)
	}
}

func take(t *testing.T, s *Server, queue string) string {
	t.Helper()
	message, ok, err := channel(t, s).Get(queue, true)
	if err != nil || !ok {
		t.Fatalf("no message: %v", err)
	}
	return string(message.Body)
}
