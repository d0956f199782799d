package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitWrongUse    = 2
	exitInterrupted = 130
)

// wrongUse is an error of the command line or of an input file, not of the work.
type wrongUse struct{ error }

func (e wrongUse) Unwrap() error { return e.error }

// run executes the command line args and returns the exit code. Errors are one line on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintln(stderr, "firsttime: "+oneLine(err))
	var wrong wrongUse
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &wrong):
		return exitWrongUse
	}
	return exitFailed
}

// oneLine is the text of an error without what the library puts before it, and without the line breaks of
// some drivers.
func oneLine(err error) string {
	words := strings.Fields(strings.TrimPrefix(err.Error(), "firsttime: "))
	return strings.Join(words, " ")
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "firsttime",
		Short:         "Make a message handler not mind being called twice",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrongUse{err} })
	root.AddCommand(newDemo())
	return root
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return wrongUse{fmt.Errorf("unknown command or argument %q: see %q", args[0], cmd.CommandPath()+" --help")}
	}
	return nil
}
