package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
	gen "github.com/firsttime-go/firsttime/gen/sqlite"
)

func (dialect) Normalize(err error) error {
	if err == nil || dialects.Marked(err) {
		return err
	}
	if errors.Is(err, sql.ErrNoRows) {
		return dialects.Mark(dialects.ErrNotFound, err)
	}
	switch resultCode(err) {
	case 5, 6, 261, 262: // busy, locked, busy in recovery, locked shared cache
		return dialects.Mark(dialects.ErrRetryable, dialects.Mark(dialects.ErrBusy, err))
	case 517: // stale snapshot
		return dialects.Mark(dialects.ErrRetryable, err)
	}
	if errors.Is(err, context.DeadlineExceeded) { // a statement here takes long only if it waits for a writer
		return dialects.Mark(dialects.ErrBusy, err)
	}
	return err
}

// resultCode is SQLite's extended result code, 0 where err has none.
func resultCode(err error) int {
	if err == nil {
		return 0 // before the variable below is allocated
	}
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return 0
}

// normalize is Dialect.Normalize and one thing more. SQLite has a single code for whatever is wrong
// with a statement (1), so a table that is missing or has other columns is found by looking at it.
func normalize(at gen.DBTX, err error) error {
	const genericError = 1
	if resultCode(err) == genericError && !tableFits(at) {
		return dialects.Mark(dialects.ErrNotMigrated, err)
	}
	return Dialect.Normalize(err)
}

// tableFits reports whether the table has every column that the statements name. The context of the
// statement that failed may be over, so this has one of its own.
func tableFits(at gen.DBTX) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var columns int
	err := at.QueryRowContext(ctx, `SELECT count(*) FROM pragma_table_info('firsttime_keys')
WHERE name IN ('scope', 'message_id', 'state', 'claimed_by', 'attempts',
	'recorded_at', 'leased_until', 'confirmed_at', 'expires_at')`).Scan(&columns)
	return err != nil || columns == 9
}

// changed turns a row count into an answer: every statement names one key.
func (q queries) changed(rows int64, err error) (bool, error) {
	return rows > 0, normalize(q.at, err)
}
