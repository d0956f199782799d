package store_test

import (
	"database/sql"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/firsttime-go/firsttime/dialects/sqlite"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
)

// One client does whatever comes to its mind, to Memory and to SQL: both answer what a plain map says.
func TestStoresAnswerLikeAPlainMap(t *testing.T) {
	dsn := "file:" + filepath.Join(t.TempDir(), "keys.db") +
		"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)&_txlock=immediate"
	db := openSQLite(t, dsn)
	if err := migrations.Up(t.Context(), db, sqlite.Dialect); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE effects (id INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		keys := rapid.SliceOfNDistinct(oddKey(), 1, 2, rapid.ID).Draw(rt, "keys")
		var program []step
		rt.Repeat(map[string]func(*rapid.T){"step": func(rt *rapid.T) {
			program = append(program, rapid.Custom(drawStep).Draw(rt, "step"))
		}})
		var failure error
		synctest.Test(t, func(t *testing.T) { failure = newBench(t, openSQLite(t, dsn), keys).run(program) })
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}

func openSQLite(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	return db
}

// scopes have names that a careless comparison takes for one, and settings of their own.
//
// Time passes in steps of twenty minutes, and whatever ends, ends between two of them: no test is so slow
// that the real time that it takes matters.
var scopes = []setting{
	{"default", 50 * time.Minute, 190 * time.Minute},
	{"Default ", 10 * time.Minute, 30 * time.Minute},
	{"défaut/%_", 130 * time.Minute, 150 * time.Minute},
}

type setting struct {
	name             string
	lease, retention time.Duration
}

const (
	tick   = 20 * time.Minute
	worker = "worker/1"
)

// oddKey makes keys that some database, encoding or pattern takes for another one, and bad ones.
func oddKey() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{
			"a", "A", "a ", " a", "a\t", "a\n", "ä", "a\u0308", "ß", "ss", "0", "00", "-0", "0x0", "1e0", "null", "NULL",
			"%", "_", "'", `"`, `\`, `\\`, "?", "$1", ":a", "@a", "/", "//", "{}", "\x7f", "\u200b", "\u202e", "\ufeff", "\uffff", "😀",
			strings.Repeat("k", store.MaxKeyLen), strings.Repeat("ä", store.MaxKeyLen/2),
		}),
		rapid.StringN(1, 20, store.MaxKeyLen),
		rapid.SampledFrom([]string{"", "\x00", "a\x00", "\xff", "a\xc3", strings.Repeat("k", store.MaxKeyLen+1), strings.Repeat("ä", 128)}),
	)
}

// step is one thing to do; what an action does not need of it means nothing.
type step struct {
	action     string
	scope, key int
	claim      int // of those that were taken so far
	yes        bool
	ticks      int
}

func drawStep(rt *rapid.T) step {
	names := slices.Sorted(maps.Keys(actions()))
	names = append(names, "claim", "claim", "first time", "pass time") // most of what happens follows from these
	return step{
		action: rapid.SampledFrom(names).Draw(rt, "action"),
		scope:  rapid.IntRange(0, len(scopes)-1).Draw(rt, "scope"),
		key:    rapid.IntRange(0, 1).Draw(rt, "key"),
		claim:  rapid.IntRange(0, 9).Draw(rt, "claim"),
		yes:    rapid.Bool().Draw(rt, "yes"),
		ticks:  rapid.SampledFrom([]int{1, 1, 2, 3, 5, 8}).Draw(rt, "ticks"),
	}
}

func actions() map[string]func(*bench, step) error {
	return map[string]func(*bench, step) error{
		"claim": (*bench).claim, "first time": (*bench).firstTime, "confirm": (*bench).confirm, "extend": (*bench).extend,
		"forget": (*bench).forget, "in transaction": (*bench).inTx, "confirm and roll back": (*bench).confirmTx,
		"confirm key": (*bench).confirmKey, "forget key": (*bench).forgetKey, "get": (*bench).get,
		"release": (*bench).release, "pass time": (*bench).passTime,
	}
}
