package rabbitmq

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Ladder says how often and when a message is retried. The wait after the first attempt is Initial, and
// after every other one Factor times the one before, up to Max.
type Ladder struct {
	// MaxAttempts is how often the handler may be called, at least 1. After that the message goes to the
	// dead letters. Deliveries for which it was not called do not count.
	MaxAttempts int
	Initial     time.Duration // at least 10ms
	Max         time.Duration // at most 24h
	Factor      float64       // at least 1
	// Jitter is the part of every wait, 0 to 1, of which a random share is left out, so that what failed
	// together does not come back together.
	Jitter float64
}

// DefaultLadder is 10 attempts, after 1, 2, 4, 8, 16, 32 seconds and then every minute, with a jitter of a
// fifth: a message goes to the dead letters after four minutes.
func DefaultLadder() Ladder {
	return Ladder{MaxAttempts: 10, Initial: time.Second, Max: time.Minute, Factor: 2, Jitter: 0.2}
}

const maxWait = 24 * time.Hour

func (l Ladder) validate() error {
	switch {
	case l.MaxAttempts < 1:
		return fmt.Errorf("the MaxAttempts must be at least 1, not %d", l.MaxAttempts)
	case l.Initial < 10*time.Millisecond:
		return fmt.Errorf("the Initial wait must be at least 10ms, not %v", l.Initial)
	case l.Max < l.Initial || l.Max > maxWait:
		return fmt.Errorf("the Max wait must be at least Initial (%v) and at most %v, not %v", l.Initial, maxWait, l.Max)
	case !(l.Factor >= 1) || math.IsInf(l.Factor, 0):
		return fmt.Errorf("the Factor must be a number of at least 1, not %v", l.Factor)
	case !(l.Jitter >= 0 && l.Jitter <= 1):
		return fmt.Errorf("the Jitter must be 0 to 1, not %v", l.Jitter)
	case l.Factor == 1 && l.Max > l.Initial, len(l.rungs()) > maxRungs:
		return fmt.Errorf("the ladder would have more than %d rungs, each a queue: raise Factor or lower Max", maxRungs)
	}
	return nil
}

const maxRungs = 50

// rung is how long to wait after an attempt, the first of which is 1.
func (l Ladder) rung(attempt int) time.Duration {
	wait := float64(l.Initial) * math.Pow(l.Factor, float64(attempt-1))
	if wait >= float64(l.Max) {
		return l.Max
	}
	return time.Duration(wait).Truncate(time.Millisecond)
}

// rungs are the different waits.
func (l Ladder) rungs() []time.Duration {
	var rungs []time.Duration
	for attempt := 1; attempt < l.MaxAttempts && len(rungs) <= maxRungs; attempt++ {
		wait := l.rung(attempt)
		if len(rungs) > 0 && rungs[len(rungs)-1] == wait {
			if wait == l.Max {
				break
			}
			continue
		}
		rungs = append(rungs, wait)
	}
	return rungs
}

// waits are the rungs for deliveries that have a wait of their own. A message with a shorter one may have to
// stand behind others of its rung, for at most the time of the rung.
var waits = []time.Duration{
	time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, maxWait,
}

// waitFor is the shortest rung for a wait of d.
func waitFor(d time.Duration) time.Duration {
	for _, wait := range waits {
		if d <= wait {
			return wait
		}
	}
	return maxWait
}

// jittered leaves out a random share of the part of d.
func jittered(d time.Duration, part float64) time.Duration {
	return d - time.Duration(rand.Float64()*part*float64(d))
}
