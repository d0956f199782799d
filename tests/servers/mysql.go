package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	driver "github.com/go-sql-driver/mysql"
)

const mariaDBVariable = "FIRSTTIME_TEST_MARIADB"

func mariadb() engine {
	return engine{
		variable: mariaDBVariable,
		install:  "apt-get install mariadb-server",
		home:     mariaDBHome,
		port:     "3306",
		admin:    rootWithoutPassword,
		probe:    probeMySQL,
		prepare:  prepareMariaDB,
		driver:   "mysql",
		database: configWithDatabase,
	}
}

func mysql() engine {
	return engine{
		variable: "FIRSTTIME_TEST_MYSQL",
		install:  "mysql-server-core of Debian's sid, or MySQL's own packages, so that mysqld is in PATH",
		port:     "3306",
		admin:    rootWithoutPassword,
		probe:    probeMySQL,
		prepare:  prepareMySQL,
		driver:   "mysql",
		database: configWithDatabase,
	}
}

func rootWithoutPassword(address string) string { return "root@tcp(" + address + ")/" }

func configWithDatabase(admin, name string) (string, error) {
	c, err := driver.ParseDSN(admin)
	if err != nil {
		return "", err
	}
	c.DBName = name
	return c.FormatDSN(), nil
}

// probeMySQL tells MySQL from MariaDB, which says so in its version: 10.11.14-MariaDB-0+deb12u2.
func probeMySQL(ctx context.Context, admin string) (product, version string, err error) {
	answer, err := ask(ctx, "mysql", admin, "SELECT @@version")
	if err != nil {
		return "", "", err
	}
	product = string(MySQL)
	if strings.Contains(answer, "MariaDB") {
		product = string(MariaDB)
	}
	version, _, _ = strings.Cut(answer, "-")
	return product, version, nil
}

func prepareMariaDB(ctx context.Context, dir string, port int) (command, error) {
	root, server, err := findMariaDB(ctx)
	if err != nil {
		return command{}, err
	}
	initialize, as := "/usr/bin/mariadb-install-db", nobodyIn(root)
	if root == "" {
		if initialize, err = find("mariadb-install-db", initialize); err != nil {
			return command{}, err
		}
		if as, err = unprivileged("mysql"); err != nil {
			return command{}, err
		}
	}
	data, err := mysqlDirs(dir, as)
	if err != nil {
		return command{}, err
	}
	cmd := exec.CommandContext(ctx, initialize, "--no-defaults", "--datadir="+as.sees(data), "--tmpdir="+as.sees(temporary(data)),
		"--auth-root-authentication-method=normal", "--skip-test-db")
	if root != "" {
		cmd.Args = append(cmd.Args, "--force") // even where this machine's name cannot be resolved
	}
	if err := run(cmd, as); err != nil {
		return command{}, fmt.Errorf("mariadb-install-db: %w", err)
	}
	return mysqld{path: server}.command(data, port, as), nil
}

// findMariaDB finds the server. A version that is wanted and not installed comes from Debian's sid: it runs in
// a root of its own.
func findMariaDB(ctx context.Context) (root, server string, err error) {
	const debian = "/usr/sbin/mariadbd"
	installed := func() (string, error) { return find("mariadbd", debian) }
	wanted := versionWanted(mariaDBVariable)
	if wanted == "" {
		server, err = program(ctx, installed, "mariadb-server")
		return "", server, err
	}
	if server, err = installed(); err == nil {
		out, err := exec.CommandContext(ctx, server, "--no-defaults", "--version").Output()
		if err == nil && strings.Contains(string(out), " Ver "+wanted) {
			return "", server, nil
		}
	}
	root, err = debianRoot(ctx, "mariadb-server-core", "mariadb-client-core") // the latter for the initializer
	return root, debian, err
}

func mariaDBHome(ctx context.Context) (string, error) {
	root, _, err := findMariaDB(ctx)
	return temporaryIn(root), err
}

func prepareMySQL(ctx context.Context, dir string, port int) (command, error) {
	m, err := findMySQL(ctx)
	if err != nil {
		return command{}, err
	}
	data, err := mysqlDirs(dir, nil)
	if err != nil {
		return command{}, err
	}
	if err := run(exec.CommandContext(ctx, m.path, m.args("--initialize-insecure", "--datadir="+data, "--tmpdir="+temporary(data))...), nil); err != nil {
		return command{}, fmt.Errorf("mysqld --initialize-insecure: %w", err)
	}
	return m.command(data, port, nil), nil
}

// mysqlDirs makes the directories of a server. Each has its own for temporary files: at its start it
// deletes what it takes for its own in there.
func mysqlDirs(dir string, as *account) (data string, err error) {
	data = filepath.Join(dir, "data")
	if err := makeDir(data, as); err != nil {
		return "", err
	}
	return data, makeDir(temporary(data), as)
}

func temporary(data string) string { return filepath.Join(filepath.Dir(data), "tmp") }

// mysqld is a server program and what it needs to run from where it is.
type mysqld struct {
	path    string
	loader  []string // arguments before its own, if path is a dynamic loader
	options []string
}

// args puts --no-defaults where the server demands it: before all other options.
func (m mysqld) args(options ...string) []string {
	args := append(append([]string{}, m.loader...), "--no-defaults")
	return append(append(args, m.options...), options...)
}

func (m mysqld) command(data string, port int, as *account) command {
	seen := as.sees(data)
	return command{
		path: m.path,
		args: m.args("--datadir="+seen, fmt.Sprintf("--port=%d", port), "--bind-address=127.0.0.1",
			"--tmpdir="+temporary(seen), "--socket="+filepath.Join(seen, "socket"), "--pid-file="+filepath.Join(seen, "pid"), "--max-connections=300"),
		as:   as,
		stop: syscall.SIGTERM,
	}
}

// findMySQL takes a mysqld from PATH, if it is MySQL's, and otherwise that of a Debian root of its own,
// which runs in place with the root's own libraries.
func findMySQL(ctx context.Context) (mysqld, error) {
	options := []string{"--secure-file-priv=NULL", "--mysqlx=OFF"}
	if os.Getuid() == 0 {
		options = append(options, "--user=root")
	}
	if path, err := find("mysqld", "/usr/sbin/mysqld"); err == nil {
		out, err := exec.CommandContext(ctx, path, "--no-defaults", "--version").Output()
		if err == nil && !strings.Contains(string(out), "MariaDB") {
			return mysqld{path: path, options: options}, nil
		}
	}
	root, err := debianRoot(ctx, "mysql-server-core")
	if err != nil {
		return mysqld{}, err
	}
	loaders, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu/ld-linux-*.so.*"))
	if err != nil || len(loaders) == 0 {
		return mysqld{}, fmt.Errorf("no dynamic loader in %s: remove it to have it made again", root)
	}
	return mysqld{
		path:    loaders[0],
		loader:  []string{"--library-path", filepath.Dir(loaders[0]), root + "/usr/sbin/mysqld"},
		options: append(options, "--basedir="+root+"/usr", "--plugin-dir="+root+"/usr/lib/mysql/plugin"),
	}, nil
}
