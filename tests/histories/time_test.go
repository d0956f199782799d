package histories

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// An answer is wrong only if no reading of the database's clock, while the operation ran, can have led to it.
func TestTimeIsJudgedByWhatTheDatabaseMayHaveSeen(t *testing.T) {
	const ms = time.Millisecond
	p := protocol{lease: 100 * ms, retention: 300 * ms}
	step := func(o operation, a answer, sent, gotten time.Duration) porcupine.Operation {
		a.sent, a.gotten = sent, gotten
		return porcupine.Operation{ClientId: o.client, Input: o, Call: int64(sent), Output: a, Return: int64(gotten)}
	}
	won := step(operation{action: claims, claim: 1}, answer{result: first, attempt: 1}, 0, 10*ms)
	extended := step(operation{action: extends, claim: 1}, answer{result: done}, 50*ms, 60*ms)
	other := operation{action: claims, client: 1, claim: 2}
	overtaken := answer{result: takenOver, attempt: 2}
	left := func(d time.Duration) answer { return answer{result: inProgress, attempt: 1, worker: "0", left: d} }
	purge := func(alone bool) operation { return operation{action: purges, client: 1, alone: alone} }
	read := operation{action: reads, client: 1}
	gone, there := answer{result: notFound}, answer{result: claimed, attempt: 1, worker: "0"}
	after := func(a answer, at time.Duration) answer {
		a.left = 105*ms - at
		return a
	}

	for name, test := range map[string]struct {
		legal   bool
		history []porcupine.Operation
	}{
		"a takeover that saw the end of the lease":             {true, []porcupine.Operation{won, step(other, overtaken, 90*ms, 100*ms)}},
		"a takeover that cannot have seen it":                  {false, []porcupine.Operation{won, step(other, overtaken, 80*ms, 97*ms)}},
		"a takeover of a lease that was extended":              {false, []porcupine.Operation{won, extended, step(other, overtaken, 120*ms, 140*ms)}},
		"a slow takeover that may have seen it":                {true, []porcupine.Operation{won, step(other, overtaken, 55*ms, 105*ms)}},
		"in progress while the lease ran":                      {true, []porcupine.Operation{won, step(other, left(ms), 105*ms, 130*ms)}},
		"in progress after the lease":                          {false, []porcupine.Operation{won, step(other, left(ms), 120*ms, 130*ms)}},
		"in progress with more left than the lease":            {false, []porcupine.Operation{won, step(other, left(103*ms), 20*ms, 30*ms)}},
		"in progress with less left than there is":             {false, []porcupine.Operation{won, step(other, left(40*ms), 20*ms, 30*ms)}},
		"a claim of another attempt":                           {false, []porcupine.Operation{won, step(other, answer{result: takenOver, attempt: 3}, 120*ms, 130*ms)}},
		"a purge before the retention":                         {false, []porcupine.Operation{won, step(purge(true), answer{}, 280*ms, 290*ms), step(read, gone, 291*ms, 292*ms)}},
		"a purge after the retention":                          {true, []porcupine.Operation{won, step(purge(true), answer{}, 320*ms, 330*ms), step(read, gone, 331*ms, 332*ms)}},
		"a purge that leaves what it must delete":              {false, []porcupine.Operation{won, step(purge(true), answer{}, 320*ms, 330*ms), step(read, after(there, 331*ms), 331*ms, 332*ms)}},
		"a purge that passes over what somebody else works on": {true, []porcupine.Operation{won, step(purge(false), answer{}, 320*ms, 330*ms), step(read, after(there, 331*ms), 331*ms, 332*ms)}},
	} {
		t.Run(name, func(t *testing.T) {
			if legal := porcupine.CheckOperations(p.model(), test.history); legal != test.legal {
				t.Errorf("legal: %v, want %v", legal, test.legal)
			}
		})
	}
}
