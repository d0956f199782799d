package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const postgresVariable = "FIRSTTIME_TEST_POSTGRES"

func postgres() engine {
	return engine{
		variable: postgresVariable,
		install:  "apt-get install postgresql",
		home:     postgresHome,
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
	root, initdb, err := findPostgres(ctx)
	if err != nil {
		return command{}, err
	}
	as := nobodyIn(root)
	if root == "" {
		if as, err = unprivileged("postgres"); err != nil {
			return command{}, err
		}
	}
	data := filepath.Join(dir, "data")
	if err := makeDir(data, as); err != nil {
		return command{}, err
	}
	initialize := exec.CommandContext(ctx, initdb, "-D", as.sees(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-instructions")
	if root != "" {
		initialize.Args = append(initialize.Args, "--locale=C.UTF-8") // this system's locales are not there
	}
	if err := run(initialize, as); err != nil {
		return command{}, fmt.Errorf("initdb: %w", err)
	}
	return command{
		path: filepath.Join(filepath.Dir(initdb), "postgres"),
		args: []string{
			"-D", as.sees(data), "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "max_connections=300",
		},
		as:   as,
		stop: syscall.SIGINT, // fast: it does not wait for clients
	}, nil
}

const debianInitdb = "/usr/lib/postgresql/%s/bin/initdb"

// findPostgres finds initdb, beside which is the server. A version that is wanted and not installed comes
// from Debian's sid: it runs in a root of its own.
func findPostgres(ctx context.Context) (root, initdb string, err error) {
	version := versionWanted(postgresVariable)
	if version == "" {
		initdb, err = program(ctx, findInitdb, "postgresql")
		return "", initdb, err
	}
	initdb = fmt.Sprintf(debianInitdb, version)
	if _, err := os.Stat(initdb); err == nil {
		return "", initdb, nil
	}
	root, err = debianRoot(ctx, "postgresql-"+version)
	return root, initdb, err
}

func postgresHome(ctx context.Context) (string, error) {
	root, _, err := findPostgres(ctx)
	return temporaryIn(root), err
}

// findInitdb takes initdb from PATH or else the newest of Debian's, which are not in PATH. Beside it is the
// server of the same version.
func findInitdb() (string, error) {
	if path, err := find("initdb"); err == nil {
		return filepath.EvalSymlinks(path)
	}
	paths, err := filepath.Glob(fmt.Sprintf(debianInitdb, "*"))
	if err != nil {
		return "", err
	}
	newest := 0
	for _, path := range paths {
		var major int
		if _, err := fmt.Sscanf(path, "/usr/lib/postgresql/%d/", &major); err == nil {
			newest = max(newest, major)
		}
	}
	return find(fmt.Sprintf(debianInitdb, strconv.Itoa(newest)))
}
