package tests

import (
	"os"
	"testing"

	"github.com/firsttime-go/firsttime/tests/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv(childRole) != "" {
		os.Exit(runChild())
	}
	code := m.Run()
	servers.Cleanup()
	os.Exit(code)
}
