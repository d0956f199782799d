//go:build unix

package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A worker stands still in its transaction for longer than its lease, and goes on as if nothing had happened. Others
// have done its work meanwhile. On SQLite they wait for it: it has the only transaction that writes.
func TestNothingIsLostOrDoubledWhenAWorkerStandsStill(t *testing.T) {
	const fault = "worker stopped by SIGSTOP past its lease, and continued"
	for _, d := range everyDatabase() {
		if !*long && d.name != "PostgreSQL" && d.name != "MariaDB" {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			prove(t, fault, d.name, func(t *testing.T) outcome {
				// So long that the others do not do all the work during one stop. On SQLite they do nothing then.
				worker := settings{lease: lease, pause: 100 * time.Millisecond}
				if d.server == "" {
					worker.pause = 10 * time.Millisecond
				}
				l, c := startCrew(t, sharedSite(t, d), messages(), worker, worker)
				l.disturb(strikes(), func() {
					w := c.at(0)
					w.awaitCharge(t)
					if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2*lease + lease/2) // the broker delivers after two leases what is not answered
					if err := w.cmd.Process.Signal(syscall.SIGCONT); err != nil {
						t.Fatal(err)
					}
				})
				o := l.finish()
				o.figures = map[string]int{"stops": strikes(), "claims lost": l.seen.of(claimLost)}
				if d.server != "" && l.seen.of(claimLost) == 0 {
					t.Error("no worker was told that its claim is lost: this showed less than it claims")
				}
				return o
			})
		})
	}
}

// A process is killed while it commits: what is in the file is sound, and each key is confirmed exactly if its effect
// is there.
func TestNothingIsLostOrDoubledWhenAProcessIsKilledInACommitOfSQLite(t *testing.T) {
	t.Parallel()
	const fault = "process killed by SIGKILL in the middle of a commit"
	kills := 10
	if *long {
		kills = 200
	}
	prove(t, fault, "SQLite", func(t *testing.T) outcome {
		s := sharedSite(t, sqliteDB)
		worker := settings{lease: lease}
		l, c := startCrew(t, s, 10*kills, worker) // alone, so that there is always something left for it
		var before, after int
		for n := range kills {
			l.await(1 - 0.75*float64(n)/float64(kills)) // the last messages are duplicates, which charge nothing
			c.at(0).awaitCharge(t)
			// COMMIT is on its way: two writes and their fsync, of a few milliseconds.
			time.Sleep(rand.N(3 * time.Millisecond))
			unanswered := c.replace(0, worker)
			done := committed(t, s, unanswered)
			after += done
			before += len(unanswered) - done
		}
		o := l.finish()
		if answer := s.text(t, "PRAGMA integrity_check"); answer != "ok" {
			t.Errorf("the file is damaged: %s", answer)
		}
		apart := `SELECT COUNT(*) FROM (SELECT order_id FROM charges EXCEPT SELECT message_id FROM firsttime_keys WHERE state = 'CONFIRMED'
			UNION ALL SELECT * FROM (SELECT message_id FROM firsttime_keys WHERE state = 'CONFIRMED' EXCEPT SELECT order_id FROM charges))`
		if n := s.count(t, apart); n != 0 {
			t.Errorf("%d orders are charged and not confirmed, or confirmed and not charged", n)
		}
		o.figures = map[string]int{"kills": kills, "committed and unanswered": after, "undone": before}
		if *long && (before == 0 || after == 0) {
			t.Errorf("%d orders were undone by a kill, and %d committed without an answer: want some of both", before, after)
		}
		return o
	})
}

// committed is how many of the orders are charged.
func committed(t *testing.T, s *site, orders []string) int {
	t.Helper()
	if len(orders) == 0 {
		return 0
	}
	return s.count(t, fmt.Sprintf("SELECT COUNT(*) FROM charges WHERE order_id IN ('%s')", strings.Join(orders, "', '")))
}
