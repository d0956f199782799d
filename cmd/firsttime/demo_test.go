package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firsttime-go/firsttime/store"
)

// firsttime runs the command and returns its exit code and what it printed.
func firsttime(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

func runDemoJSON(t *testing.T, args ...string) demoResult {
	t.Helper()
	code, stdout, stderr := firsttime(t, append([]string{"demo", "--json"}, args...)...)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var r demoResult
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil || decoder.More() {
		t.Fatalf("stdout is not one JSON object: %v: %s", err, stdout)
	}
	return r
}

func TestDemoChargesEveryPaymentOnce(t *testing.T) {
	for _, seed := range []string{"1", "2"} {
		t.Run("seed "+seed, func(t *testing.T) {
			t.Parallel()
			r := runDemoJSON(t, "--seed", seed)
			if r.Messages != 500 || r.Charges != 500 || r.Handled != 500 || r.Missing != 0 || r.Double != 0 {
				t.Errorf("%+v: want 500 messages, handled and charged once", r)
			}
			if r.Crashes < 10 || r.Takeovers == 0 || r.Duplicates == 0 || r.InProgress == 0 {
				t.Errorf("%+v: too little went wrong for the demo to show anything", r)
			}
			if settled := r.Handled + r.Duplicates + r.InProgress + r.Crashes; r.Deliveries > settled {
				t.Errorf("%+v: %d deliveries, only %d accounted for", r, r.Deliveries, settled)
			}
		})
	}
}

func TestDemoReadsPaymentsFromAFile(t *testing.T) {
	t.Parallel()
	path := writeInput(t, `{"id":"a","order_id":"o1","amount_cents":100}

{"id":"A","order_id":"o1","amount_cents":100}
{"id":"a ","order_id":"o2","amount_cents":1}
{"id":"a","order_id":"o1","amount_cents":100}
`)
	if r := runDemoJSON(t, "--input", path, "--consumers", "2"); r.Messages != 3 || r.Charges != 3 {
		t.Errorf("%+v: want 3 messages: case and spaces count, a repeated line does not", r)
	}
}

func TestDemoRunsOnADatabaseFileAndLeavesNothingOfItsOwn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "odd name?#%20.db")
	for range 2 {
		runDemoJSON(t, "--db", "sqlite:"+path, "--messages", "20")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the file is not where it was asked for: %v", err)
	}
	db, err := openDatabase("sqlite:" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var tables, keys int
	if err := db.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name LIKE '%charges%'").Scan(&tables); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow("SELECT count(*) FROM firsttime_keys").Scan(&keys); err != nil {
		t.Fatal(err)
	}
	if tables != 0 || keys != 0 {
		t.Errorf("%d tables of charges and %d keys are left, want none", tables, keys)
	}
}

