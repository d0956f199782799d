package rabbitmq

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/store"
)

// Defaults of the options.
const (
	DefaultConcurrency  = 16
	DefaultDrainTimeout = 30 * time.Second
)

// Option configures Consume. One that makes no sense is an error there.
type Option func(*settings) error

type settings struct {
	url          string
	queue        string
	handle       Handler
	concurrency  int
	prefetch     int
	drainTimeout time.Duration
	ladder       Ladder
	topology     topology
	config       amqp.Config
	logger       *slog.Logger
	onConnection func(up bool)
	wrap         func(Handler) (Handler, error)
}

func newSettings(address, queue string, handle Handler, options []Option) (settings, error) {
	s := settings{
		url: address, queue: queue, concurrency: DefaultConcurrency, drainTimeout: DefaultDrainTimeout,
		ladder: DefaultLadder(), logger: slog.Default(), topology: topology{kind: Quorum},
		config: amqp.Config{Heartbeat: 10 * time.Second, Locale: "en_US"},
	}
	switch _, err := amqp.ParseURI(address); {
	case err != nil:
		return s, errors.New("the URL is malformed: write amqp://user:password@host:5672/vhost, " +
			"with special characters percent-encoded") // the parser's error repeats the password
	case queue == "" || len(queue) > maxQueueLen:
		return s, fmt.Errorf("the queue's name %q must have 1 to %d bytes", queue, maxQueueLen)
	case handle == nil:
		return s, errors.New("the handler is nil")
	}
	for _, option := range options {
		if option == nil {
			continue
		}
		if err := option(&s); err != nil {
			return s, err
		}
	}
	if s.prefetch == 0 {
		s.prefetch = 2 * s.concurrency
	}
	if s.prefetch < s.concurrency {
		return s, fmt.Errorf("WithPrefetch(%d): fewer than the %d handlers of WithConcurrency could be at work", s.prefetch, s.concurrency)
	}
	if s.wrap == nil {
		s.wrap = func(h Handler) (Handler, error) { return h, nil }
	}
	s.topology.queue, s.topology.ladder, s.topology.logger = queue, s.ladder, s.logger
	var err error
	s.handle, err = s.wrap(handle)
	return s, err
}

// maxQueueLen leaves room for what is put behind the name of the queue.
const maxQueueLen = 255 - len(".retry.86400000")

// Scoper is a store that can be divided by consumers, as those of package store can.
type Scoper interface {
	Scope(name string, options ...store.Option) (*store.Scoped, error)
}

// WithStore makes the handler idempotent: its keys are the messages' ids, see Key, in the scope with the
// queue's name. It does what consumer.Idempotent does, with the options.
func WithStore(s Scoper, options ...consumer.Option) Option {
	return WithStoreAndKey(s, Key, options...)
}

// WithStoreAndKey is WithStore with keys of another kind.
func WithStoreAndKey(s Scoper, key func(amqp.Delivery) string, options ...consumer.Option) Option {
	return func(set *settings) error {
		if s == nil || key == nil {
			return errors.New("WithStore: the store or the key function is nil")
		}
		queue := set.queue
		set.wrap = func(h Handler) (Handler, error) {
			scoped, err := s.Scope(queue)
			if err != nil {
				return nil, err
			}
			return consumer.Idempotent(scoped, key, h, options...), nil
		}
		return nil
	}
}

// WithConcurrency sets how many handlers run at once, 1 to 10000. The default is 16.
func WithConcurrency(n int) Option {
	return func(s *settings) error {
		if n < 1 || n > 10_000 {
			return fmt.Errorf("WithConcurrency(%d): give 1 to 10000", n)
		}
		s.concurrency = n
		return nil
	}
}

// WithPrefetch sets how many deliveries the broker sends ahead of their acknowledgements, WithConcurrency to
// 65535. The default is twice the concurrency.
func WithPrefetch(n int) Option {
	return func(s *settings) error {
		if n < 1 || n > 65_535 {
			return fmt.Errorf("WithPrefetch(%d): give 1 to 65535", n)
		}
		s.prefetch = n
		return nil
	}
}

// WithDrainTimeout sets how long handlers may go on after the context of Consume has ended; then their own
// contexts end, and they have another 5 seconds to answer. The default is 30 seconds.
func WithDrainTimeout(d time.Duration) Option {
	return func(s *settings) error {
		if d < 0 {
			return fmt.Errorf("WithDrainTimeout(%v): the time must not be negative", d)
		}
		s.drainTimeout = d
		return nil
	}
}

// WithLadder sets how often and when a message is retried. The default is DefaultLadder.
func WithLadder(l Ladder) Option {
	return func(s *settings) error {
		if err := l.validate(); err != nil {
			return fmt.Errorf("WithLadder: %w", err)
		}
		s.ladder = l
		return nil
	}
}

// QueueType is the type of the queues that Consume creates.
type QueueType string

const (
	// Quorum queues are replicated, and what waits in them cannot be lost on its way back. They need
	// RabbitMQ 3.10 or later. They are the default.
	Quorum QueueType = "quorum"
	// Classic queues are for brokers that have no others. A broker that dies at the moment when a waiting
	// message's time is over can lose it.
	Classic QueueType = "classic"
)

// WithQueueType sets the type of the queues that Consume creates. It does not matter to a queue that exists.
func WithQueueType(t QueueType) Option {
	return func(s *settings) error {
		if t != Quorum && t != Classic {
			return fmt.Errorf("WithQueueType(%q): give Quorum or Classic", t)
		}
		s.topology.kind = t
		return nil
	}
}

// WithConfig sets how connections are made: TLS, authentication, heartbeat, properties. The client's own
// automatic recovery stays off: a channel that it opens again counts its deliveries from 1, so that a
// handler which was at work meanwhile would acknowledge somebody else's message.
func WithConfig(config amqp.Config) Option {
	return func(s *settings) error {
		config.Recovery = nil
		s.config = config
		return nil
	}
}

// WithLogger sets where connections, trouble and dead letters are reported. The default is slog.Default().
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) error {
		if logger == nil {
			return errors.New("WithLogger: the logger is nil: pass slog.New(slog.DiscardHandler) for none")
		}
		s.logger = logger
		return nil
	}
}

// WithOnConnection calls f, one call at a time, when the consumer begins to receive deliveries and when it
// stops, for a health check.
func WithOnConnection(f func(up bool)) Option {
	return func(s *settings) error {
		s.onConnection = f
		return nil
	}
}

// redacted is the URL without the password, for people.
func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the broker"
	}
	return u.Redacted()
}
