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
	return startPrivate(ctx, pgbouncerKind, pgbouncer(behind), nil)
}

func pgbouncer(behind *Server) engine {
	return engine{
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
			return preparePgbouncer(ctx, behind, dir, port)
		},
		driver:   "pgx",
		database: urlWithDatabase,
	}
}

func preparePgbouncer(ctx context.Context, behind *Server, dir string, port int) (command, error) {
	path, err := program(ctx, func() (string, error) { return find("pgbouncer", "/usr/sbin/pgbouncer") }, "pgbouncer")
	if err != nil {
		return command{}, err
	}
	as, err := unprivileged("postgres") // pgbouncer refuses root
	if err != nil {
		return command{}, err
	}
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
ignore_startup_parameters = extra_float_digits
`, login, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return command{}, err
	}
	if as != nil {
		if err := os.Chown(config, int(as.uid), int(as.gid)); err != nil {
			return command{}, err
		}
	}
	return command{path: path, args: []string{config}, as: as, stop: syscall.SIGINT}, nil
}
