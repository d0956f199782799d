//go:build proof

package cluster

import (
	"fmt"

	"github.com/firsttime-go/firsttime/tests/proof"
)

// table collects the results of the runs.
var table results

type results struct{}

// result is what became of the orders while one fault happened to one database.
type result struct {
	fault, database string
	runs            int // of the fault
	orders          int
	lost, doubled   int
}

func (results) add(row result) {
	proof.Add(proof.Row{
		Fault: row.fault, Database: row.database, Runs: row.runs, Effects: row.orders, Lost: row.lost, Doubled: row.doubled,
		Command: fmt.Sprintf("go test -tags=proof ./tests/cluster -rounds=%d", *rounds),
	})
}
