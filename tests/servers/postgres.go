package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func postgres() engine {
	return engine{
		variable: "FIRSTTIME_TEST_POSTGRES",
		install:  "apt-get install postgresql",
		port:     "5432",
		admin: func(address string) string {
			return "postgres://postgres@" + address + "/postgres?sslmode=disable"
		},
		probe: func(ctx context.Context, admin string) (string, string, error) {
			answer, err := ask(ctx, "pgx", admin, "SHOW server_version")
			version, _, _ := strings.Cut(answer, " ") // the rest is the distribution's
			return string(Postgres), version, err
		},
		prepare:  preparePostgres,
		driver:   "pgx",
		database: urlWithDatabase,
	}
}

func urlWithDatabase(admin, name string) (string, error) {
	u, err := url.Parse(admin)
	if err != nil || u.Host == "" {
		return "", errors.New("the DSN of a PostgreSQL server must be a URL: postgres://user@host:port/database")
	}
	u.Path = "/" + name
	return u.String(), nil
}

func preparePostgres(ctx context.Context, dir string, port int) (command, error) {
	initdb, err := program(ctx, findInitdb, "postgresql")
	if err != nil {
		return command{}, err
	}
	as, err := unprivileged("postgres")
	if err != nil {
		return command{}, err
	}
	data := filepath.Join(dir, "data")
	if err := makeDir(data, as); err != nil {
		return command{}, err
	}
	err = run(exec.CommandContext(ctx, initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-instructions"), as)
	if err != nil {
		return command{}, fmt.Errorf("initdb: %w", err)
	}
	return command{
		path: filepath.Join(filepath.Dir(initdb), "postgres"),
		args: []string{
			"-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "max_connections=300",
		},
		as:   as,
		stop: syscall.SIGINT, // fast: it does not wait for clients
	}, nil
}

// findInitdb takes initdb from PATH or else the newest of Debian's, which are not in PATH. Beside it is the
// server of the same version.
func findInitdb() (string, error) {
	if path, err := find("initdb"); err == nil {
		return filepath.EvalSymlinks(path)
	}
	const installed = "/usr/lib/postgresql/%d/bin/initdb"
	paths, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	newest := 0
	for _, path := range paths {
		var major int
		if _, err := fmt.Sscanf(path, installed, &major); err == nil {
			newest = max(newest, major)
		}
	}
	return find(fmt.Sprintf(installed, newest))
}
