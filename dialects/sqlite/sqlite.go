// Package sqlite is the dialect of SQLite. It imports no driver: modernc.org/sqlite is the one it is
// made for; any driver fits whose errors have a method Code() int with SQLite's extended result code.
//
// Recommended DSN: file:PATH?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate.
package sqlite

import (
	"context"
	"database/sql"

	"github.com/firsttime-go/firsttime/dialects"
	gen "github.com/firsttime-go/firsttime/gen/sqlite"
)

// Dialect speaks to SQLite 3.42 and later.
var Dialect dialects.Dialect = dialect{}

type dialect struct{}

func (dialect) Name() string { return "sqlite" }

func (d dialect) Open(ctx context.Context, db *sql.DB, mode dialects.StatementMode) (dialects.Queries, error) {
	plain := gen.New(db)
	if _, err := plain.ServerVersion(ctx); err != nil {
		return nil, dialects.Refused(ctx, d.Name(), d.Normalize(err), resultCode(err) != 0)
	}
	if mode == dialects.Unprepared {
		q := queries{plain, db}
		return q, dialects.CheckTable(ctx, q)
	}
	prepared, err := gen.Prepare(ctx, db)
	if err != nil {
		return nil, normalize(db, err)
	}
	return queries{prepared, db}, nil
}
