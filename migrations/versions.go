package migrations

import (
	"context"
	"database/sql"
	"errors"

	"github.com/pressly/goose/v3/database"

	"github.com/firsttime-go/firsttime/dialects"
)

// versionTable is goose's version table, read without the times in it: go-sql-driver delivers times with
// parseTime only, and no setting of a DSN is to matter.
type versionTable struct {
	database.Store
	dialect dialects.Dialect
}

// GetMigration is as goose's, but for the time.
func (v versionTable) GetMigration(ctx context.Context, db database.DBTxConn, version int64) (*database.GetMigrationResult, error) {
	rows, err := v.ListMigrations(ctx, db)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.Version == version {
			return &database.GetMigrationResult{IsApplied: row.IsApplied}, nil
		}
	}
	return nil, database.ErrVersionNotFound
}

// applied lists which migrations are applied: none where there is no version table.
func (v versionTable) applied(ctx context.Context, db *sql.DB) (map[int64]bool, error) {
	if missing, err := v.missing(ctx, db); err != nil || missing {
		return nil, err
	}
	rows, err := v.ListMigrations(ctx, db)
	if errors.Is(v.dialect.Normalize(err), dialects.ErrNotMigrated) {
		return nil, nil
	}
	applied := make(map[int64]bool, len(rows))
	for _, row := range rows {
		applied[row.Version] = row.IsApplied
	}
	return applied, err
}

// missing reports whether there is no version table, on SQLite, which has one code for every mistake in a
// statement. It looks before the table is read, not after: another process may create it in between.
func (v versionTable) missing(ctx context.Context, db *sql.DB) (bool, error) {
	if v.dialect.Name() != "sqlite" {
		return false, nil
	}
	var tables int
	err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = ?", VersionTable).Scan(&tables)
	return tables == 0, err
}
