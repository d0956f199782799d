package servers

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// standbyName is what a standby calls itself to its primary.
const standbyName = "standby"

// StartStandby starts a standby of a private PostgreSQL server. No COMMIT waits for it before RequireStandby is called.
func StartStandby(ctx context.Context, primary *Server) (*Server, error) {
	if !primary.Private() {
		return nil, errNotPrivate
	}
	e := primary.engine
	e.prepare = func(ctx context.Context, dir string, port int) (command, error) {
		return copyPrimary(ctx, primary, dir, port)
	}
	s, err := startPrivate(ctx, primary.kind, e, nil)
	if err != nil {
		return nil, err
	}
	return s, primary.await(ctx, "SELECT COUNT(*) > 0 FROM pg_stat_replication WHERE state = 'streaming'")
}

// copyPrimary lets a new server begin where its primary is.
func copyPrimary(ctx context.Context, primary *Server, dir string, port int) (command, error) {
	command := primary.private.command
	data := filepath.Join(dir, "data")
	if err := makeDir(data, command.as); err != nil {
		return command, err
	}
	command.args = slices.Clone(command.args)
	command.args[slices.Index(command.args, "-D")+1] = command.as.sees(data)
	command.args[slices.Index(command.args, "-p")+1] = strconv.Itoa(port)
	program := filepath.Join(filepath.Dir(command.path), "pg_basebackup")
	cmd := exec.CommandContext(ctx, program, "--pgdata="+command.as.sees(data), "--checkpoint=fast", "--write-recovery-conf",
		"--dbname="+primary.admin+"&application_name="+standbyName)
	if err := run(cmd, command.as); err != nil {
		return command, fmt.Errorf("pg_basebackup: %w", err)
	}
	return command, nil
}

// RequireStandby makes every COMMIT wait until the standby has it on its disk.
func (s *Server) RequireStandby(ctx context.Context) error {
	return errors.Join(s.exec("ALTER SYSTEM SET synchronous_standby_names = '"+standbyName+"'"), s.exec("SELECT pg_reload_conf()"),
		s.await(ctx, "SELECT COUNT(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync'"))
}

// StopReceiving cuts a standby off from its primary, and waits until all that it has received can be read.
func (s *Server) StopReceiving(ctx context.Context) error {
	return errors.Join(s.exec("ALTER SYSTEM SET primary_conninfo = ''"), s.exec("SELECT pg_reload_conf()"),
		s.await(ctx, "SELECT COUNT(*) = 0 FROM pg_stat_wal_receiver"),
		s.await(ctx, "SELECT pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn()"))
}

// Promote makes a standby the primary, and waits until it can be written to.
func (s *Server) Promote(ctx context.Context) error {
	return errors.Join(s.exec("SELECT pg_promote()"), s.await(ctx, "SELECT NOT pg_is_in_recovery()"))
}

// await asks until the answer is yes.
func (s *Server) await(ctx context.Context, question string) error {
	ctx, cancel := context.WithTimeout(ctx, formPatience)
	defer cancel()
	db, err := sql.Open(s.engine.driver, s.admin)
	if err != nil {
		return err
	}
	defer db.Close()
	for {
		var yes bool
		err := db.QueryRowContext(ctx, question).Scan(&yes)
		if yes {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not so within %v: %w", question, formPatience, cmp.Or(err, ctx.Err()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
