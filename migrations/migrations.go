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
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/firsttime-go/firsttime/dialects"
)

// VersionTable is where goose keeps which migrations were applied: goose's option -table.
const VersionTable = "firsttime_goose_version"

//go:embed postgres/*.sql mysql/*.sql sqlite/*.sql
var files embed.FS

// Migration is one migration of the table.
type Migration struct {
	Version   int64
	Name      string
	Applied   bool
	AppliedAt time.Time // zero if it is not applied
}

// Up applies what is missing. It may be called by any number of processes at once, at every start: one
// of them migrates, the others wait for it, at most a minute.
func Up(ctx context.Context, db *sql.DB, dialect dialects.Dialect) error {
	p, err := newProvider(db, dialect)
	if err != nil {
		return err
	}
	pending, err := p.HasPending(ctx)
	if err == nil && pending {
		_, err = p.Up(ctx)
	}
	return failed("up", dialect, err)
}

// Down takes the newest migration back that is applied, and the keys with it when that is the first one.
// Where none is applied it returns an error that matches goose.ErrNoNextVersion.
func Down(ctx context.Context, db *sql.DB, dialect dialects.Dialect) error {
	p, err := newProvider(db, dialect)
	if err != nil {
		return err
	}
	_, err = p.Down(ctx)
	return failed("down", dialect, err)
}

// Status lists all migrations, the oldest first.
func Status(ctx context.Context, db *sql.DB, dialect dialects.Dialect) ([]Migration, error) {
	p, err := newProvider(db, dialect)
	if err != nil {
		return nil, err
	}
	found, err := p.Status(ctx)
	if err != nil {
		return nil, failed("status", dialect, err)
	}
	list := make([]Migration, len(found))
	for i, m := range found {
		list[i] = Migration{
			Version: m.Source.Version, Name: m.Source.Path,
			Applied: m.State == goose.StateApplied, AppliedAt: m.AppliedAt,
		}
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

func newProvider(db *sql.DB, dialect dialects.Dialect) (*goose.Provider, error) {
	source, err := FS(dialect)
	if err != nil {
		return nil, err
	}
	if db == nil {
		return nil, errors.New("firsttime: migrations: db is nil: pass what sql.Open returned")
	}
	kind, locker, err := forGoose(dialect.Name())
	if err != nil {
		return nil, failed("set up", dialect, err)
	}
	p, err := goose.NewProvider(kind, db, source,
		goose.WithTableName(VersionTable),
		goose.WithDisableGlobalRegistry(true), // an application's own Go migrations are not ours
		goose.WithSessionLocker(locker),
	)
	return p, failed("set up", dialect, err)
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
