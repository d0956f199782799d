package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/firsttime-go/firsttime/dialects/all"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
)

func asError[T any](err error, target *T) bool { return errors.As(err, target) }

func TestAMissingTableIsAnErrorAtStartThatSaysWhatToDo(t *testing.T) {
	for _, d := range variants() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db := d.open(t, d.dsn(t))
			s, err := store.New(db, d.dialect, d.options...)
			if !errors.Is(err, store.ErrNotMigrated) || !strings.Contains(err.Error(), "migrations.Up") {
				t.Errorf("New: %v, %v; want ErrNotMigrated", s, err)
			}
		})
	}
}

func TestATableOfAnotherVersionIsAnErrorAtStart(t *testing.T) {
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			execute(t, db, "ALTER TABLE firsttime_keys DROP COLUMN confirmed_at")
			for _, options := range [][]store.Option{nil, {store.WithoutPreparedStatements()}} {
				if s, err := store.New(db, d.dialect, options...); !errors.Is(err, store.ErrNotMigrated) {
					t.Errorf("New: %v, %v; want ErrNotMigrated", s, err)
				}
			}
		})
	}
}

func TestATableThatGoesAwayIsReportedByEveryCall(t *testing.T) {
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			s := d.store(t, db)
			c, err := s.Claim(t.Context(), "order-1")
			if err != nil {
				t.Fatal(err)
			}
			if err := migrations.Down(t.Context(), db, d.dialect); err != nil {
				t.Fatal(err)
			}
			calls := map[string]func() error{
				"Claim":   func() error { _, err := s.Claim(t.Context(), "order-2"); return err },
				"Confirm": func() error { return c.Confirm(t.Context()) },
				"Extend":  func() error { return c.Extend(t.Context()) },
				"Forget":  func() error { return c.Forget(t.Context()) },
				"by key":  func() error { return s.Confirm(t.Context(), "order-3") },
				"Get":     func() error { _, err := s.Get(t.Context(), "order-1"); return err },
				"Stats":   func() error { _, err := s.Stats(t.Context()); return err },
				"Stale":   func() error { _, err := s.Stale(t.Context(), 1); return err },
				"Purge":   func() error { _, err := s.PurgeExpired(t.Context()); return err },
				"Size":    func() error { _, err := s.Size(t.Context()); return err },
				"InTx": func() error {
					return c.InTx(t.Context(), db, func(*sql.Tx) error { return nil })
				},
			}
			for name, call := range calls {
				if err := call(); !errors.Is(err, store.ErrNotMigrated) {
					t.Errorf("%s: %v, want ErrNotMigrated", name, err)
				}
			}
		})
	}
}

func TestADialectThatDoesNotFitTheDatabaseIsRefused(t *testing.T) {
	for _, d := range everyDatabase() {
		for _, wrong := range all.Dialects() {
			if wrong == d.dialect {
				continue
			}
			t.Run(d.name+" as "+wrong.Name(), func(t *testing.T) {
				t.Parallel()
				db, _ := d.migrated(t)
				if s, err := store.New(db, wrong); !errors.Is(err, store.ErrWrongDialect) {
					t.Errorf("New: %v, %v; want ErrWrongDialect", s, err)
				}
			})
		}
	}
}

func TestAnUnreachableServerIsAnErrorAtStart(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close() // from now on nobody answers there
	for _, c := range []struct {
		d   database
		dsn string
	}{
		{postgresDB, "postgres://user:geheim@" + address + "/db?sslmode=disable"},
		{mariaDB, "user:geheim@tcp(" + address + ")/db"},
		{sqliteDB, "file:" + filepath.Join(t.TempDir(), "missing", "directory", "keys.db")},
	} {
		t.Run(c.d.name, func(t *testing.T) {
			db := c.d.open(t, c.dsn)
			s, err := store.New(db, c.d.dialect)
			if err == nil {
				t.Fatalf("New: %v, want an error", s)
			}
			if !strings.Contains(err.Error(), "cannot be reached") || strings.Contains(err.Error(), "geheim") {
				t.Errorf("New: %v; want it to say that the database cannot be reached, without the password", err)
			}
		})
	}
}