// The demo's own check must be able to fail.
func TestTheLedgerFindsMissingAndDoubleCharges(t *testing.T) {
	t.Parallel()
	db, err := openDatabase("sqlite:" + filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l := ledger{db, "charges"}
	if err := l.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	payments := []payment{{ID: "once", OrderID: "o", AmountCents: 1}, {ID: "twice", OrderID: "o", AmountCents: 1}, {ID: "never", OrderID: "o", AmountCents: 1}}
	for _, p := range []payment{payments[0], payments[1], payments[1]} {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.charge(t.Context(), tx, p); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	charges, missing, double, err := l.check(t.Context(), payments)
	if charges != 3 || missing != 1 || double != 1 || err != nil {
		t.Errorf("check: %d charges, %d missing, %d double, %v; want 3, 1, 1", charges, missing, double, err)
	}
	for _, r := range []demoResult{
		{Messages: 3, Charges: 3, Missing: 1, Double: 1}, {Messages: 3, Charges: 2, Missing: 1},
		{Messages: 3, Charges: 4, Double: 1}, {Messages: 3, Charges: 4},
	} {
		if r.verdict() == nil {
			t.Errorf("%+v passes", r)
		}
	}
}

func TestWrongUseIsOneClearLine(t *testing.T) {
	good := `{"id":"a","order_id":"o","amount_cents":1}`
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown command":      {[]string{"purgee"}, exitWrongUse, `"purgee"`},
		"unknown flag":         {[]string{"demo", "--sed", "1"}, exitWrongUse, "--sed"},
		"no messages":          {[]string{"demo", "--messages", "0"}, exitWrongUse, "--messages 0"},
		"not a number":         {[]string{"demo", "--messages", "many"}, exitWrongUse, "many"},
		"no consumers":         {[]string{"demo", "--consumers", "0"}, exitWrongUse, "--consumers 0"},
		"messages and input":   {[]string{"demo", "--messages", "1", "--input", "x"}, exitWrongUse, "input"},
		"no scheme":            {[]string{"demo", "--db", "keys.db"}, exitWrongUse, "sqlite:path"},
		"unknown scheme":       {[]string{"demo", "--db", "oracle://x"}, exitWrongUse, `"oracle"`},
		"sqlite in memory":     {[]string{"demo", "--db", "sqlite::memory:"}, exitWrongUse, "file"},
		"malformed postgres":   {[]string{"demo", "--db", "postgres://u:geheim@h:port/db"}, exitWrongUse, "postgres"},
		"malformed mysql":      {[]string{"demo", "--db", "mysql://u:ge%zzheim@h/db"}, exitWrongUse, "mysql://"},
		"malformed driver DSN": {[]string{"demo", "--db", "mysql://u:geheim@tcp(h)/db?parseTime=x"}, exitWrongUse, "MySQL"},
		"mysql without a db":   {[]string{"demo", "--db", "mysql://u:geheim@h"}, exitWrongUse, "database"},
		"unreachable postgres": {[]string{"demo", "--db", "postgres://u:geheim@127.0.0.1:1/db"}, exitFailed, "127.0.0.1"},
		"unreachable mysql":    {[]string{"demo", "--db", "mysql://u:geheim@127.0.0.1:1/db"}, exitFailed, "127.0.0.1"},
		"no such file":         {[]string{"demo", "--input", "/does/not/exist"}, exitWrongUse, "/does/not/exist"},
		"empty input":          {[]string{"demo", "--input", writeInput(t, "\n\n")}, exitWrongUse, "no payments"},
		"bad JSON":             {[]string{"demo", "--input", writeInput(t, good+"\nnonsense\n")}, exitWrongUse, "line 2"},
		"empty id":             {[]string{"demo", "--input", writeInput(t, `{"id":"","order_id":"o","amount_cents":1}`)}, exitWrongUse, "line 1"},
		"long id":              {[]string{"demo", "--input", writeInput(t, `{"id":"`+strings.Repeat("x", 256)+`","order_id":"o","amount_cents":1}`)}, exitWrongUse, "256 bytes"},
		"no amount":            {[]string{"demo", "--input", writeInput(t, `{"id":"a","order_id":"o"}`)}, exitWrongUse, "amount_cents"},
		"unknown field":        {[]string{"demo", "--input", writeInput(t, `{"id":"a","order_id":"o","amount_cents":1,"x":1}`)}, exitWrongUse, "line 1"},
		"two on a line":        {[]string{"demo", "--input", writeInput(t, good+good)}, exitWrongUse, "line 1"},
		"one id, two payments": {[]string{"demo", "--input", writeInput(t, good+"\n"+strings.Replace(good, "1}", "2}", 1))}, exitWrongUse, "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := firsttime(t, c.args...)
			if code != c.code || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 || stdout != "" {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d and one line with %q", code, stdout, stderr, c.code, c.want)
			}
			if strings.Contains(stderr, "geheim") {
				t.Errorf("the password is shown: %s", stderr)
			}
		})
	}
}

func TestAnInterruptedDemoSaysSo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, err bytes.Buffer
	if code := run(ctx, []string{"demo"}, &out, &err); code != exitInterrupted {
		t.Errorf("exit %d, want %d: %s", code, exitInterrupted, err.String())
	}
}

func TestMySQLURLsBecomeTheDriversConfiguration(t *testing.T) {
	for dsn, want := range map[string]string{
		"root@localhost/db":                   "root@tcp(localhost:3306)/db",
		"u:p%40ss@h:3307/db?parseTime=true":   "u:p@ss@tcp(h:3307)/db?parseTime=true",
		"u:p@tcp(h:3307)/db":                  "u:p@tcp(h:3307)/db",
		"u:p@unix(/run/mysqld/mysqld.sock)/d": "u:p@unix(/run/mysqld/mysqld.sock)/d",
		"[::1]:3307/db":                       "tcp([::1]:3307)/db",
	} {
		c, err := mysqlConfig(dsn)
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
		} else if got := strings.TrimPrefix(c.FormatDSN(), "@"); got != want {
			t.Errorf("%s: %s, want %s", dsn, got, want)
		}
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	code, stdout, _ := firsttime(t, "demo", "--help")
	for _, flag := range []string{"--db", "--messages", "--consumers", "--seed", "--input", "--json"} {
		if code != exitDone || !strings.Contains(stdout, flag) {
			t.Errorf("exit %d, %s is not in the help", code, flag)
		}
	}
	if len(newRoot().Commands()) == 0 || store.DefaultLease <= demoLease {
		t.Error("the demo's lease is to be short")
	}
}

func writeInput(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "payments.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
