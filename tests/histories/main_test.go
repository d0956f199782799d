package histories

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/firsttime-go/firsttime/tests/proof"
	"github.com/firsttime-go/firsttime/tests/servers"
)

var wanted = flag.Int("histories", 500, "histories on every database")

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	servers.Cleanup()
	if err := proof.Write(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// record adds what the histories on a database have shown to the proof. What no order of steps explains counts as
// an effect that was doubled.
func record(database string, c *census) {
	proof.Add(proof.Row{
		Fault: "random histories; requests and replies get lost", Database: database,
		Runs: c.histories, Effects: c.count(commits, done) + c.count(worksInTx, done), Doubled: c.illegal,
		Figures: map[string]int{
			"operations": c.operations(), "takeovers": c.count(claims, takenOver), "claims lost": c.lost(), "void": c.void,
		},
		Command: fmt.Sprintf("go test ./tests/histories -histories=%d", *wanted),
	})
}
