package dialects_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/dialects/all"
	mysqldialect "github.com/firsttime-go/firsttime/dialects/mysql"
	"github.com/firsttime-go/firsttime/dialects/postgres"
	"github.com/firsttime-go/firsttime/dialects/sqlite"
)

// sqliteError is what SQLite's drivers return, as far as it matters.
type sqliteError int

func (e sqliteError) Error() string { return fmt.Sprintf("sqlite: code %d", int(e)) }
func (e sqliteError) Code() int     { return int(e) }

// fieldError is what drivers return that keep the code in a field.
type fieldError struct{ ExtendedCode int }

func (e fieldError) Error() string { return fmt.Sprintf("sqlite: field %d", e.ExtendedCode) }

func TestErrorsAreClassifiedByCode(t *testing.T) {
	var cases []struct {
		dialect dialects.Dialect
		err     error
		want    error // nil: returned as it is
	}
	add := func(d dialects.Dialect, want error, errs ...error) {
		for _, err := range errs {
			cases = append(cases, struct {
				dialect dialects.Dialect
				err     error
				want    error
			}{d, err, want})
		}
	}
	pg := func(states ...string) (errs []error) {
		for _, state := range states {
			errs = append(errs, &pgconn.PgError{Code: state}, &pq.Error{Code: pqerror.Code(state)})
		}
		return errs
	}
	my := func(numbers ...uint16) (errs []error) {
		for _, n := range numbers {
			errs = append(errs, &mysql.MySQLError{Number: n})
		}
		return errs
	}
	lite := func(codes ...int) (errs []error) {
		for _, c := range codes {
			errs = append(errs, sqliteError(c))
		}
		return errs
	}
	add(postgres.Dialect, dialects.ErrRetryable, pg("40001", "40P01", "55P03", "57014", "53300", "53100", "25006")...)
	add(postgres.Dialect, dialects.ErrUnavailable, pg("53300", "53100", "25006")...)
	add(postgres.Dialect, dialects.ErrOutcomeUnknown, pg("40003", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "08006", "08007")...)
	add(postgres.Dialect, dialects.ErrNotMigrated, pg("42P01", "42703", "3F000")...)
	add(postgres.Dialect, nil, pg("23505", "23514", "42501", "25P02", "53200")...)
	add(mysqldialect.Dialect, dialects.ErrRetryable, my(1213, 1205, 1020, 1047, 1040, 1021, 1114, 1290, 1836, 1969, 3024, 3101, 3572, 9007, 8022, 8002, 8028)...)
	add(mysqldialect.Dialect, dialects.ErrUnavailable, my(1040, 1021, 1114, 1290, 1836)...)
	add(mysqldialect.Dialect, dialects.ErrOutcomeUnknown, append(my(1180, 1053, 1927, 3100, 3169), mysql.ErrInvalidConn)...)
	add(mysqldialect.Dialect, dialects.ErrNotMigrated, my(1146, 1054, 1049)...)
	add(mysqldialect.Dialect, nil, my(1062, 1586, 1142, 1045)...)
	add(sqlite.Dialect, dialects.ErrRetryable, lite(5, 6, 261, 262, 517, 8, 13, 1032)...)
	add(sqlite.Dialect, dialects.ErrUnavailable, lite(8, 13, 1032)...)
	add(sqlite.Dialect, dialects.ErrBusy, lite(5, 6, 261, 262)...)
	add(sqlite.Dialect, dialects.ErrBusy, context.DeadlineExceeded)
	add(sqlite.Dialect, nil, lite(1, 1555, 2067)...)
	byField := sqlite.WithErrorCode(func(err fieldError) int { return err.ExtendedCode })
	add(byField, dialects.ErrRetryable, fieldError{5}, fieldError{517})
	add(byField, dialects.ErrBusy, fieldError{5})
	add(byField, nil, fieldError{1}, sqliteError(5))
	add(sqlite.Dialect, nil, fieldError{5})
	for _, d := range append(all.Dialects(), byField) {
		add(d, dialects.ErrNotFound, sql.ErrNoRows)
		add(d, nil, context.Canceled, sql.ErrTxDone, errors.New("anything else"))
	}
	for _, d := range []dialects.Dialect{postgres.Dialect, mysqldialect.Dialect} {
		add(d, nil, context.DeadlineExceeded)
		add(d, dialects.ErrOutcomeUnknown, driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
			&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, syscall.EPIPE)
	}

	for _, c := range cases {
		wrapped := fmt.Errorf("driver: %w", c.err)
		got := c.dialect.Normalize(wrapped)
		if !errors.Is(got, c.err) {
			t.Errorf("%s: %v hides %v", c.dialect.Name(), got, c.err)
		}
		if c.want == nil && got != wrapped { //nolint:errorlint // the same error, not one that wraps it
			t.Errorf("%s: %T %v became %v, want it as it is", c.dialect.Name(), c.err, c.err, got)
		}
		if c.want != nil && !errors.Is(got, c.want) {
			t.Errorf("%s: %T %v became %v, want %v", c.dialect.Name(), c.err, c.err, got, c.want)
		}
		if again := c.dialect.Normalize(got); again != got { //nolint:errorlint // as above
			t.Errorf("%s: normalized twice: %v", c.dialect.Name(), again)
		}
	}
	for _, d := range all.Dialects() {
		if err := d.Normalize(nil); err != nil {
			t.Errorf("%s: nil became %v", d.Name(), err)
		}
	}
}

