package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// refusal is what a command says to a user who lacks a right.
type refusal struct {
	line string // the command
	code int
	want string // in its output
}

const lacksRights = "this user lacks a right"

// Who may not do what a command needs is told so in one line, with what to do, and without the password.
func TestWhoLacksARightIsTold(t *testing.T) {
	nothing := []refusal{
		{"stats", 1, lacksRights}, {"stale", 1, lacksRights}, {"show old", 1, lacksRights}, {"confirm --create new", 1, lacksRights},
		{"purge", 1, lacksRights}, {"exec --key new -- echo charged", 1, lacksRights}, {"release old", 1, lacksRights},
		{"migrate status", 1, lacksRights}, {"migrate up", 1, lacksRights}, {"serve", 1, lacksRights},
	}
	fault := refusal{"doctor", 3, "grant SELECT, INSERT, UPDATE and DELETE on firsttime_keys"}
	history := refusal{"doctor", 3, "grant SELECT on firsttime_goose_version to see it"}
	for rights, refusals := range map[string][]refusal{
		"":                       nothing,
		"INSERT, UPDATE, DELETE": append(nothing, fault),
		"SELECT": {
			fault, history, {"stats", 0, "default"}, {"stale", 0, "no claim is stale"}, {"show old", 0, "confirmed"}, {"confirm --create new", 1, lacksRights},
			{"purge", 1, lacksRights}, {"exec --key new -- echo charged", 1, lacksRights}, {"migrate status", 1, lacksRights},
		},
		"SELECT, INSERT, UPDATE": {
			fault, {"stats", 0, "default"}, {"purge", 1, lacksRights}, {"exec --key new -- true", 0, ""},
			{"exec --key fails -- false", 1, "could not be given back"},
		},
	} {
		for _, d := range databases()[1:] {
			t.Run(d.name+" "+rights, func(t *testing.T) {
				t.Parallel()
				dsn := d.dsn(t)
				mustRun(t, dsn, "migrate", "up")
				mustRun(t, dsn, "confirm", "--create", "old")
				user := userWith(t, dsn, rights)
				for _, r := range refusals {
					r.check(t, command(t, user, strings.Fields(r.line)...))
				}
			})
		}
	}
}

func (r refusal) check(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err, failed := cmd.Run(), new(exec.ExitError); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	text := stdout.String() + stderr.String()
	if code := cmd.ProcessState.ExitCode(); code != r.code || !strings.Contains(text, r.want) {
		t.Errorf("%s: exit %d, want %d and %q: %s", r.line, code, r.code, r.want, text)
	}
	if lines := strings.Count(stderr.String(), "\n"); lines != min(r.code, 1) || strings.Contains(text, "hunter2") || strings.Contains(text, "goroutine") {
		t.Errorf("%s: stderr is not one line without the password: %s", r.line, text)
	}
	if strings.Contains(stdout.String(), "charged") {
		t.Errorf("%s: the command ran: %s", r.line, text)
	}
}

// userWith makes a user with some rights on the table and none on anything else, and returns the DSN for it.
func userWith(t *testing.T, dsn, rights string) string {
	t.Helper()
	const password = "hunter2"
	name := "firsttime_" + strings.ToLower(rand.Text()[:16])
	db := open(t, dsn)
	create, drop := "CREATE USER "+name+" IDENTIFIED BY '"+password+"'", []string{"DROP USER " + name}
	postgres := strings.HasPrefix(dsn, "postgres:")
	if postgres {
		create, drop = "CREATE ROLE "+name+" LOGIN PASSWORD '"+password+"'", []string{"DROP OWNED BY " + name, "DROP ROLE " + name}
	}
	mustExec(t, db, create)
	t.Cleanup(func() {
		for _, statement := range drop {
			if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
				t.Error(err)
			}
		}
	})
	if rights != "" {
		mustExec(t, db, "GRANT "+rights+" ON firsttime_keys TO "+name)
	}
	if !postgres {
		c, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		c.User, c.Passwd = name, password
		return c.FormatDSN()
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, password)
	return u.String()
}
