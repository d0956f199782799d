package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/firsttime-go/firsttime/dialects"
)

// Finding is one thing that Check found out.
type Finding = dialects.Finding

// How bad a finding is.
const (
	Note    = dialects.Note    // worth knowing
	Warning = dialects.Warning // works, but not as well or as safely as it could
	Fault   = dialects.Fault   // breaks the promises, or will fail
)

// Check is a preflight: it looks for whatever in the database, the table and the settings of db would break the
// promises or fail later, so that it is found at start and not by a double charge. It works where New fails,
// because there is no table, for example. It changes nothing, and each finding says what to do. An error says
// that the database does not answer, or that an option makes no sense.
func Check(ctx context.Context, db *sql.DB, dialect dialects.Dialect, options ...Option) ([]Finding, error) {
	set, err := defaults().apply(options)
	if err == nil && (db == nil || dialect == nil) {
		err = errors.New("db or dialect is nil")
	}
	if err != nil {
		return nil, opError("check", "", "", err)
	}
	return check(ctx, db, dialect, set)
}

// Check is the function Check for this store's database, dialect and settings.
func (s *SQL) Check(ctx context.Context) ([]Finding, error) {
	if s.closed.Load() {
		return nil, opError("check", "", "", ErrClosed)
	}
	return check(ctx, s.db, s.dialect, s.set)
}

func check(ctx context.Context, db *sql.DB, dialect dialects.Dialect, set settings) ([]Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, max(set.timeout, 10*time.Second))
	defer cancel()
	findings, err := dialect.Check(ctx, db, set.mode)
	if err == nil {
		err = checkClock(ctx, db, dialect, &findings)
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == Fault }) {
			err = nil // it follows from the fault, or the next check tells
		}
	}
	if err != nil {
		return findings, opError("check", "", "", err)
	}
	checkSettings(set, &findings)
	return findings, nil
}

// checkClock compares the clocks. Their difference does not matter to the keys, but to people who read them.
func checkClock(ctx context.Context, db *sql.DB, dialect dialects.Dialect, f *dialects.Findings) error {
	before := time.Now()
	theirs, err := dialect.Clock(ctx, db)
	if err != nil {
		return err
	}
	took := time.Since(before)
	ahead := time.UnixMicro(theirs).Sub(before.Add(took / 2)).Round(time.Millisecond)
	detail := fmt.Sprintf("the database's is %v ahead of this process's (%v at most by the way there)", ahead, took.Round(time.Millisecond))
	if ahead.Abs() > time.Minute {
		f.Warn("clock", detail, "set the clocks by NTP: leases follow the database's alone, but logs cannot be compared")
	} else {
		f.Note("clock", "%s", detail)
	}
	return nil
}

func checkSettings(set settings, f *dialects.Findings) {
	detail := fmt.Sprintf("retention %v, lease %v, time limit %v", set.retention, set.lease, set.timeout)
	switch {
	case set.retention < 10*set.lease:
		f.Warn("settings", detail+": keys are forgotten soon after their leases",
			"raise WithRetention to more than the oldest duplicate that can come")
	case set.timeout >= set.lease:
		f.Warn("settings", detail+": a claim can be over before its operation gives up", "lower WithTimeout or raise WithLease")
	default:
		f.Note("settings", "%s", detail)
	}
}

// Size is what the keys take on disk, in bytes. On MySQL it is as old as the server's statistics.
func (s *SQL) Size(ctx context.Context) (size dialects.Size, err error) {
	err = s.read(ctx, func(ctx context.Context) error {
		size, err = s.dialect.Size(ctx, s.db)
		return err
	})
	return size, opError("size", "", "", err)
}
