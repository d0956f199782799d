package tests

import (
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/firsttime-go/firsttime/tests/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv(childRole) != "" {
		os.Exit(runChild())
	}
	// Its driver prints every lost connection by default, and these tests lose many.
	if err := mysql.SetLogger(&mysql.NopLogger{}); err != nil {
		panic(err)
	}
	code := m.Run()
	servers.Cleanup()
	os.Exit(code)
}