// pgx says of some errors that the statement was never sent.
type unsent struct{ error }

func (unsent) SafeToRetry() bool { return true }

func TestWhatWasNeverSentMayBeTriedAgain(t *testing.T) {
	if err := postgres.Dialect.Normalize(unsent{errors.New("conn closed")}); !errors.Is(err, dialects.ErrRetryable) {
		t.Errorf("%v, want ErrRetryable", err)
	}
}

func TestDialectsArePickedByName(t *testing.T) {
	for name, want := range map[string]dialects.Dialect{
		"postgres": postgres.Dialect, "PostgreSQL": postgres.Dialect,
		"mysql": mysqldialect.Dialect, "MariaDB": mysqldialect.Dialect, "sqlite": sqlite.Dialect,
	} {
		if d, err := all.ByName(name); err != nil || d != want {
			t.Errorf("ByName(%q): %v, %v", name, d, err)
		}
	}
	_, err := all.ByName("oracle")
	if err == nil {
		t.Fatal("ByName of an unknown name succeeded")
	}
	for _, d := range all.Dialects() {
		if !strings.Contains(err.Error(), d.Name()) {
			t.Errorf("%v does not list %s", err, d.Name())
		}
		if found, err := all.ByName(d.Name()); err != nil || found != d {
			t.Errorf("%s is not found by its own name", d.Name())
		}
	}
}

func TestImportingADialectRegistersNoDriver(t *testing.T) {
	// go-sql-driver registers itself, and this test imports lib/pq and pgx for their errors; SQLite's
	// dialect must bring no driver.
	if slices.Contains(sql.Drivers(), "sqlite") || slices.Contains(sql.Drivers(), "sqlite3") {
		t.Errorf("drivers %v: package sqlite imports one", sql.Drivers())
	}
}

func TestLevelsAreNamed(t *testing.T) {
	for level, want := range map[dialects.Level]string{
		dialects.Note: "note", dialects.Warning: "warning", dialects.Fault: "fault", 0: "unknown",
	} {
		if got := level.String(); got != want {
			t.Errorf("%d is called %q, want %q", level, got, want)
		}
	}
}

func TestADialectThatCannotReadCodesIsRefusedWhenItIsMade(t *testing.T) {
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "WithErrorCode") {
			t.Errorf("panic %q, want one that names WithErrorCode", said)
		}
	}()
	sqlite.WithErrorCode[fieldError](nil)
}
