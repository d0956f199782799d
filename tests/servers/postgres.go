package servers

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

func postgres() engine {
	return engine{
		driver:       "pgx",
		variable:     "FIRSTTIME_TEST_POSTGRES",
		install:      "apt-get install postgresql",
		versionQuery: "SHOW server_version",
		dsn:          urlWithDatabase,
		prepare:      preparePostgres,
	}
}

func urlWithDatabase(admin, database string) (string, error) {
	u, err := url.Parse(admin)
	if err != nil {
		return "", err
	}
	u.Path = "/" + database
	return u.String(), nil
}

func preparePostgres(ctx context.Context, dir string, port int) (command, error) {
	const installed = "/usr/lib/postgresql/*/bin"
	if _, err := find("initdb", installed); err != nil {
		if err := install(ctx, "postgresql"); err != nil {
			return command{}, err
		}
	}
	initdb, err := find("initdb", installed)
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
		return command{}, err
	}
	return command{
		path: filepath.Join(filepath.Dir(initdb), "postgres"),
		args: []string{
			"-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "max_connections=300",
		},
		as:    as,
		stop:  syscall.SIGINT, // fast: it does not wait for clients
		admin: fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port),
	}, nil
}

// unprivileged is the account called name if these tests run as root, and otherwise their own.
func unprivileged(name string) (*account, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &account{uint32(uid), uint32(gid)}, err
}

// makeDir makes a directory for the account that a server runs as.
func makeDir(path string, as *account) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	if as == nil {
		return nil
	}
	return os.Chown(path, int(as.uid), int(as.gid))
}
