package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
)

type execOptions struct {
	key           string
	scope         string
	periods       periods
	duplicateExit int
}

func newExec(c *cli) *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use:   "exec --key KEY [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command only if it is the first time",
		Long: `Runs a command only if it is the first time for the key. The key is claimed before, its lease is extended while the
command runs, and it is confirmed when the command exits with 0; otherwise it is given back, and the next
call runs again. The exit code is the command's. A duplicate does not run; it says so on stderr and exits
with 0, or with --duplicate-exit. If the key is in progress elsewhere, it exits with 3.

Signals are passed on to the command. If firsttime itself is killed, the claim stays until its lease is over, and
the next call takes it over after that. On SQLite the table is created by itself.`,
		Example: `  firsttime exec --db sqlite:jobs.db --key invoice-2026-11 -- ./send-invoices 2026-11`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return wrongUse{fmt.Errorf("give a command: %s", cmd.UseLine())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.exec(cmd, o, args) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the flags of the command are its own
	f.StringVar(&o.key, "key", "", "what must happen once")
	f.StringVar(&o.scope, "scope", store.DefaultScope, "scope of the key")
	o.periods.flags(cmd, "how long the claim of a firsttime that died is honoured", "how long the key is remembered")
	f.IntVar(&o.duplicateExit, "duplicate-exit", 0, "exit code for a duplicate")
	return cmd
}

func (c *cli) exec(cmd *cobra.Command, o execOptions, args []string) error {
	if err := store.ValidateKey(o.key); err != nil {
		return wrongUse{fmt.Errorf("--key %q: %w", o.key, err)}
	}
	if o.duplicateExit < 0 || o.duplicateExit > 255 {
		return wrongUse{fmt.Errorf("--duplicate-exit %d: give 0 to 255", o.duplicateExit)}
	}
	options, err := o.periods.options()
	if err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return wrongUse{fmt.Errorf("the command cannot be run: %w", err)}
	}
	if err := c.migrateSQLite(cmd.Context()); err != nil {
		return err
	}
	return c.withStore(cmd.Context(), func(s *store.SQL) error {
		scoped, err := s.Scope(o.scope)
		if err != nil {
			return err
		}
		run := execution{
			path: path, args: args, stdin: cmd.InOrStdin(), stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(),
			interrupted: cmd.Context().Err,
		}
		// From its start on an interrupt is the command's to obey: the claim is settled by how it ends.
		return run.once(context.WithoutCancel(cmd.Context()), scoped, o)
	}, options...)
}

func (c *cli) migrateSQLite(ctx context.Context) error {
	db, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if db.dialect.Name() != "sqlite" {
		return nil
	}
	return migrations.Up(ctx, db.DB, db.dialect)
}

// execution is one command to run.
type execution struct {
	path           string
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	interrupted    func() error // not nil if a signal came before there was a command to pass it on to
	code           int          // of the command, when it has ended
}

// once runs the command if the key is new.
func (e *execution) once(ctx context.Context, keys *store.Scoped, o execOptions) error {
	var outcome consumer.Outcome
	var unconfirmed atomic.Bool
	observer := consumer.ObserverFunc(func(_ context.Context, event consumer.Event) {
		switch event.Kind {
		case consumer.Settled:
			outcome = event.Outcome
		case consumer.ConfirmFailed, consumer.ClaimLost:
			unconfirmed.Store(true)
		}
	})
	handle := consumer.Idempotent(keys, func(string) string { return o.key }, e.run,
		consumer.WithObserver(observer), consumer.WithLogger(slog.New(slog.NewTextHandler(e.stderr, nil))))
	ack := handle(ctx, o.key)
	switch {
	case outcome == consumer.Duplicate:
		fmt.Fprintf(e.stderr, "firsttime: key %s is confirmed: the command does not run again\n", printable(o.key))
		return exitCode(o.duplicateExit)
	case outcome == consumer.InProgress:
		var busy *consumer.InProgressError
		errors.As(ack.Err(), &busy)
		return no{fmt.Errorf("key %s is in progress: %s holds it, for another %s", printable(o.key), printable(busy.Holder), roughly(busy.LeaseFor))}
	case e.code != 0:
		return exitCode(e.code)
	case !ack.Accepted():
		return ack.Err()
	case unconfirmed.Load():
		return fmt.Errorf("the command is done, but key %s could not be confirmed: another call would run it again", printable(o.key))
	}
	return nil
}

// run runs the command. It ends it, by SIGTERM, when the claim is lost.
func (e *execution) run(ctx context.Context, _ string) consumer.Ack {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	if err := e.interrupted(); err != nil {
		return consumer.Retry(err)
	}

	cmd := exec.Command(e.path, e.args[1:]...)
	cmd.Args[0] = e.args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.stdin, e.stdout, e.stderr
	if err := startBound(cmd); err != nil {
		e.code = 126
		fmt.Fprintf(e.stderr, "firsttime: the command cannot be run: %v\n", err)
		return consumer.Retry(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	lost := ctx.Done()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case <-lost:
			lost = nil
			_ = terminate(cmd.Process)
		case err := <-ended:
			if err == nil {
				return consumer.Accept()
			}
			e.code = codeOf(cmd, err)
			return consumer.Retry(fmt.Errorf("%s: %w", strings.Join(e.args, " "), err))
		}
	}
}

// codeOf is what a shell would say: 128 and the signal for a command that a signal ended.
func codeOf(cmd *exec.Cmd, err error) int {
	var exited *exec.ExitError
	if !errors.As(err, &exited) {
		return exitFailed
	}
	if s := signalOf(cmd.ProcessState); s > 0 {
		return 128 + s
	}
	return exited.ExitCode()
}
