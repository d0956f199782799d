//go:build proof

package cluster

import (
	"flag"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/firsttime-go/firsttime/tests/proof"
	"github.com/firsttime-go/firsttime/tests/servers"
)

var rounds = flag.Int("rounds", 1, "how often each fault happens to each cluster")

func TestMain(m *testing.M) {
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
