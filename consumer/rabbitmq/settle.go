package rabbitmq

import (
	"context"
	"errors"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/firsttime-go/firsttime/consumer"
)

// settle does with a delivery what its handler answered. If it cannot, the broker delivers it again.
func (c *client) settle(ctx context.Context, j job, ack consumer.Ack) error {
	d := j.delivery
	if ack.SpendsAttempt() {
		c.failures.Store(0)
	}
	switch {
	case ack.Accepted():
		return d.Ack(false)
	case ctx.Err() != nil: // the handler was ended; that says nothing about the message
		return d.Nack(false, true)
	case ack.Verdict() == consumer.VerdictReject:
		return c.bury(ctx, j, "rejected", attemptsOf(d)+1, ack)
	}
	attempts := attemptsOf(d)
	if !ack.SpendsAttempt() {
		delay := c.patience(ctx, ack)
		return c.postpone(ctx, j, attempts, c.topology.wait(waitFor(delay)), delay)
	}
	attempts++
	switch {
	case attempts >= c.ladder.MaxAttempts:
		return c.bury(ctx, j, "attempts exhausted", attempts, ack)
	case ack.Delay() > 0:
		delay := min(ack.Delay(), maxWait)
		return c.postpone(ctx, j, attempts, c.topology.wait(waitFor(delay)), delay)
	}
	rung := c.ladder.rung(attempts)
	return c.postpone(ctx, j, attempts, c.topology.retry(rung), jittered(rung, c.ladder.Jitter))
}

// patience is how long a delivery waits that is not to blame for its retry. While the store fails, its
// worker waits as well: there is no sense in going through the whole queue then.
func (c *client) patience(ctx context.Context, ack consumer.Ack) time.Duration {
	if !errors.Is(ack.Err(), consumer.ErrStoreFailed) {
		c.failures.Store(0)
		if delay := ack.Delay(); delay > 0 {
			return delay
		}
		return time.Second
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
func (c *client) postpone(ctx context.Context, j job, attempts int, to waiting, delay time.Duration) error {
	message := republished(j.delivery)
	message.Headers[headerAttempts] = int64(attempts)
	if sizeOf(message.Headers) > maxHeaders {
		return c.bury(ctx, j, "headers too large to come back", attempts, consumer.Reject(errTooLarge))
	}
	message.Expiration = milliseconds(delay)
	return c.move(ctx, j, to.name, message, func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		defer ch.Close() //nolint:errcheck // nothing depends on it
		return c.topology.declareWaiting(ch, to)
	})
}

// bury moves the message of a delivery to the dead letters.
func (c *client) bury(ctx context.Context, j job, reason string, attempts int, ack consumer.Ack) error {
	message := republished(j.delivery)
	// An operator who moves it back to the queue gives it all its attempts again.
	delete(message.Headers, headerAttempts)
	message.Headers[HeaderReason] = reason
	message.Headers[HeaderAttempts] = int64(attempts)
	message.Headers[HeaderQueue] = c.queue
	delete(message.Headers, HeaderError) // of an earlier death
	set(message.Headers, HeaderError, errorText(ack.Err()))
	shrink(message.Headers)
	c.logger.Error("rabbitmq: dead letter", "queue", c.queue, "message_id", message.MessageId,
		"reason", reason, "attempts", attempts, "error", ack.Err())
	return c.move(ctx, j, c.topology.deadLetters(), message, c.topology.declareDeadLetters)
}

// move publishes the message of a delivery into another queue, and acknowledges the delivery when it is
// there. It tries until it can, or the delivery is lost to its channel, or the consumer shuts down: to put the
// message back instead would count as one of the returns after which a quorum queue gives a message up.
func (c *client) move(ctx context.Context, j job, queue string, message amqp.Publishing, prepare func(*amqp.Connection) error) error {
	pause := backoff{first: 100 * time.Millisecond, max: 10 * time.Second}
	for {
		if j.from.IsClosed() {
			return amqp.ErrClosed // it is delivered again already
		}
		err := c.publisher.publish(ctx, queue, message, prepare)
		if err == nil {
			return j.delivery.Ack(false)
		}
		wait := time.NewTimer(pause.next())
		select {
		case <-c.draining:
			wait.Stop()
			return errors.Join(err, j.delivery.Nack(false, true))
		case <-wait.C:
		}
		c.logger.Warn("rabbitmq: a message could not be moved to another queue, trying again",
			"queue", c.queue, "to", queue, "message_id", message.MessageId, "error", err)
	}
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
