package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/firsttime-go/firsttime/store"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitWrongUse    = 2
	exitNo          = 3
	exitInterrupted = 130
)

const exitCodes = `Exit codes: 0 done, 1 failed, 2 wrong use, 3 the answer is no (a key or a scope is not there, a claim
is live, doctor found a fault, a migration is missing), 130 interrupted by SIGINT or SIGTERM.`

// wrongUse is an error of the command line or of an input file, not of the work.
type wrongUse struct{ error }

func (e wrongUse) Unwrap() error { return e.error }

// no is an answer, not a failure.
type no struct{ error }

func (e no) Unwrap() error { return e.error }

// exitCode is the exit code of a command that was run for the user and said itself what was wrong.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// run executes the command line args and returns the exit code. Errors are one line on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var code exitCode
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &code):
		return int(code)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "firsttime: interrupted")
		return exitInterrupted
	}
	fmt.Fprintln(stderr, "firsttime: "+oneLine(err))
	var wrong wrongUse
	var answer no
	switch {
	case errors.As(err, &answer):
		return exitNo
	case errors.As(err, &wrong), errors.Is(err, store.ErrInvalidKey), errors.Is(err, store.ErrInvalidScope):
		return exitWrongUse
	}
	return exitFailed
}

// cli is what all commands share.
type cli struct {
	db      string
	json    bool
	timeout time.Duration
}

func newRoot() *cobra.Command {
	c := new(cli)
	root := &cobra.Command{
		Use:   "firsttime",
		Short: "Make a message handler not mind being called twice",
		Long: `Shows, repairs and cleans the table of keys that makes message handlers idempotent.

The database is what --db or the environment variable FIRSTTIME_DB names:
` + knownSchemes + `.

` + exitCodes,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	f.StringVar(&c.db, "db", "", "database; or set FIRSTTIME_DB, which keeps the password out of the list of processes")
	f.BoolVar(&c.json, "json", false, "print one JSON value instead of text for people")
	f.DurationVar(&c.timeout, "timeout", 10*time.Second, "how long the database may take to answer")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrongUse{err} })
	root.AddCommand(newDemo(c), newMigrate(c), newStats(c), newStale(c), newShow(c), newRelease(c), newConfirm(c),
		newPurge(c), newServe(c), newExec(c), newDoctor(c), newVersion(c))
	return root
}

// periods are the times of a store.
type periods struct{ lease, retention time.Duration }

func (p *periods) flags(cmd *cobra.Command, leaseUsage, retentionUsage string) {
	cmd.Flags().DurationVar(&p.lease, "lease", store.DefaultLease, leaseUsage)
	cmd.Flags().DurationVar(&p.retention, "retention", store.DefaultRetention, retentionUsage)
}

// options says what is wrong in the words of the flags.
func (p periods) options() ([]store.Option, error) {
	switch {
	case p.lease < time.Millisecond:
		return nil, wrongUse{fmt.Errorf("--lease %v: give at least 1ms", p.lease)}
	case p.retention <= p.lease:
		return nil, wrongUse{fmt.Errorf("--retention %v: give more than the lease, which is %v", p.retention, p.lease)}
	}
	return []store.Option{store.WithLease(p.lease), store.WithRetention(p.retention)}, nil
}

// open opens the database that the user names. It does not connect.
func (c *cli) open() (database, error) {
	dsn := c.db
	if dsn == "" {
		dsn = os.Getenv("FIRSTTIME_DB")
	}
	if dsn == "" {
		return database{}, wrongUse{errors.New("no database: give --db or set FIRSTTIME_DB, to " + knownSchemes)}
	}
	if c.timeout < time.Millisecond {
		return database{}, wrongUse{fmt.Errorf("--timeout %v: give at least 1ms", c.timeout)}
	}
	return openDatabase(dsn)
}

// connect opens the database that the user names and waits until it answers.
func (c *cli) connect(ctx context.Context) (database, error) {
	db, err := c.open()
	if err != nil {
		return database{}, err
	}
	if err := db.answer(ctx, c.timeout); err != nil {
		db.Close()
		return database{}, err
	}
	return db, nil
}

// limit is for what has no time limit of its own.
func (c *cli) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

// withStore calls do with a store in the user's database.
func (c *cli) withStore(ctx context.Context, do func(s *store.SQL) error, options ...store.Option) error {
	db, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := db.store(ctx, append([]store.Option{store.WithTimeout(c.timeout)}, options...)...)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

// store opens a store in the database. It prepares nothing on the server: a command runs few statements. Its errors
// name the database instead of an operation of the library.
func (d database) store(ctx context.Context, options ...store.Option) (*store.SQL, error) {
	s, err := store.NewContext(ctx, d.DB, d.dialect, append([]store.Option{store.WithoutPreparedStatements()}, options...)...)
	var refused *store.Error
	if err = d.advise(err); errors.As(err, &refused) {
		err = fmt.Errorf("%s: %w", d.name, refused.Err)
	}
	return s, err
}

// advise says what to do about a missing table. Other errors it returns as they are.
func (d database) advise(err error) error {
	if errors.Is(err, store.ErrNotMigrated) {
		return fmt.Errorf("%s has no table firsttime_keys, or one of another version: run \"firsttime migrate up\"", d.name)
	}
	return err
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return wrongUse{fmt.Errorf("unknown command or argument %q: see %q", args[0], cmd.CommandPath()+" --help")}
	}
	return nil
}

// oneKey is for commands that take a key.
func oneKey(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return wrongUse{fmt.Errorf("give one key: %s", cmd.UseLine())}
	}
	return nil
}
