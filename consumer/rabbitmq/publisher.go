package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// publisher publishes with the broker's confirmation. It has a connection of its own, made when it is first
// needed: a broker that runs out of memory or disk stops reading from connections that publish, and
// deliveries must be acknowledged even then. It is safe for concurrent use.
type publisher struct {
	mu   sync.Mutex
	dial func(ctx context.Context) (*amqp.Connection, error) // nil when it is closed
	conn *amqp.Connection
	idle []*confirming
}

// confirming is a channel with confirmations. One publishing uses it at a time, so that what the broker
// says belongs to that.
type confirming struct {
	*amqp.Channel
	returned chan amqp.Return
}

// publishTime is how long the broker may take to confirm a message.
const publishTime = 30 * time.Second

var (
	errNack     = errors.New("the broker refused the message")
	errNoQueue  = errors.New("the queue does not exist")
	errPubClose = errors.New("the publisher is closed")
)

// publish returns nil when the broker has confirmed that message is in the queue. prepare declares the queue
// if the broker says that it does not exist. It gives up when ctx ends.
func (p *publisher) publish(ctx context.Context, queue string, message amqp.Publishing, prepare func(*amqp.Connection) error) error {
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- p.publishPrepared(ctx, queue, message, prepare) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		// A broker that is out of memory or disk answers nothing on this connection, not even the end of a
		// channel. Without it, what waits in the goroutine ends.
		p.drop()
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("publish into %q: %w", queue, err)
	}
	return nil
}

func (p *publisher) publishPrepared(ctx context.Context, queue string, message amqp.Publishing, prepare func(*amqp.Connection) error) error {
	err := p.try(ctx, queue, message)
	if !errors.Is(err, errNoQueue) {
		return err
	}
	conn, err := p.connection(ctx)
	if err != nil {
		return err
	}
	if err := prepare(conn); err != nil {
		return err
	}
	return p.try(ctx, queue, message)
}

func (p *publisher) try(ctx context.Context, queue string, message amqp.Publishing) error {
	ch, err := p.channel(ctx)
	if err != nil {
		return err
	}
	confirmation, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, message)
	if err != nil {
		return errors.Join(err, ch.Close())
	}
	acked, err := confirmation.WaitContext(ctx)
	if err != nil {
		return err // ctx is over, and the connection with it
	}
	// The broker returns a message that it could not route before it confirms it.
	select {
	case _, ok := <-ch.returned:
		if ok {
			p.release(ch)
			return errNoQueue
		}
	default:
	}
	if !acked { // by the broker, or because the channel ended
		return errors.Join(errNack, ch.Close())
	}
	p.release(ch)
	return nil
}

// connection is the one that there is, or a new one.
func (p *publisher) connection(ctx context.Context) (*amqp.Connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dial == nil {
		return nil, errPubClose
	}
	if p.conn == nil || p.conn.IsClosed() {
		conn, err := p.dial(ctx)
		if err != nil {
			return nil, err
		}
		p.conn, p.idle = conn, nil
	}
	return p.conn, nil
}

func (p *publisher) channel(ctx context.Context) (*confirming, error) {
	conn, err := p.connection(ctx)
	if err != nil {
		return nil, err
	}
	for {
		p.mu.Lock()
		if len(p.idle) == 0 {
			p.mu.Unlock()
			break
		}
		ch := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		p.mu.Unlock()
		if !ch.IsClosed() {
			return ch, nil
		}
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.Confirm(false); err != nil {
		return nil, errors.Join(err, ch.Close())
	}
	return &confirming{ch, ch.NotifyReturn(make(chan amqp.Return, 1))}, nil
}

func (p *publisher) release(ch *confirming) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, ch)
}

// drop gives the connection up. The publishings of others that wait on it fail and are tried again.
func (p *publisher) drop() {
	p.mu.Lock()
	conn := p.conn
	p.conn, p.idle = nil, nil
	p.mu.Unlock()
	if conn != nil {
		closeSoon(conn)
	}
}

// close ends the publisher: nothing is published any more.
func (p *publisher) close() {
	p.mu.Lock()
	p.dial = nil
	p.mu.Unlock()
	p.drop()
}
