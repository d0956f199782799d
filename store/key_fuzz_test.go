package store_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/firsttime-go/firsttime/dialects/sqlite"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
)

// What a store takes it gives back byte by byte, and takes nothing else for it; what it cannot keep it refuses.
func FuzzKeysAndScopes(f *testing.F) {
	dsn := "file:" + filepath.Join(f.TempDir(), "keys.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
	db := openSQLite(f, dsn)
	if err := migrations.Up(f.Context(), db, sqlite.Dialect); err != nil {
		f.Fatal(err)
	}
	s, err := store.New(db, sqlite.Dialect)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, scope1, key1, scope2, key2 string) {
		if _, err := db.Exec("DELETE FROM firsttime_keys"); err != nil {
			t.Fatal(err)
		}
		m, err := store.NewMemory()
		if err != nil {
			t.Fatal(err)
		}
		taken := make(map[string]bool)
		for _, at := range [][2]string{{scope1, key1}, {scope2, key2}} {
			scope, key := at[0], at[1]
			for name, divide := range map[string]func(string, ...store.Option) (*store.Scoped, error){"SQL": s.Scope, "Memory": m.Scope} {
				scoped, err := divide(scope)
				if errors.Is(err, store.ErrInvalidScope) == storable(scope, store.MaxScopeLen) || (err == nil) != storable(scope, store.MaxScopeLen) {
					t.Fatalf("%s.Scope(%q): %v", name, scope, err)
				}
				if err != nil {
					continue
				}
				first, err := scoped.FirstTime(t.Context(), key)
				if errors.Is(err, store.ErrInvalidKey) == storable(key, store.MaxKeyLen) || (err == nil) != storable(key, store.MaxKeyLen) {
					t.Fatalf("%s.FirstTime(%q): %v", name, key, err)
				}
				id := fmt.Sprintf("%s %q %q", name, scope, key)
				if err != nil {
					continue
				}
				if first == taken[id] {
					t.Fatalf("%s: first %v, but taken before: %v", id, first, taken[id])
				}
				taken[id] = true
				if r, err := scoped.Get(t.Context(), key); err != nil || r.Scope != scope || r.Key != key {
					t.Fatalf("%s reads back as %q %q: %v", id, r.Scope, r.Key, err)
				}
			}
		}
		var rows int
		if err := db.QueryRow("SELECT COUNT(*) FROM firsttime_keys").Scan(&rows); err != nil || 2*rows != len(taken) {
			t.Fatalf("%d rows of %v; %v", rows, taken, err)
		}
	})
}

// storable is the rule for keys and scopes, said another way.
func storable(s string, maxLen int) bool {
	return len(s) >= 1 && len(s) <= maxLen && utf8.ValidString(s) && !strings.Contains(s, "\x00")
}
