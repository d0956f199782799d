package servers

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
)

// groupReplicationPort is that of the messages within the group.
const groupReplicationPort = 33061

// StartGroupReplication starts a group of three MySQL servers, all of them primaries. A node that is new, was killed
// or was expelled gets what it lacks from another one's binary log. Cleanup ends it.
func StartGroupReplication(ctx context.Context) (*Cluster, error) {
	g := &group{}
	c := &Cluster{
		members: `SELECT IF(MAX(member_id = @@server_uuid), COUNT(*), 0)
			FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'`,
		join: g.join,
	}
	return startCluster(ctx, "GroupReplication", c, func(ctx context.Context, dir string, i int) (*Server, error) {
		return groupNode(ctx, c.network, dir, i)
	})
}

func groupNode(ctx context.Context, w *network, dir string, i int) (*Server, error) {
	command, err := prepareMySQL(ctx, dir, 3306)
	if err != nil {
		return nil, fmt.Errorf("install %s: %w", mysql().install, err)
	}
	var all []string
	for n := range clusterSize {
		all = append(all, fmt.Sprintf("%s:%d", w.address(n), groupReplicationPort))
	}
	command.args = append(command.args,
		"--bind-address=*", "--report-host="+w.address(i), fmt.Sprintf("--server-id=%d", i+1),
		"--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--plugin-load-add=group_replication.so",
		"--loose-group-replication-group-name=6f1e0c52-5b6f-4a55-9d41-6d0f3b1d7c11",
		"--loose-group-replication-local-address="+all[i], "--loose-group-replication-group-seeds="+strings.Join(all, ","),
		// A node that was killed must not let clients write to it alone before it has joined, which ends this.
		"--loose-group-replication-start-on-boot=OFF", "--super-read-only=ON",
		"--loose-group-replication-single-primary-mode=OFF", "--loose-group-replication-enforce-update-everywhere-checks=ON",
		"--loose-group-replication-recovery-get-public-key=ON",
		// A minority gives up after 2 s instead of never, and stays out, read-only, until it is told to come back.
		"--loose-group-replication-unreachable-majority-timeout=2", "--loose-group-replication-autorejoin-tries=0",
		"--loose-group-replication-exit-state-action=READ_ONLY",
		// A silent node is expelled when it is suspected, after some 5 s, and not another 5 s later.
		"--loose-group-replication-member-expel-timeout=0",
	)
	s := nodeOf(MySQL, filepath.Join(dir, "data", "socket"), command)
	s.private.once = []string{"--super-read-only=OFF"}
	return s, nil
}

// group is whether there is a group to join, or whether the first node has to form it.
type group struct{ formed bool }

// join first makes, on a node that is new, an account for those that recover from it. It is not replicated: a node
// that has transactions of its own is not let in.
func (g *group) join(ctx context.Context, node *Server) error {
	db, err := sql.Open(node.engine.driver, node.admin)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var known bool
	if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM mysql.user WHERE user = 'recovery'").Scan(&known); err != nil {
		return err
	}
	var statements []string
	if !known {
		statements = []string{
			"SET SESSION sql_log_bin = OFF",
			"CREATE USER recovery IDENTIFIED BY 'recovery'",
			"GRANT REPLICATION SLAVE, CONNECTION_ADMIN, BACKUP_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO recovery",
		}
	}
	statements = append(statements,
		"STOP GROUP_REPLICATION", // in which a node that was expelled still is, by its own account
		fmt.Sprintf("SET GLOBAL group_replication_bootstrap_group = %t", !g.formed),
		"START GROUP_REPLICATION USER = 'recovery', PASSWORD = 'recovery'",
		"SET GLOBAL group_replication_bootstrap_group = OFF",
	)
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	g.formed = true
	return nil
}
