package tests

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/dialects/all"
	"github.com/firsttime-go/firsttime/migrations"
)

func init() {
	childRoles["migrate"] = func(ctx context.Context, args []string) error {
		d, err := databaseNamed(args[0])
		if err != nil {
			return err
		}
		db, err := d.connect(args[1])
		if err != nil {
			return err
		}
		defer db.Close()
		return migrations.Up(ctx, db, d.dialect)
	}
}

func TestTenProcessesThatMigrateAtOnceMakeOneSchema(t *testing.T) {
	const processes = 10
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dsn := d.dsn(t)
			failures := make(chan error, processes)
			for range processes {
				go func() {
					out, err := child(t.Context(), "migrate", d.name, dsn).CombinedOutput()
					if err != nil {
						err = fmt.Errorf("%w: %s", err, out)
					}
					failures <- err
				}()
			}
			for range processes {
				if err := <-failures; err != nil {
					t.Error(err)
				}
			}
			db := d.open(t, dsn)
			if n := count(t, db, "SELECT COUNT(*) FROM "+migrations.VersionTable+" "); n != 2 {
				t.Errorf("the version table has %d rows, want version 0 and version 1", n)
			}
			wantApplied(t, d, dsn, true)
			if err := d.store(t, db).Confirm(t.Context(), "order-1"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMigrationsGoUpAndDown(t *testing.T) {
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dsn := d.dsn(t)
			db := d.open(t, dsn)
			wantApplied(t, d, dsn, false)
			for range 2 {
				for range 2 { // a second Up changes nothing
					if err := migrations.Up(t.Context(), db, d.dialect); err != nil {
						t.Fatal(err)
					}
				}
				wantApplied(t, d, dsn, true)
				if err := migrations.Down(t.Context(), db, d.dialect); err != nil {
					t.Fatal(err)
				}
				wantApplied(t, d, dsn, false)
			}
			if err := migrations.Down(t.Context(), db, d.dialect); err == nil {
				t.Error("Down with nothing applied succeeded")
			}
		})
	}
}

func wantApplied(t *testing.T, d database, dsn string, want bool) {
	t.Helper()
	list, err := migrations.Status(t.Context(), d.open(t, dsn), d.dialect)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Version != 1 || list[0].Name == "" || list[0].Applied != want {
		t.Errorf("status %+v, want one migration, applied: %v", list, want)
	}
}

// The folders are goose's own format: its command works on them.
func TestTheGooseCommandAppliesTheFolders(t *testing.T) {
	goose := buildGoose(t)
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dsn := d.dsn(t)
			folder, name := "../migrations/"+d.dialect.Name(), d.dialect.Name()
			if name == "sqlite" {
				name = "sqlite3"
			}
			run := func(command string) string {
				t.Helper()
				out, err := exec.CommandContext(t.Context(), goose, "-table", migrations.VersionTable,
					"-dir", folder, name, dsn, command).CombinedOutput()
				if err != nil {
					t.Fatalf("goose %s: %v: %s", command, err, out)
				}
				return string(out)
			}
			run("up")
			wantApplied(t, d, dsn, true)
			if out := run("status"); strings.Contains(out, "Pending") {
				t.Errorf("goose status after up:\n%s", out)
			}
			if err := d.store(t, d.open(t, dsn)).Confirm(t.Context(), "order-1"); err != nil {
				t.Error(err)
			}
			run("down")
			wantApplied(t, d, dsn, false)
		})
	}
}

func buildGoose(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "goose")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-modfile=tools/go.mod", "-o", path,
		"-tags=no_clickhouse no_libsql no_mssql no_vertica no_ydb no_spanner", "github.com/pressly/goose/v3/cmd/goose")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func TestTheMigrationFilesCanBeExported(t *testing.T) {
	for _, d := range all.Dialects() {
		source, err := migrations.FS(d)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.CopyFS(dir, source); err != nil {
			t.Fatal(err)
		}
		files, err := fs.Glob(os.DirFS(dir), "*.sql")
		if err != nil || len(files) != 1 {
			t.Errorf("%s: files %v, %v; want one", d.Name(), files, err)
		}
	}
}

func TestMigrationsRefuseWhatTheyCannotUse(t *testing.T) {
	db := sqliteDB.open(t, sqliteDSN(t))
	for name, err := range map[string]error{
		"nil db":           migrations.Up(t.Context(), nil, sqliteDB.dialect),
		"nil dialect":      migrations.Up(t.Context(), db, nil),
		"unknown dialect":  migrations.Up(t.Context(), db, oracle{sqliteDB.dialect}),
		"the wrong server": migrations.Up(t.Context(), db, postgresDB.dialect),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "firsttime: migrations: ") {
			t.Errorf("%s: %v, want an error that says where it comes from", name, err)
		}
	}
}

type oracle struct{ dialects.Dialect }

func (oracle) Name() string { return "oracle" }
