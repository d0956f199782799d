package tests

import (
	"context"
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
	if err := reportSQLite(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

func reportSQLite() error {
	db, err := sqliteDB.connect("file::memory:")
	if err != nil {
		return err
	}
	defer db.Close()
	version, err := sqliteVersion(context.Background(), db)
	if err != nil {
		return err
	}
	return servers.Report(version, "embedded")
}
