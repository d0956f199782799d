package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/firsttime-go/firsttime/consumer"
)

// Handler handles a delivery. It must not settle it: its answer does.
type Handler = consumer.Handler[amqp.Delivery]

// ErrDrainTimeout is returned by Consume if handlers still ran when its time to end was over. Their
// messages are delivered again.
var ErrDrainTimeout = errors.New("handlers did not end in time")

// Consume takes messages from queue and settles them by the answers of handle, until ctx ends. Then it
// takes no more, lets the running handlers finish, settles their messages and returns nil. The context of
// a handler does not end with ctx but when the time of WithDrainTimeout is over.
//
// It connects again, with growing pauses, whenever the connection is lost, and declares its queues again.
// It returns an error only if it never could work: the URL makes no sense, the broker refuses the user or
// the queues the first time; and ErrDrainTimeout. No error and no line of the log has the URL's password.
//
// A handler that panics does not end the process: the delivery is retried.
func Consume(ctx context.Context, url, queue string, handle Handler, options ...Option) error {
	set, err := newSettings(url, queue, handle, options)
	if err != nil {
		return fmt.Errorf("rabbitmq: %w", err)
	}
	c := &client{settings: set, jobs: make(chan job)}
	c.publisher = &publisher{dial: c.dial}
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("rabbitmq: consume %q: %w", queue, err)
	}
	return nil
}

// client is one call of Consume.
type client struct {
	settings
	publisher *publisher
	jobs      chan job
	workers   sync.WaitGroup
	draining  <-chan struct{} // closed when no more deliveries are taken
	failures  atomic.Int32    // of the store, in a row
}

// job is a delivery that no worker has begun.
type job struct {
	delivery amqp.Delivery
	from     *amqp.Channel
}

func (c *client) run(ctx context.Context) error {
	c.draining = ctx.Done()
	// Handlers end when they are done, or by their own cancel, not with ctx.
	handling, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	for range c.concurrency {
		c.workers.Go(func() { c.work(handling) })
	}
	drain := sync.OnceValue(func() error { return c.drain(cancel) })

	pause := backoff{first: 100 * time.Millisecond, max: 30 * time.Second}
	worked := false
	for ctx.Err() == nil {
		err := c.session(ctx, drain, func() {
			worked = true
			pause.reset()
		})
		if ctx.Err() != nil {
			break
		}
		if !worked && hopeless(err) {
			cancel(err)
			return errors.Join(err, drain())
		}
		wait := pause.next()
		c.logger.Warn("rabbitmq: connection lost, connecting again", "queue", c.queue, "error", err, "after", wait)
		sleep(ctx, wait)
	}
	err := drain()
	c.publisher.close()
	return err
}

// session consumes over one connection, until that is lost or ctx ends; in the latter case it drains before
// the connection is closed. It calls working as soon as it consumes.
func (c *client) session(ctx context.Context, drain func() error, working func()) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer closeSoon(conn)
	if err := c.topology.declare(conn); err != nil {
		return err
	}
	for {
		err := c.consume(ctx, conn, drain, working)
		if ctx.Err() != nil || conn.IsClosed() {
			return err
		}
		c.logger.Warn("rabbitmq: channel closed, opening another", "queue", c.queue, "error", err)
		sleep(ctx, time.Second)
		if err := c.topology.declare(conn); err != nil {
			return err
		}
	}
}

// consume consumes over one channel. Deliveries can only be settled on the channel that they came by: a new
// one counts its deliveries from 1 again, so nothing must outlive its channel but the work itself.
func (c *client) consume(ctx context.Context, conn *amqp.Connection, drain func() error, working func()) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() == nil { // otherwise the connection ends, and need not be asked
			_ = ch.Close()
		}
	}()
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	canceled := ch.NotifyCancel(make(chan string, 1))
	if err := ch.Qos(c.prefetch, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(c.queue, consumerTag, false, false, false, false, nil)
	if err != nil {
		return err
	}
	c.connected(true)
	defer c.connected(false)
	c.logger.Info("rabbitmq: consuming", "queue", c.queue, "concurrency", c.concurrency, "prefetch", c.prefetch)
	working()

	for {
		var j job
		select {
		case <-ctx.Done():
			go c.giveBack(ch, deliveries) // until the connection ends: a broker may not answer
			err := drain()
			time.Sleep(flushTime)
			return err
		case d, ok := <-deliveries: // a canceled consumer's end, too
			if !ok {
				return whyEnded(closed, canceled)
			}
			j = job{delivery: d, from: ch}
		}
		select {
		case <-ctx.Done():
			_ = j.delivery.Nack(false, true)
		case c.jobs <- j:
		}
	}
}

