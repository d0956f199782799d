package faults

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/firsttime-go/firsttime/tests/proof"
	"github.com/firsttime-go/firsttime/tests/servers"
)

var (
	long = flag.Bool("long", false, "every fault, under a larger load: minutes, and some faults want root on Linux")
	runs = flag.Int("runs", 1, "loads for every fault on every database")
)

// messages is the number of different messages of every load.
func messages() int {
	if *long {
		return 400
	}
	return 80
}

// strikes is how often a fault happens to one load.
func strikes() int {
	if *long {
		return 3
	}
	return 1
}

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		os.Exit(runWorker())
	}
	flag.Parse()
	// Its driver prints every lost connection by default, and these tests lose many.
	if err := mysql.SetLogger(&mysql.NopLogger{}); err != nil {
		panic(err)
	}
	code := m.Run()
	servers.Cleanup()
	if err := proof.Write(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// outcome is what became of the effects of one run or of several, and what else was counted.
type outcome struct {
	effects, lost, doubled int
	figures                map[string]int
}

// prove runs a load under a fault as often as is asked for. Nothing may be lost, and nothing doubled.
func prove(t *testing.T, fault, database string, run func(t *testing.T) outcome) {
	t.Helper()
	for n := range *runs {
		t.Run(fmt.Sprintf("run %d", n+1), func(t *testing.T) {
			o := run(t)
			proof.Add(proof.Row{
				Fault: fault, Database: database, Runs: 1, Effects: o.effects, Lost: o.lost, Doubled: o.doubled,
				Figures: o.figures, Command: command(),
			})
			if o.lost != 0 || o.doubled != 0 {
				t.Errorf("%d effects were lost and %d doubled", o.lost, o.doubled)
			}
		})
	}
}

func command() string {
	if *long {
		return fmt.Sprintf("go test ./tests/faults -long -runs=%d", *runs)
	}
	return "go test ./tests/faults"
}
