package store

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
)

// Defaults of the options.
const (
	DefaultLease     = 5 * time.Minute
	DefaultRetention = 24 * time.Hour
	DefaultTimeout   = 5 * time.Second
	DefaultScope     = "default"
)

// Option configures a store or a scope of it. A wrong one is an error of the constructor.
type Option func(*settings) error

type settings struct {
	lease     time.Duration
	retention time.Duration
	timeout   time.Duration
	worker    string
	mode      dialects.StatementMode
	logger    *slog.Logger
	limits    *limits // of this timeout
}

// apply returns s changed by the options and checked as a whole.
func (s settings) apply(options []Option) (settings, error) {
	for _, option := range options {
		if option == nil {
			continue
		}
		if err := option(&s); err != nil {
			return s, err
		}
	}
	if s.retention <= s.lease {
		return s, fmt.Errorf("the retention (%v) must be longer than the lease (%v): raise WithRetention or lower WithLease",
			s.retention, s.lease)
	}
	if s.limits == nil || s.limits.length != s.timeout {
		s.limits = &limits{length: s.timeout}
	}
	return s, nil
}

func defaults() settings {
	return settings{
		lease:     DefaultLease,
		retention: DefaultRetention,
		timeout:   DefaultTimeout,
		worker:    defaultWorker(),
		logger:    slog.Default(),
	}
}

// WithLease sets how long a claim that never finished is honoured, at least a millisecond. The default
// is 5 minutes. A handler that may take longer extends its claim; package consumer does so by itself.
func WithLease(d time.Duration) Option {
	return func(s *settings) error {
		if d < time.Millisecond {
			return fmt.Errorf("WithLease(%v): the lease must be at least 1ms", d)
		}
		s.lease = d
		return nil
	}
}

// WithRetention sets how long a key is remembered at least, from its last claim or extension on. It must
// be longer than the lease and should be longer than the broker may take to deliver again. The default
// is 24 hours.
func WithRetention(d time.Duration) Option {
	return func(s *settings) error {
		if d < time.Millisecond {
			return fmt.Errorf("WithRetention(%v): the retention must be at least 1ms", d)
		}
		s.retention = d
		return nil
	}
}

// WithTimeout limits every operation of the store, its retries included, at least a millisecond. The
// default is 5 seconds. A claim that has to wait longer, for a transaction that confirms the same key,
// say, ends as in progress or in an error. Purging is not limited; each of its batches is.
func WithTimeout(d time.Duration) Option {
	return func(s *settings) error {
		if d < time.Millisecond {
			return fmt.Errorf("WithTimeout(%v): the time limit must be at least 1ms", d)
		}
		s.timeout = d
		return nil
	}
}

// WithWorker names this process in the table, for the people who look at it, in at most 95 bytes. The
// default is host:pid. It need not be unique: every claim has a random token of its own.
func WithWorker(name string) Option {
	return func(s *settings) error {
		if err := validateText(name, maxWorkerLen); err != nil {
			return fmt.Errorf("WithWorker(%q): invalid name: %w", name, err)
		}
		s.worker = name
		return nil
	}
}

// WithoutPreparedStatements sends every statement whole, for poolers that cannot keep prepared
// statements, such as pgbouncer in transaction mode. The driver may have to be told as well: pgx by
// default_query_exec_mode=simple_protocol (or exec) in its DSN.
func WithoutPreparedStatements() Option {
	return func(s *settings) error {
		s.mode = dialects.Unprepared
		return nil
	}
}

// WithLogger sets where failures are reported that no caller sees, those of PurgeEvery. The default is
// slog.Default().
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) error {
		if logger == nil {
			return errors.New("WithLogger: the logger is nil: pass slog.New(slog.DiscardHandler) for none")
		}
		s.logger = logger
		return nil
	}
}
