package servers

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

const galeraLibrary = "/usr/lib/galera/libgalera_smm.so"

// StartGalera starts a Galera cluster of three MariaDB servers. A node that is new or was killed gets its data from
// another one by rsync. Cleanup ends it.
func StartGalera(ctx context.Context) (*Cluster, error) {
	c := &Cluster{
		members: `SELECT IF(s.variable_value = 'Synced', n.variable_value, 0)
			FROM information_schema.global_status s, information_schema.global_status n
			WHERE s.variable_name = 'wsrep_local_state_comment' AND n.variable_name = 'wsrep_cluster_size'`,
		join: func(context.Context, *Server) error { return nil }, // it does so at its start
	}
	return startCluster(ctx, "Galera", c, func(ctx context.Context, dir string, i int) (*Server, error) {
		return galeraNode(ctx, c.network, dir, i)
	})
}

func galeraNode(ctx context.Context, w *network, dir string, i int) (*Server, error) {
	for program, pkg := range map[string]string{galeraLibrary: "galera-4", "rsync": "rsync"} {
		if _, err := installed(ctx, program, pkg); err != nil {
			return nil, fmt.Errorf("install %s: %w", pkg, err)
		}
	}
	command, err := prepareMariaDB(ctx, dir, 3306)
	if err != nil {
		return nil, fmt.Errorf("install mariadb-server: %w", err)
	}
	var all []string
	for n := range clusterSize {
		all = append(all, w.address(n))
	}
	command.args = append(command.args,
		"--wsrep-on=ON", "--wsrep-provider="+galeraLibrary, "--wsrep-cluster-name=firsttime", "--wsrep-sst-method=rsync",
		"--wsrep-cluster-address=gcomm://"+strings.Join(all, ","), "--wsrep-node-address="+w.address(i),
		fmt.Sprintf("--wsrep-node-name=node%d", i+1), "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
		// A silent node is given up after 2 s instead of 5, so that a test need not wait for it.
		"--wsrep-provider-options=evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT5S;gcache.size=32M",
	)
	s := nodeOf(MariaDB, filepath.Join(dir, "data", "socket"), command)
	if i == 0 {
		s.private.once = []string{"--wsrep-new-cluster"}
	}
	return s, nil
}

// installed finds a program or file of a Debian package, which it installs if need be.
func installed(ctx context.Context, name, pkg string) (string, error) {
	return program(ctx, func() (string, error) { return find(filepath.Base(name), name) }, pkg)
}