// whyEnded is why no deliveries come any more: the broker has canceled the consumer, or closed the channel, and
// with it both of these.
func whyEnded(closed <-chan *amqp.Error, canceled <-chan string) error {
	select {
	case err := <-closed:
		return reasonOf(err)
	case _, ok := <-canceled:
		if ok {
			return errCanceled
		}
		return reasonOf(<-closed)
	}
}

var errCanceled = errors.New("the broker canceled the consumer: was the queue deleted, or its node stopped?")

// flushTime is between the last settlement and the end of its channel. A quorum queue works on 32 settlements at
// a time and forgets those behind them if their channel ends: without a pause, 668 of 1000 acknowledgements
// in bursts of 200 were lost, and their messages delivered again; with 20 ms, none.
const flushTime = 200 * time.Millisecond

// consumerTag need only be unique on its channel.
const consumerTag = "firsttime"

// giveBack ends the consumer and puts back the deliveries that no worker has begun, so that others get
// them at once.
func (c *client) giveBack(ch *amqp.Channel, deliveries <-chan amqp.Delivery) {
	go func() {
		if err := ch.Cancel(consumerTag, false); err != nil {
			c.logger.Debug("rabbitmq: the consumer could not be canceled", "queue", c.queue, "error", err)
		}
	}()
	for d := range deliveries {
		_ = d.Nack(false, true)
	}
}

// drain lets the running handlers finish.
func (c *client) drain(cancel context.CancelCauseFunc) error {
	close(c.jobs)
	done := make(chan struct{})
	go func() {
		c.workers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(c.drainTimeout):
	}
	c.logger.Warn("rabbitmq: ending handlers that still run", "queue", c.queue, "after", c.drainTimeout)
	cancel(ErrDrainTimeout)
	select {
	case <-done:
		return nil
	case <-time.After(settleTime):
		return ErrDrainTimeout
	}
}

// closeSoon closes a connection that is lost, or over which everything is settled.
func closeSoon(conn *amqp.Connection) { _ = conn.CloseDeadline(time.Now().Add(closeTime)) }

// closeTime is for the broker to answer the end of a connection.
const closeTime = 3 * time.Second

// settleTime is for handlers whose context has ended to answer, and for their answers to be settled.
const settleTime = 5 * time.Second

// work is one worker.
func (c *client) work(ctx context.Context) {
	done := false
	defer func() {
		if !done { // a handler has ended the goroutine
			c.workers.Go(func() { c.work(ctx) })
		}
	}()
	for j := range c.jobs {
		c.process(ctx, j)
	}
	done = true
}

var errEnded = errors.New("the handler ended its goroutine")

// process handles one delivery and settles it, even if the handler ends the goroutine.
func (c *client) process(ctx context.Context, j job) {
	if j.from.IsClosed() {
		return // it is delivered again already
	}
	ack := consumer.Retry(errEnded)
	defer func() {
		if err := c.settle(ctx, j, ack); err != nil {
			c.logger.Warn("rabbitmq: a delivery could not be settled, the broker delivers it again",
				"queue", c.queue, "message_id", j.delivery.MessageId, "answer", ack.String(), "error", err)
		}
	}()
	ack = c.call(ctx, restore(j.delivery))
}

// call calls the handler. A panic becomes a retry.
func (c *client) call(ctx context.Context, message amqp.Delivery) (ack consumer.Ack) {
	defer func() {
		if v := recover(); v != nil {
			panicked := &consumer.PanicError{Value: v, Stack: debug.Stack()}
			ack = consumer.Retry(panicked)
			c.logger.Error("rabbitmq: the handler panicked", "queue", c.queue, "message_id", message.MessageId,
				"error", ack.Err(), "stack", string(panicked.Stack))
		}
	}()
	return c.handle(ctx, message)
}

func (c *client) connected(up bool) {
	if c.onConnection != nil {
		c.onConnection(up)
	}
}

// backoff makes growing pauses, half of each of them random.
type backoff struct{ first, max, current time.Duration }

func (b *backoff) reset() { b.current = 0 }

func (b *backoff) next() time.Duration {
	b.current = min(max(2*b.current, b.first), b.max)
	return jittered(b.current, 0.5)
}

// sleep returns early when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
