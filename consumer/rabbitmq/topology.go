package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// topology is the queues that one queue's consumer needs.
type topology struct {
	queue  string
	kind   QueueType
	ladder Ladder
	logger *slog.Logger
}

func (t *topology) deadLetters() string { return t.queue + ".dlq" }

// waiting is a queue in which messages wait for ttl at most, and from which they go back.
type waiting struct {
	name string
	ttl  time.Duration
}

func (t *topology) retry(rung time.Duration) waiting {
	return waiting{fmt.Sprintf("%s.retry.%d", t.queue, rung.Milliseconds()), rung}
}

func (t *topology) wait(rung time.Duration) waiting {
	return waiting{fmt.Sprintf("%s.wait.%d", t.queue, rung.Milliseconds()), rung}
}

// declare creates what is missing, but for the rungs of longer waits, which are rarely needed.
func (t *topology) declare(conn *amqp.Connection) error {
	if err := t.declareDeadLetters(conn); err != nil {
		return err
	}
	if err := t.declareMissing(conn, t.queue, t.mainArguments()); err != nil {
		return err
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close() //nolint:errcheck // nothing depends on it
	for _, rung := range t.ladder.rungs() {
		if err := t.declareWaiting(ch, t.retry(rung)); err != nil {
			return err
		}
	}
	for _, rung := range waits[:3] {
		if err := t.declareWaiting(ch, t.wait(rung)); err != nil {
			return err
		}
	}
	return nil
}

func (t *topology) declareDeadLetters(conn *amqp.Connection) error {
	return t.declareMissing(conn, t.deadLetters(), amqp.Table{"x-queue-type": string(t.kind)})
}

// mainArguments let no message be dropped: a quorum queue gives a message up when it was returned too often,
// 20 times from RabbitMQ 4 on, and the crashes of consumers count for that.
func (t *topology) mainArguments() amqp.Table {
	args := amqp.Table{"x-queue-type": string(t.kind)}
	if t.kind == Quorum {
		args["x-delivery-limit"] = int64(1_000_000)
		args["x-dead-letter-exchange"] = ""
		args["x-dead-letter-routing-key"] = t.deadLetters()
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish"
	}
	return args
}

// declareMissing leaves a queue that exists as it is: it may be another's, with other arguments.
func (t *topology) declareMissing(conn *amqp.Connection, name string, args amqp.Table) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	_, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
	if err == nil {
		return ch.Close()
	}
	if !hasCode(err, amqp.NotFound) {
		return fmt.Errorf("queue %q: %w", name, err)
	}
	if ch, err = conn.Channel(); err != nil { // a refusal closes the channel
		return err
	}
	defer ch.Close() //nolint:errcheck // nothing depends on it
	if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		return fmt.Errorf("create the queue %q: %w", name, err)
	}
	t.logger.Info("rabbitmq: queue created", "queue", name)
	return nil
}

// declareWaiting creates a rung if it is missing. Its messages go back to the queue when their time is over.
func (t *topology) declareWaiting(ch *amqp.Channel, w waiting) error {
	args := amqp.Table{
		"x-queue-type":              string(t.kind),
		"x-message-ttl":             w.ttl.Milliseconds(),
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": t.queue,
	}
	if t.kind == Quorum { // the message leaves the rung when the queue has confirmed it, not before
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish"
	}
	if _, err := ch.QueueDeclare(w.name, true, false, false, false, args); err != nil {
		return fmt.Errorf("create the queue %q (if it exists with other settings, delete it when it is empty): %w", w.name, err)
	}
	return nil
}

// dial connects. The broker's greeting is waited for as long as the connection.
func (c *client) dial(ctx context.Context) (*amqp.Connection, error) {
	const limit = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	config := c.config
	dialTCP := config.Dial
	if dialTCP == nil {
		dialTCP = func(network, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
	connected := func() bool { return true }
	config.Dial = func(network, address string) (net.Conn, error) {
		conn, err := dialTCP(network, address)
		if err == nil {
			connected = context.AfterFunc(ctx, func() { conn.Close() })
		}
		return conn, err
	}
	if config.Properties = maps.Clone(config.Properties); config.Properties == nil { // the client writes into it
		config.Properties = amqp.NewConnectionProperties()
	}
	if _, named := config.Properties["connection_name"]; !named {
		config.Properties.SetClientConnectionName("firsttime " + c.queue)
	}
	conn, err := amqp.DialConfig(c.url, config)
	if err == nil && !connected() { // too late: ctx has ended it
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", redacted(c.url), err)
	}
	return conn, nil
}

// hopeless reports whether err will be the same at the next try: the broker refused something.
func hopeless(err error) bool {
	var certificate *tls.CertificateVerificationError
	return hasCode(err, amqp.AccessRefused) || hasCode(err, amqp.NotAllowed) || hasCode(err, amqp.PreconditionFailed) ||
		hasCode(err, amqp.ResourceLocked) || hasCode(err, amqp.InvalidPath) || errors.As(err, &certificate)
}

func hasCode(err error, code int) bool {
	var refused *amqp.Error
	return errors.As(err, &refused) && refused.Code == code
}

// reasonOf is why a channel was closed: nil is what the client says when it closed it itself.
func reasonOf(err *amqp.Error) error {
	if err == nil {
		return amqp.ErrClosed
	}
	return err
}

// milliseconds is how AMQP writes a message's time to live.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}
