package consumer

import (
	"fmt"
	"log/slog"
	"time"
)

// DefaultMaxWait is the default of WithMaxWait.
const DefaultMaxWait = 30 * time.Second

// Option configures Idempotent. One that makes no sense panics in there, when the program starts.
type Option func(*settings)

type settings struct {
	beat             time.Duration // 0: a third of the lease; negative: never
	maxWait          time.Duration
	acceptInProgress bool
	maxAttempts      int
	retryPanics      bool
	observer         Observer
	logger           *slog.Logger
}

func newSettings(options []Option) settings {
	s := settings{maxWait: DefaultMaxWait, logger: slog.Default()}
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	return s
}

// WithHeartbeat sets how often the lease is extended while a handler runs, at least a millisecond and less
// than the lease. The default is a third of the lease.
func WithHeartbeat(interval time.Duration) Option {
	return func(s *settings) {
		if interval < time.Millisecond {
			panic(fmt.Sprintf("consumer: WithHeartbeat(%v): the interval must be at least 1ms; "+
				"WithoutHeartbeat switches it off", interval))
		}
		s.beat = interval
	}
}

// WithoutHeartbeat leaves the lease as it is: a handler that takes longer than it is overtaken by the next
// delivery of its message.
func WithoutHeartbeat() Option { return func(s *settings) { s.beat = -1 } }

// WithMaxWait limits how long a delivery that finds its key in progress is put back for, at least a
// millisecond. The default is 30 seconds.
func WithMaxWait(d time.Duration) Option {
	return func(s *settings) {
		if d < time.Millisecond {
			panic(fmt.Sprintf("consumer: WithMaxWait(%v): the wait must be at least 1ms", d))
		}
		s.maxWait = d
	}
}

// AcceptInProgress acknowledges a delivery that finds its key in progress, instead of putting it back. It
// loses the message if the holder dies or fails after that, unless the holder's own delivery comes back.
// So use it only where a message more or less does not matter.
func AcceptInProgress() Option { return func(s *settings) { s.acceptInProgress = true } }

// WithMaxAttempts rejects a message, without running the handler, when work on it was started n times and
// never finished, because its process died each time. A handler's own Retry does not count here: the
// broker's client counts those. The default is no limit.
func WithMaxAttempts(n int) Option {
	return func(s *settings) {
		if n < 1 {
			panic(fmt.Sprintf("consumer: WithMaxAttempts(%d): at least one attempt is needed", n))
		}
		s.maxAttempts = n
	}
}

// RetryPanics turns a handler's panic into Retry with a PanicError. By default the panic goes on, after
// the key was given back.
func RetryPanics() Option { return func(s *settings) { s.retryPanics = true } }

// WithObserver tells o what happens.
func WithObserver(o Observer) Option { return func(s *settings) { s.observer = o } }

// WithLogger sets where trouble is reported: claims lost, keys that could not be confirmed or given back.
// The default is slog.Default().
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) {
		if logger == nil {
			panic("consumer: WithLogger(nil): pass slog.New(slog.DiscardHandler) for none")
		}
		s.logger = logger
	}
}
