package main

import (
	"context"
	"errors"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"github.com/firsttime-go/firsttime/store"
)

// oneLine is the text of an error, with what to do about it.
func oneLine(err error) string {
	if hint := remedy(err); hint != "" {
		return flat(err) + ": " + hint
	}
	return flat(err)
}

// flat is the text of an error without what the library puts before it, and without the line breaks of some drivers.
func flat(err error) string {
	return strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "firsttime: ")), " ")
}

const (
	lacksRights  = "this user lacks a right: consumers need SELECT, INSERT, UPDATE and DELETE on firsttime_keys, and migrate has to create and drop tables"
	takesNoWrite = "this server or user takes no writes: connect to the primary, or see \"firsttime doctor\""
	cannotWrite  = "the folder must be there, and it and the file writable for this user"
)

// remedy is what to do about an error of a database, "" if it says so itself or nobody knows.
func remedy(err error) string {
	var (
		pg   *pgconn.PgError
		my   *mysql.MySQLError
		lite *sqlite.Error
	)
	switch {
	case errors.Is(err, store.ErrNotMigrated):
		return "run \"firsttime migrate up\""
	case errors.As(err, &pg):
		switch pg.Code {
		case "42501":
			return lacksRights
		case "25006":
			return takesNoWrite
		}
	case errors.As(err, &my):
		switch my.Number {
		case 1044, 1142, 1143, 1227: // on the database, a table, a column, the server
			return lacksRights
		case 1290, 1792, 1836: // read_only, a read-only transaction, innodb_read_only
			return takesNoWrite
		}
	case errors.As(err, &lite):
		switch lite.Code() & 0xff {
		case 8, 14: // read-only, cannot open
			return cannotWrite
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "raise --timeout if it only needs longer"
	}
	return ""
}
