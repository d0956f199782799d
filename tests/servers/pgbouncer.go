package servers

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const pgbouncerKind Kind = "PgBouncer"

// StartPgbouncer starts a private pgbouncer in transaction mode in front of a PostgreSQL server. It is a
// server like the others: its databases are those of the server behind it, reached through the pooler, and
// killing it leaves that server alone. Its DSNs say nothing about prepared statements, which it does not keep.
func StartPgbouncer(ctx context.Context, behind *Server) (*Server, error) {
	return startPrivate(ctx, pgbouncerKind, pgbouncer(behind, findPgbouncer, "ignore_startup_parameters = extra_float_digits"), nil)
}

// StartPgbouncerWithStatements starts one that keeps track of prepared statements, as it can since its version 1.21:
// it prepares them with whatever process of the server a transaction gets.
func StartPgbouncerWithStatements(ctx context.Context, behind *Server) (*Server, error) {
	return startPrivate(ctx, pgbouncerKind, pgbouncer(behind, findNewPgbouncer, "max_prepared_statements = 100"), nil)
}

// findPgbouncer finds the program and the root that it is in, "" for this system.
func findPgbouncer(ctx context.Context) (root, path string, err error) {
	path, err = program(ctx, func() (string, error) { return find("pgbouncer", debianPgbouncer) }, "pgbouncer")
	return "", path, err
}

func findNewPgbouncer(ctx context.Context) (root, path string, err error) {
	root, err = debianRoot(ctx, "pgbouncer")
	return root, debianPgbouncer, err
}

const debianPgbouncer = "/usr/sbin/pgbouncer"

func pgbouncer(behind *Server, find func(context.Context) (root, path string, err error), setting string) engine {
	return engine{
		home: func(ctx context.Context) (string, error) {
			root, _, err := find(ctx)
			return temporaryIn(root), err
		},
		install: "apt-get install pgbouncer",
		admin:   func(address string) string { return "postgres://anyone@" + address + "/postgres?sslmode=disable" },
		probe: func(ctx context.Context, admin string) (string, string, error) {
			console, err := urlWithDatabase(admin, "pgbouncer")
			if err != nil {
				return "", "", err
			}
			answer, err := ask(ctx, "pgx", console+"&default_query_exec_mode=simple_protocol", "SHOW VERSION")
			product, version, _ := strings.Cut(answer, " ")
			return product, version, err
		},
		prepare: func(ctx context.Context, dir string, port int) (command, error) {
			root, path, err := find(ctx)
			if err != nil {
				return command{}, err
			}
			as := nobodyIn(root)
			if root == "" {
				if as, err = unprivileged("postgres"); err != nil { // it refuses root
					return command{}, err
				}
			}
			return configurePgbouncer(behind, path, as, dir, port, setting)
		},
		driver:   "pgx",
		database: urlWithDatabase,
	}
}

func configurePgbouncer(behind *Server, path string, as *account, dir string, port int, setting string) (command, error) {
	server, err := url.Parse(behind.URL())
	if err != nil {
		return command{}, err
	}
	// Whoever connects is the administrator of the server behind it.
	login := fmt.Sprintf("host=%s port=%s user=%s", server.Hostname(), cmp.Or(server.Port(), "5432"), server.User.Username())
	if password, given := server.User.Password(); given {
		login += " password='" + strings.ReplaceAll(password, "'", "''") + "'"
	}
	config := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
* = %s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 500
%s
`, login, port, setting)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return command{}, err
	}
	if as != nil {
		if err := os.Chown(config, int(as.uid), int(as.gid)); err != nil {
			return command{}, err
		}
	}
	return command{path: path, args: []string{as.sees(config)}, as: as, stop: syscall.SIGINT}, nil
}
