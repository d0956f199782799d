package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
	gen "github.com/firsttime-go/firsttime/gen/sqlite"
)

func (d *dialect) Normalize(err error) error {
	if err == nil || dialects.Marked(err) {
		return err
	}
	if errors.Is(err, sql.ErrNoRows) {
		return dialects.Mark(dialects.ErrNotFound, err)
	}
	switch d.resultCode(err) {
	case 5, 6, 261, 262: // busy, locked, busy in recovery, locked shared cache
		return dialects.Mark(dialects.ErrRetryable, dialects.Mark(dialects.ErrBusy, err))
	case 517: // stale snapshot
		return dialects.Mark(dialects.ErrRetryable, err)
	}
	switch d.resultCode(err) & 0xff {
	case 8, 13: // read-only, full
		return dialects.Mark(dialects.ErrRetryable, dialects.Mark(dialects.ErrUnavailable, err))
	}
	if errors.Is(err, context.DeadlineExceeded) { // a statement here takes long only if it waits for a writer
		return dialects.Mark(dialects.ErrBusy, err)
	}
	return err
}

func (d *dialect) resultCode(err error) int {
	if err == nil {
		return 0 // before d.code allocates
	}
	return d.code(err)
}

// coded is what the errors of modernc.org/sqlite are.
type coded interface {
	error
	Code() int
}

// genericError is SQLite's single code for whatever is wrong with a statement.
const genericError = 1

// readsCodes makes an error to see that its code can be read: without codes, a busy file would be no reason
// to try again, and that would show only under load.
func (d *dialect) readsCodes(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "firsttime sends no SQL, to see an error of the driver")
	if ctx.Err() != nil || d.resultCode(err) != 0 {
		return ctx.Err()
	}
	return fmt.Errorf("the errors of the driver %T have no code that is known here: pass sqlite.WithErrorCode, "+
		"which tells where it is, as dialect: %w", db.Driver(), err)
}

// normalize is Dialect.Normalize and one thing more: a table that is missing or has other columns has no code
// of its own, so it is found by looking at it.
func (d *dialect) normalize(at gen.DBTX, err error) error {
	if d.resultCode(err) == genericError && !tableFits(at) {
		return dialects.Mark(dialects.ErrNotMigrated, err)
	}
	return d.Normalize(err)
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
	return rows > 0, q.normalize(err)
}
