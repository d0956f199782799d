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

func mariadb() engine {
	return engine{
		driver:       "mysql",
		variable:     "FIRSTTIME_TEST_MARIADB",
		install:      "apt-get install mariadb-server",
		versionQuery: "SELECT @@version",
		dsn:          configWithDatabase,
		prepare:      prepareMariaDB,
	}
}

func mysql() engine {
	return engine{
		driver:       "mysql",
		variable:     "FIRSTTIME_TEST_MYSQL",
		install:      "mysql-server-core of Debian's sid, or MySQL's own packages, so that mysqld is in PATH",
		versionQuery: "SELECT @@version",
		dsn:          configWithDatabase,
		prepare:      prepareMySQL,
	}
}

func configWithDatabase(admin, database string) (string, error) {
	c, err := driver.ParseDSN(admin)
	if err != nil {
		return "", err
	}
	c.DBName = database
	return c.FormatDSN(), nil
}

func prepareMariaDB(ctx context.Context, dir string, port int) (command, error) {
	if _, err := find("mariadbd", "/usr/sbin"); err != nil {
		if err := install(ctx, "mariadb-server"); err != nil {
			return command{}, err
		}
	}
	server, err := find("mariadbd", "/usr/sbin")
	if err != nil {
		return command{}, err
	}
	initialize, err := find("mariadb-install-db", "/usr/bin")
	if err != nil {
		return command{}, err
	}
	as, err := unprivileged("mysql")
	if err != nil {
		return command{}, err
	}
	data, err := mysqlDirs(dir, as)
	if err != nil {
		return command{}, err
	}
	err = run(exec.CommandContext(ctx, initialize, "--no-defaults", "--datadir="+data, "--tmpdir="+temporary(data),
		"--auth-root-authentication-method=normal", "--skip-test-db"), as)
	if err != nil {
		return command{}, err
	}
	return mysqld{path: server}.command(data, port, as), nil
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
		return command{}, err
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
	return command{
		path: m.path,
		args: m.args("--datadir="+data, fmt.Sprintf("--port=%d", port), "--bind-address=127.0.0.1",
			"--tmpdir="+temporary(data), "--socket="+filepath.Join(data, "socket"), "--pid-file="+filepath.Join(data, "pid"), "--max-connections=300"),
		as:    as,
		stop:  syscall.SIGTERM,
		admin: fmt.Sprintf("root@tcp(127.0.0.1:%d)/", port),
	}
}

// findMySQL takes a mysqld from PATH, if it is MySQL's, and otherwise that of a Debian root of its own,
// which runs in place with the root's own libraries.
func findMySQL(ctx context.Context) (mysqld, error) {
	options := []string{"--secure-file-priv=NULL", "--mysqlx=OFF"}
	if os.Getuid() == 0 {
		options = append(options, "--user=root")
	}
	if path, err := find("mysqld", "/usr/sbin"); err == nil {
		out, err := exec.CommandContext(ctx, path, "--no-defaults", "--version").Output()
		if err == nil && !strings.Contains(string(out), "MariaDB") {
			return mysqld{path: path, options: options}, nil
		}
	}
	root, err := debianRoot(ctx, "sid", "mysql-server-core")
	if err != nil {
		return mysqld{}, err
	}
	libraries := root + "/usr/lib/x86_64-linux-gnu"
	return mysqld{
		path:    libraries + "/ld-linux-x86-64.so.2",
		loader:  []string{"--library-path", libraries, root + "/usr/sbin/mysqld"},
		options: append(options, "--basedir="+root+"/usr", "--plugin-dir="+root+"/usr/lib/mysql/plugin"),
	}, nil
}
