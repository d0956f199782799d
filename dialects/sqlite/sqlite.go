// Package sqlite is the dialect of SQLite. It imports no driver. Dialect is made for modernc.org/sqlite and fits
// any driver whose errors have a method Code() int; for others, WithErrorCode says in one line where their
// errors keep it. With mattn/go-sqlite3:
//
//	var dialect = sqlite.WithErrorCode(func(err sqlite3.Error) int { return int(err.ExtendedCode) })
//
// Recommended DSNs, which differ only in how the drivers spell the same settings:
//
//	file:PATH?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate                 (modernc.org/sqlite)
//	file:PATH?_journal_mode=WAL&_busy_timeout=5000&_txlock=immediate&_synchronous=FULL   (mattn/go-sqlite3)
//
// mattn/go-sqlite3 must say FULL: its own default for WAL is NORMAL, which lets a power cut undo the last
// commits, and with them work whose messages are acknowledged. It waits for another writer as long as the busy
// timeout says, whatever the store's time limit is: let the first not be longer than the second. It knows the
// size of the table only when it is built with the tag sqlite_dbstat.
package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/firsttime-go/firsttime/dialects"
	gen "github.com/firsttime-go/firsttime/gen/sqlite"
)

// Dialect speaks to SQLite 3.42 and later, through a driver whose errors have a method Code() int with SQLite's
// extended result code. Open refuses a driver whose errors have none.
var Dialect dialects.Dialect = WithErrorCode(coded.Code)

// WithErrorCode is Dialect for a driver that has errors of type E: code returns the extended result code of
// one, and is safe for concurrent use. It panics if code is nil.
func WithErrorCode[E error](code func(err E) int) dialects.Dialect {
	if code == nil {
		panic("firsttime: sqlite: WithErrorCode: code is nil")
	}
	return &dialect{code: func(err error) int {
		if e, ok := errors.AsType[E](err); ok {
			return code(e)
		}
		return 0
	}}
}

// dialect is a pointer wherever it is used, so that dialects can be compared.
type dialect struct {
	code func(err error) int // SQLite's extended result code, 0 where err has none
}

func (*dialect) Name() string { return "sqlite" }

func (d *dialect) Open(ctx context.Context, db *sql.DB, mode dialects.StatementMode) (dialects.Queries, error) {
	plain := gen.New(db)
	if _, err := plain.ServerVersion(ctx); err != nil {
		return nil, dialects.Refused(ctx, d.Name(), d.Normalize(err), d.resultCode(err) != 0)
	}
	if err := d.readsCodes(ctx, db); err != nil {
		return nil, err
	}
	if mode == dialects.Unprepared {
		q := queries{plain, db, d}
		return q, dialects.CheckTable(ctx, q)
	}
	prepared, err := gen.Prepare(ctx, db)
	if err != nil {
		return nil, d.normalize(db, err)
	}
	return queries{prepared, db, d}, nil
}
