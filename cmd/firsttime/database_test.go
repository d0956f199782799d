package main

import (
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Whatever is in a password, and whether it was escaped or not, no part of it is printed.
func TestNoErrorShowsThePassword(t *testing.T) {
	const first, second = "vorderer", "hinterer" // neither is a word of an error
	odd := "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \té"
	for _, before := range []string{first, "4711"} { // digits could be taken for a port
		for _, c := range odd {
			raw := before + string(c) + second
			escaped := url.QueryEscape(raw)
			for _, dsn := range []string{
				"postgres://u:" + raw + "@127.0.0.1:1/d",
				"postgres://u:" + escaped + "@127.0.0.1:1/d?sslmode=" + "frob",
				"postgresql://u@127.0.0.1:1/d?password=" + escaped,
				"mysql://u:" + raw + "@127.0.0.1:1/d",
				"mysql://u:" + escaped + "@127.0.0.1:1/d?frob=%zz",
				"mysql://u:" + raw + "@tcp(127.0.0.1:1)/d",
				"u:" + raw + "@tcp(127.0.0.1:1)/d",
				"u:" + raw + "@tcp(127.0.0.1:1)",
				"mysql://u:x@" + before + "/" + second + string(c) + "x@127.0.0.1:1/d",
				"oracle://u:" + raw + "@127.0.0.1:1/d",
				"u:" + raw + "@127.0.0.1:1/d",
				"postgres:host=127.0.0.1 port=1 password=" + raw,
				raw,
			} {
				for _, command := range [][]string{{"stats"}, {"doctor", "--json"}, {"migrate", "up"}} {
					code, stdout, stderr := firsttime(t, append([]string{"--db", dsn, "--timeout", "2s"}, command...)...)
					if code != exitFailed && code != exitWrongUse {
						t.Fatalf("%s: exit %d", dsn, code)
					}
					text := stdout + stderr
					if strings.Count(text, "\n") != 1 || strings.Contains(text, before) || strings.Contains(text, second) {
						t.Errorf("%s: %s", dsn, text)
					}
				}
			}
		}
	}
}

// Escaped, every password gets through.
func TestAPasswordMayHaveAnyCharacter(t *testing.T) {
	const password = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ é"
	config, err := mysqlConfig("u:" + url.PathEscape(password) + "@h/d?tls=true")
	if err != nil || config.Passwd != password || config.Addr != "h:3306" || config.TLSConfig != "true" {
		t.Errorf("%+v, %v", config, err)
	}
	if config, err = mysqlConfig("u:" + password + "@tcp(h:3306)/d"); err != nil || config.Passwd != password {
		t.Errorf("%+v, %v", config, err)
	}
}

// Every command gives a server up that takes the connection and says nothing.
func TestTimeout(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for _, scheme := range []string{"postgres", "mysql"} {
		dsn := scheme + "://u:hunter2@" + silent.Addr().String() + "/d"
		for _, command := range []string{
			"migrate up", "migrate down", "migrate status", "stats", "stale", "show K", "release K", "confirm K",
			"purge", "purge --every 1h", "doctor", "exec --key K -- true", "demo",
		} {
			t.Run(scheme+" "+command, func(t *testing.T) {
				t.Parallel()
				started := time.Now()
				code, stdout, stderr := firsttime(t, append([]string{"--db", dsn, "--timeout", "300ms"}, strings.Fields(command)...)...)
				if code != exitFailed || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "does not answer within 300ms") {
					t.Errorf("exit %d: %s%s", code, stdout, stderr)
				}
				if took := time.Since(started); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		}
	}
}

// A key of the command line cannot have a NUL in it, but one of a program that calls the command by other means could.
func TestKeysThatCanNeverBeStoredAreWrongUse(t *testing.T) {
	db := "sqlite:" + t.TempDir() + "/keys.db"
	if code, _, stderr := firsttime(t, "--db", db, "migrate", "up"); code != exitDone {
		t.Fatal(stderr)
	}
	for _, key := range []string{"", "a\x00b", "\xff", strings.Repeat("k", 256)} {
		for _, command := range [][]string{{"show", key}, {"release", key}, {"confirm", "--create", key}, {"exec", "--key", key, "--", "true"}} {
			code, _, stderr := firsttime(t, append([]string{"--db", db}, command...)...)
			if code != exitWrongUse || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "\x00") {
				t.Errorf("%q: exit %d: %s", command, code, stderr)
			}
		}
	}
}

func TestDurationsForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Microsecond: "2ms", 61 * time.Second: "1m1s", 5 * time.Minute: "5m", 24*time.Hour - time.Second: "24h",
		23*time.Hour + 59*time.Minute: "23h59m", 10 * time.Hour: "10h", 72 * time.Hour: "3.0 days", -time.Second: "-1s", 20 * time.Minute: "20m",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v: %s, want %s", int64(d), got, want)
		}
	}
}