func TestAServerThatDoesNotAnswerIsAnErrorWithinTheTimeLimit(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	db := postgresDB.open(t, "postgres://user@"+listener.Addr().String()+"/db?sslmode=disable")
	start := time.Now()
	if s, err := store.New(db, postgresDB.dialect, store.WithTimeout(200*time.Millisecond)); err == nil {
		t.Errorf("New: %v, want an error", s)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A session that turns text into another character set makes one key of several: a question mark is all that latin1 has
// for each of these, so that the second message would be acknowledged as a duplicate of the first.
func TestASessionThatChangesKeysIsRefusedAtStart(t *testing.T) {
	for _, d := range mySQLs() {
		for _, setting := range []string{"character_set_connection=latin1", "collation_connection=utf8mb3_general_ci", "character_set_client=latin1"} {
			for _, interpolate := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s %v", d.name, setting, interpolate), func(t *testing.T) {
					t.Parallel()
					_, dsn := d.migrated(t)
					name, value, _ := strings.Cut(setting, "=")
					db := d.open(t, withConfig(t, dsn, func(c *mysql.Config) {
						c.Params = map[string]string{name: value}
						c.InterpolateParams = interpolate
					}))
					s, err := store.New(db, d.dialect)
					if err == nil {
						for _, key := range []string{"日", "本", "😀", "😁"} {
							c, err := s.Claim(t.Context(), key)
							t.Logf("%s: %+v, %v", key, c, err)
						}
					}
					if err == nil || !strings.Contains(err.Error(), "character set") {
						t.Errorf("New: %v, want an error about the character set", err)
					}
				})
			}
		}
	}
}

// A session of PostgreSQL in another encoding has other bytes for a key than those that say UTF8: both would be the first.
func TestASessionOfPostgresThatChangesKeysIsRefusedAtStart(t *testing.T) {
	for _, mode := range []string{"cache_statement", "exec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			usual, dsn := postgresDB.migrated(t)
			d := postgresDB
			s, err := store.New(d.open(t, withQuery(t, dsn, "client_encoding", "LATIN1", "default_query_exec_mode", mode)), d.dialect)
			if err == nil {
				for _, s := range []*store.SQL{s, d.store(t, usual)} {
					c, err := s.Claim(t.Context(), "é")
					t.Logf("%+v, %v", c, err)
				}
			}
			if err == nil || !strings.Contains(err.Error(), "encoding") {
				t.Errorf("New: %v, want an error about the encoding", err)
			}
		})
	}
}

// Bytes that no session converts are as good in one character set as in another.
func TestASessionInAnotherCharacterSetKeepsKeysApart(t *testing.T) {
	for _, d := range mySQLs() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			_, dsn := d.migrated(t)
			other := d.store(t, d.open(t, withConfig(t, dsn, func(c *mysql.Config) { c.Params = map[string]string{"charset": "latin1"} })))
			usual := d.store(t, d.open(t, dsn))
			for _, key := range []string{"日", "本", "😀", "😁"} {
				first, err := other.Claim(t.Context(), key)
				if err != nil || first.Outcome() != store.First {
					t.Fatalf("%s: %v, %v; want first", key, first, err)
				}
				if again, err := usual.Claim(t.Context(), key); err != nil || again.Outcome() != store.InProgress {
					t.Errorf("%s: %v, %v; want in progress", key, again, err)
				}
			}
		})
	}
}

// A claim must commit on its own: without autocommit it never would.
func TestSessionsWithoutAutocommitAreRefused(t *testing.T) {
	for _, d := range mySQLs() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			_, dsn := d.migrated(t)
			db := d.open(t, withConfig(t, dsn, func(c *mysql.Config) { c.Params = map[string]string{"autocommit": "0"} }))
			if s, err := store.New(db, d.dialect); err == nil || !strings.Contains(err.Error(), "autocommit") {
				t.Errorf("New: %v, %v; want an error about autocommit", s, err)
			}
		})
	}
}

// A pool of one connection is enough for everything but a claim inside the handler's own transaction.
func TestAPoolOfOneConnectionIsEnough(t *testing.T) {
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db := d.open(t, d.dsn(t))
			db.SetMaxOpenConns(1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := migrations.Up(ctx, db, d.dialect); err != nil {
				t.Fatal(err)
			}
			s := d.store(t, db)
			c, err := s.Claim(ctx, "order-1")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.InTx(ctx, db, func(*sql.Tx) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if _, err := s.PurgeExpired(ctx); err != nil {
				t.Fatal(err)
			}
			if err := migrations.Down(ctx, db, d.dialect); err != nil {
				t.Fatal(err)
			}
			if err := s.Confirm(ctx, "order-2"); !errors.Is(err, store.ErrNotMigrated) {
				t.Errorf("Confirm without a table: %v, want ErrNotMigrated", err)
			}
		})
	}
}

func TestTheDriversErrorComesThrough(t *testing.T) {
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db, _ := d.migrated(t)
			s := d.store(t, db)
			if err := migrations.Down(t.Context(), db, d.dialect); err != nil {
				t.Fatal(err)
			}
			_, err := s.Claim(t.Context(), "order-1")
			var ours *store.Error
			if !errors.As(err, &ours) || ours.Op != "claim" || ours.Key != "order-1" || ours.Scope != store.DefaultScope {
				t.Errorf("%#v is not a store.Error with operation and key", err)
			}
			if d.driverError(err) == nil {
				t.Errorf("%v hides the driver's error", err)
			}
		})
	}
}
