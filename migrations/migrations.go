// Package migrations creates and changes the table firsttime_keys with goose. Its version table is
// firsttime_goose_version, so that it lives beside an application's own goose migrations.
//
// Up, Down and Status do everything from within a program. Who runs goose as a command, or keeps all
// migrations of an application in one place, takes the files from FS.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"github.com/firsttime-go/firsttime/dialects"
)

// VersionTable is where goose keeps which migrations were applied: goose's option -table.
const VersionTable = "firsttime_goose_version"

//go:embed postgres/*.sql mysql/*.sql sqlite/*.sql
var files embed.FS

// Migration is one migration of the table.
type Migration struct {
	Version int64
	Name    string
	Applied bool
}

// Up applies what is missing. It may be called by any number of processes at once, at every start: one
// of them migrates, the others wait for it, at most a minute.
func Up(ctx context.Context, db *sql.DB, dialect dialects.Dialect) error {
	p, versions, err := newProvider(db, dialect)
	if err != nil {
		return err
	}
	applied, err := versions.applied(ctx, db)
	if err != nil {
		return failed("up", dialect, err)
	}
	for _, source := range p.ListSources() {
		if applied[source.Version] {
			continue
		}
		// Not goose's own Up: that one first looks what is pending, without the lock, and creates the
		// version table for it, in which another process then finds no versions yet.
		_, err := p.ApplyVersion(ctx, source.Version, true)
		if err != nil && !errors.Is(err, goose.ErrAlreadyApplied) {
			return failed("up", dialect, err)
		}
	}
	return nil
}

// Down takes the newest migration back that is applied, and the keys with it when that is the first one.
// Where none is applied it returns an error that matches goose.ErrNoNextVersion.
func Down(ctx context.Context, db *sql.DB, dialect dialects.Dialect) error {
	p, _, err := newProvider(db, dialect)
	if err != nil {
		return err
	}
	_, err = p.Down(ctx)
	return failed("down", dialect, err)
}

// Status lists all migrations, the oldest first. It changes nothing.
func Status(ctx context.Context, db *sql.DB, dialect dialects.Dialect) ([]Migration, error) {
	p, versions, err := newProvider(db, dialect)
	if err != nil {
		return nil, err
	}
	applied, err := versions.applied(ctx, db)
	if err != nil {
		return nil, failed("status", dialect, err)
	}
	var list []Migration
	for _, source := range p.ListSources() {
		list = append(list, Migration{Version: source.Version, Name: source.Path, Applied: applied[source.Version]})
	}
	return list, nil
}

// FS returns the migration files of a dialect, in goose's format and at the root of the file system.
func FS(dialect dialects.Dialect) (fs.FS, error) {
	if dialect == nil {
		return nil, errors.New("firsttime: migrations: dialect is nil: pass postgres.Dialect, mysql.Dialect or sqlite.Dialect")
	}
	if _, err := fs.Stat(files, dialect.Name()); err != nil {
		return nil, fmt.Errorf("firsttime: migrations: there are none for dialect %q", dialect.Name())
	}
	return fs.Sub(files, dialect.Name())
}

func newProvider(db *sql.DB, dialect dialects.Dialect) (*goose.Provider, versionTable, error) {
	source, err := FS(dialect)
	if err != nil {
		return nil, versionTable{}, err
	}
	if db == nil {
		return nil, versionTable{}, errors.New("firsttime: migrations: db is nil: pass what sql.Open returned")
	}
	kind, locker, err := forGoose(dialect.Name())
	if err != nil {
		return nil, versionTable{}, failed("set up", dialect, err)
	}
	table, err := database.NewStore(kind, VersionTable)
	if err != nil {
		return nil, versionTable{}, failed("set up", dialect, err)
	}
	versions := versionTable{table, dialect}
	p, err := goose.NewProvider(goose.DialectCustom, db, source,
		goose.WithStore(versions),
		goose.WithDisableGlobalRegistry(true), // an application's own Go migrations are not ours
		goose.WithSessionLocker(locker),
	)
	return p, versions, failed("set up", dialect, err)
}

// forGoose returns goose's name for a dialect and a lock that lets one process migrate at a time. All
// locks live in the migrating session, so that a pool of one connection is enough.
func forGoose(name string) (goose.Dialect, lock.SessionLocker, error) {
	switch name {
	case "postgres":
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
		return goose.DialectPostgres, locker, err
	case "mysql":
		return goose.DialectMySQL, mysqlLocker{}, nil
	case "sqlite":
		return goose.DialectSQLite3, newSQLiteLocker(), nil
	}
	return "", nil, fmt.Errorf("goose knows no dialect %q", name)
}

func failed(op string, dialect dialects.Dialect, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("firsttime: migrations: %s (%s): %w", op, dialect.Name(), dialect.Normalize(err))
}
