package explore

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/firsttime-go/firsttime/tests/proof"
)

var faults = flag.Int("explore.faults", defaultFaults, "faults in every schedule, at most")

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := proof.Write(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// record adds what an exploration has found to the proof. A schedule that comes to its end has the effect of every
// key.
func record(e *explorer, found *counterexample) {
	row := proof.Row{
		Fault: fmt.Sprintf("every schedule of %s; faults in each, at most: %d", e.scenario.name, e.faults), Database: "in memory",
		Runs: e.schedules, Effects: e.ends * distinctKeys(e.scenario), Figures: map[string]int{"states": len(e.visited)},
		Command: fmt.Sprintf("go test ./tests/explore -explore.faults=%d", e.faults),
	}
	if e.scenario.outside {
		row.Fault += "; doubled by crashes and stalls alone"
	}
	switch {
	case found == nil:
	case found.violation.rule == oneEffect:
		row.Doubled = 1
	case found.violation.rule == settledMeansDone:
		row.Lost = 1
	default:
		row.Figures["counterexamples"] = 1
	}
	proof.Add(row)
}

// distinctKeys is how many keys the messages have.
func distinctKeys(sc scenario) int {
	keys := map[string]bool{}
	for _, key := range sc.messages {
		keys[key] = true
	}
	return len(keys)
}
