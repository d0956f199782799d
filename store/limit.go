package store

import (
	"context"
	"sync"
	"time"
)

// detached is a context for what must be brought to an end although ctx may be cancelled: it keeps ctx's
// values and its deadline, but ends after limit at the latest, or, if ctx is over already, only then.
func detached(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(limit)
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil && deadline.Before(end) {
		end = deadline
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// limits makes contexts that do what those of detached do, for a single allocation each: operations that
// start within an eighth of their time limit of each other share one timer. So they end after the limit
// or up to an eighth later.
type limits struct {
	mu      sync.Mutex
	length  time.Duration
	current context.Context
	renewal time.Time // when the next operation needs a new one
}

func (l *limits) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, hasDeadline := ctx.Deadline(); hasDeadline {
		return detached(ctx, l.length)
	}
	return sharedLimit{Context: l.shared(), values: ctx}, doNothing
}

func doNothing() {}

func (l *limits) shared() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.current == nil || !now.Before(l.renewal) {
		l.renewal = now.Add(l.length / 8)
		current, cancel := context.WithDeadline(context.Background(), l.renewal.Add(l.length))
		context.AfterFunc(current, cancel) // its own end releases it: operations have it until then
		l.current = current
	}
	return l.current
}

// sharedLimit ends with the context in it and has the values of another.
type sharedLimit struct {
	context.Context
	values context.Context
}

// Value asks the limit first: package context finds out by a value of its own how to follow its end.
func (s sharedLimit) Value(key any) any {
	if v := s.Context.Value(key); v != nil {
		return v
	}
	return s.values.Value(key)
}
