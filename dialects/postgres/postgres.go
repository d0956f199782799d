// Package postgres is the dialect of PostgreSQL. It imports no driver: pgx's stdlib and lib/pq both
// work, as does every driver whose errors have a method SQLState() string.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/firsttime-go/firsttime/dialects"
	gen "github.com/firsttime-go/firsttime/gen/postgres"
)

// Dialect speaks to PostgreSQL 12 and later.
var Dialect dialects.Dialect = dialect{}

type dialect struct{}

func (dialect) Name() string { return "postgres" }

func (d dialect) Open(ctx context.Context, db *sql.DB, mode dialects.StatementMode) (dialects.Queries, error) {
	plain := gen.New(db)
	if _, err := plain.ServerVersion(ctx); err != nil {
		var server serverError
		return nil, dialects.Refused(ctx, d.Name(), normalize(err), errors.As(err, &server))
	}
	kept, err := keepsText(ctx, db)
	switch {
	case err != nil:
		return nil, normalize(err)
	case !kept:
		return nil, errors.New("text is converted between the encodings of the sessions of db and of the database, so that a key " +
			"is not the same to all, and work is done twice: " + keepText)
	}
	if mode == dialects.Unprepared {
		q := queries{plain}
		return q, dialects.CheckTable(ctx, q)
	}
	prepared, err := gen.Prepare(ctx, db)
	if err != nil {
		return nil, normalize(err)
	}
	return queries{prepared}, nil
}

func (dialect) Normalize(err error) error { return normalize(err) }

// serverError is what the errors of pgx and of lib/pq have in common.
type serverError interface{ SQLState() string }

func normalize(err error) error {
	if err == nil || dialects.Marked(err) {
		return err
	}
	if errors.Is(err, sql.ErrNoRows) {
		return dialects.Mark(dialects.ErrNotFound, err)
	}
	var server serverError
	if errors.As(err, &server) {
		if sentinel := classify(server.SQLState()); sentinel != nil {
			return dialects.Mark(sentinel, err)
		}
		return err
	}
	var unsent interface{ SafeToRetry() bool } // pgx: the statement never left this process
	if errors.As(err, &unsent) && unsent.SafeToRetry() {
		return dialects.Mark(dialects.ErrRetryable, err)
	}
	if dialects.ConnectionLost(err) {
		return dialects.Mark(dialects.ErrOutcomeUnknown, err)
	}
	return err
}

// classify maps a SQLSTATE to a sentinel, nil where there is none.
func classify(state string) error {
	switch state {
	case "40001", "40P01", "55P03", "57014": // serialization failure, deadlock, lock not available, statement cancelled
		return dialects.ErrRetryable
	case "53300", "53100", "25006": // too many connections, disk full, read-only
		return dialects.Mark(dialects.ErrRetryable, dialects.ErrUnavailable)
	case "40003", "57P01", "57P02", "57P03", // outcome unknown; the server shuts down, crashed, starts up
		"57P05", "25P03", "25P04": // the session was ended: it was idle, idle in a transaction, or that took too long
		return dialects.ErrOutcomeUnknown
	case "42P01", "42703", "3F000": // no such table, column, schema
		return dialects.ErrNotMigrated
	}
	if strings.HasPrefix(state, "08") { // connection exceptions
		return dialects.ErrOutcomeUnknown
	}
	return nil
}
