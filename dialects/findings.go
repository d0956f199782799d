package dialects

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Level says how bad a finding is.
type Level int

const (
	// Note is worth knowing.
	Note Level = iota + 1
	// Warning is what works, but not as well or as safely as it could.
	Warning
	// Fault is what breaks the promises, or will fail.
	Fault
)

// String returns "note", "warning" or "fault".
func (l Level) String() string {
	switch l {
	case Note:
		return "note"
	case Warning:
		return "warning"
	case Fault:
		return "fault"
	}
	return "unknown"
}

// Finding is one thing that a preflight found out about a database.
type Finding struct {
	Level  Level
	Check  string // what was looked at, in a word or two
	Detail string // what it is like
	Remedy string // what to do, "" for a note
}

// Findings collects what a preflight finds out.
type Findings []Finding

// Note adds what is worth knowing.
func (f *Findings) Note(check, format string, args ...any) {
	*f = append(*f, Finding{Level: Note, Check: check, Detail: fmt.Sprintf(format, args...)})
}

// Warn adds what could be better.
func (f *Findings) Warn(check, detail, remedy string) {
	*f = append(*f, Finding{Level: Warning, Check: check, Detail: detail, Remedy: remedy})
}

// Fault adds what is wrong.
func (f *Findings) Fault(check, detail, remedy string) {
	*f = append(*f, Finding{Level: Fault, Check: check, Detail: detail, Remedy: remedy})
}

const recreate = "the table was not made by our migrations, or was changed: compare it with migrations.FS, " +
	"or rename it and run \"firsttime migrate up\""

// TableMissing adds that there is no table.
func (f *Findings) TableMissing(where string) {
	f.Fault("table", "there is no table firsttime_keys in "+where, "run \"firsttime migrate up\", or call migrations.Up")
}

// Columns compares the table's columns, as "name type", with what they should be.
func (f *Findings) Columns(have, want []string) {
	var wrong []string
	for _, w := range want {
		if !slices.Contains(have, w) {
			wrong = append(wrong, w)
		}
	}
	if len(wrong) > 0 {
		f.Fault("columns", fmt.Sprintf("the table lacks %s: it has %s", strings.Join(wrong, ", "), strings.Join(have, ", ")), recreate)
		return
	}
	f.Note("columns", "all there, the keys compare byte by byte")
}

// PrimaryKey checks that the primary key is (scope, message_id), which is what two consumers cannot both win.
func (f *Findings) PrimaryKey(columns []string) {
	if !slices.Equal(columns, []string{"scope", "message_id"}) {
		f.Fault("primary key", fmt.Sprintf("it is (%s), so that one key could be claimed twice", strings.Join(columns, ", ")),
			"make it (scope, message_id); "+recreate)
		return
	}
	f.Note("primary key", "(scope, message_id)")
}

// ExpiryIndex checks that there is the index by which a purge finds what to delete.
func (f *Findings) ExpiryIndex(found bool) {
	if !found {
		f.Fault("expiry index", "there is no index on expires_at: every batch of a purge reads the whole table",
			"CREATE INDEX firsttime_keys_expires_at ON firsttime_keys (expires_at)")
		return
	}
	f.Note("expiry index", "there")
}

// GrantRights is what to do if a server refuses to write.
const GrantRights = "grant SELECT, INSERT, UPDATE and DELETE on firsttime_keys, and use a server that takes writes"

// Written checks the answer to a trial that inserts, changes and deletes a key and rolls back.
func (f *Findings) Written(err error, remedy string) {
	if err != nil {
		f.Fault("write", fmt.Sprintf("a key cannot be inserted, changed and deleted: %v", err), remedy)
		return
	}
	f.Note("write", "keys can be inserted, changed and deleted")
}

// Undone calls trial in a transaction that is rolled back.
func Undone(ctx context.Context, db *sql.DB, trial func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	return errors.Join(trial(tx), tx.Rollback())
}

// Strings reads a column of text.
func Strings(ctx context.Context, db *sql.DB, query string, args ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// Size is what the keys take on disk, in bytes.
type Size struct {
	Table int64
	Index int64 // all of them
}
