package rabbitmq

import (
	"context"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/firsttime-go/firsttime/consumer"
)

// settle does with a delivery what its handler answered. A delivery that is not settled, because of the
// error, is put back or still the broker's.
func (c *client) settle(ctx context.Context, d amqp.Delivery, ack consumer.Ack) error {
	if ack.SpendsAttempt() {
		c.failures.Store(0)
	}
	switch ack.Verdict() {
	case consumer.VerdictAccept:
		return d.Ack(false)
	case consumer.VerdictReject:
		return c.bury(ctx, d, "rejected", attemptsOf(d)+1, ack)
	}
	if ctx.Err() != nil { // the handler was ended; that says nothing about the message
		return d.Nack(false, true)
	}
	attempts := attemptsOf(d)
	if !ack.SpendsAttempt() {
		delay := c.patience(ctx, ack)
		return c.postpone(ctx, d, attempts, c.topology.wait(waitFor(delay)), delay)
	}
	attempts++
	switch {
	case attempts >= c.ladder.MaxAttempts:
		return c.bury(ctx, d, "attempts exhausted", attempts, ack)
	case ack.Delay() > 0:
		delay := min(ack.Delay(), maxWait)
		return c.postpone(ctx, d, attempts, c.topology.wait(waitFor(delay)), delay)
	}
	rung := c.ladder.rung(attempts)
	return c.postpone(ctx, d, attempts, c.topology.retry(rung), jittered(rung, c.ladder.Jitter))
}

// patience is how long a delivery waits that is not to blame for its retry. While the store fails, its
// worker waits as well: there is no sense in going through the whole queue then.
func (c *client) patience(ctx context.Context, ack consumer.Ack) time.Duration {
	if delay := ack.Delay(); delay > 0 {
		c.failures.Store(0)
		return delay
	}
	pause := min(100*time.Millisecond<<min(c.failures.Add(1), 10), 5*time.Second)
	select {
	case <-c.draining:
	case <-time.After(jittered(pause, 0.5)):
	case <-ctx.Done():
	}
	return time.Second
}

// postpone moves the message of a delivery to a rung, from which it comes back after delay.
func (c *client) postpone(ctx context.Context, d amqp.Delivery, attempts int, to waiting, delay time.Duration) error {
	message := republished(d)
	message.Headers[headerAttempts] = int64(attempts)
	message.Expiration = milliseconds(delay)
	return c.move(ctx, d, to.name, message, func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		defer ch.Close() //nolint:errcheck // nothing depends on it
		return c.topology.declareWaiting(ch, to)
	})
}

// bury moves the message of a delivery to the dead letters.
func (c *client) bury(ctx context.Context, d amqp.Delivery, reason string, attempts int, ack consumer.Ack) error {
	message := republished(d)
	// An operator who moves it back to the queue gives it all its attempts again.
	delete(message.Headers, headerAttempts)
	message.Headers[HeaderReason] = reason
	message.Headers[HeaderAttempts] = int64(attempts)
	message.Headers[HeaderQueue] = c.queue
	set(message.Headers, HeaderError, errorText(ack.Err()))
	c.logger.Error("rabbitmq: dead letter", "queue", c.queue, "message_id", d.MessageId,
		"reason", reason, "attempts", attempts, "error", ack.Err())
	return c.move(ctx, d, c.topology.deadLetters(), message, c.topology.declareDeadLetters)
}

// move publishes the message of a delivery into another queue, and acknowledges the delivery when it is
// there. If that fails the delivery is put back, after a pause.
func (c *client) move(ctx context.Context, d amqp.Delivery, queue string, message amqp.Publishing, prepare func(*amqp.Connection) error) error {
	err := c.publisher.publish(ctx, queue, message, prepare)
	if err == nil {
		return d.Ack(false)
	}
	select {
	case <-c.draining:
	case <-time.After(jittered(2*time.Second, 0.5)):
	}
	_ = d.Nack(false, true)
	return err
}

// errorText is short enough for the frame of a message's headers.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	const limit = 4096
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + " …"
	}
	return text
}
