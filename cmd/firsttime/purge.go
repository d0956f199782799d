package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/firsttime-go/firsttime/store"
)

type purgeOptions struct {
	share       float64
	maxDuration time.Duration
	every       time.Duration
}

type purgeResult struct {
	Deleted int64   `json:"deleted"`
	Seconds float64 `json:"seconds"`
	// Done is false if the time was over before everything was deleted.
	Done bool `json:"done"`
}

func newPurge(c *cli) *cobra.Command {
	var o purgeOptions
	cmd := &cobra.Command{
		Use:   "purge",
		Short: "Delete keys whose retention is over",
		Long: `Deletes the keys whose retention is over, the oldest first, in batches that adapt to the speed of the database,
with pauses between them. It never deletes a claim whose lease is running and never locks the table. Several
may run at once. Interrupted, it says what it has deleted, which stays deleted, and exits with 130; with
--every, to be interrupted is its end, and it exits with 0.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd.Flags().Changed); err != nil {
				return wrongUse{err}
			}
			return c.withStore(cmd.Context(), func(s *store.SQL) error { return c.purge(cmd, s, o) })
		},
	}
	f := cmd.Flags()
	f.Float64Var(&o.share, "share", store.DefaultPurgeShare, "part of the time in which statements may run, 0.0001 to 1")
	f.DurationVar(&o.maxDuration, "max-duration", 0, "end after this time, done or not")
	f.DurationVar(&o.every, "every", 0, "stay, and purge about this often")
	return cmd
}

func (o purgeOptions) validate(given func(flag string) bool) error {
	switch {
	case !(o.share >= store.MinPurgeShare && o.share <= 1):
		return fmt.Errorf("--share %v: give %v to 1", o.share, store.MinPurgeShare)
	case given("max-duration") && o.maxDuration <= 0:
		return fmt.Errorf("--max-duration %v: give a positive time, such as 10m", o.maxDuration)
	case given("every") && o.every < time.Second:
		return fmt.Errorf("--every %v: give at least 1s", o.every)
	}
	return nil
}

// purge purges once, or until it is interrupted.
func (c *cli) purge(cmd *cobra.Command, s *store.SQL, o purgeOptions) error {
	if o.every == 0 {
		return c.purgeOnce(cmd, s, o)
	}
	for cmd.Context().Err() == nil { // staying until then is the work
		err := c.purgeOnce(cmd, s, o)
		if err != nil && cmd.Context().Err() == nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "firsttime: %s; the next purge is in %v\n", oneLine(err), o.every)
		}
		select {
		case <-cmd.Context().Done():
		case <-time.After(o.every):
		}
	}
	return nil
}

// purgeOnce reports what was deleted, whatever ends it.
func (c *cli) purgeOnce(cmd *cobra.Command, s *store.SQL, o purgeOptions) error {
	ctx := cmd.Context()
	bar := c.newBar(ctx, s, cmd.ErrOrStderr())
	started := time.Now()
	deleted, err := s.Purge(ctx, store.PurgeOptions{Share: o.share, MaxDuration: o.maxDuration, Progress: bar.show})
	bar.clear()
	result := purgeResult{Deleted: deleted, Seconds: seconds(time.Since(started)), Done: err == nil}
	unfinished := errors.Is(err, store.ErrPurgeUnfinished)
	printErr := c.print(cmd, result, func(w io.Writer) {
		fmt.Fprintf(w, "%s deleted in %s\n", counted(deleted, "key"), roughly(time.Since(started)))
		if unfinished {
			fmt.Fprintln(w, "the time is over, there are more")
		}
	})
	switch {
	case unfinished:
		err = nil
	case ctx.Err() != nil:
		err = ctx.Err() // whatever the driver makes of it
	}
	return errors.Join(err, printErr)
}

// bar shows on a terminal how far a purge is.
type bar struct {
	w     io.Writer // nil: show nothing
	total int64
}

// newBar counts what there is to delete, if somebody looks and it can be counted within the time limit.
func (c *cli) newBar(ctx context.Context, s *store.SQL, w io.Writer) *bar {
	if !isTerminal(w) {
		return new(bar)
	}
	b := &bar{w: w}
	scopes, _ := c.scopes(ctx, s)
	for _, n := range scopes {
		b.total += n.Purgeable
	}
	return b
}

func (b *bar) show(deleted int64) {
	switch {
	case b.w == nil:
		return
	case b.total == 0:
		fmt.Fprintf(b.w, "\r\x1b[K%s deleted", counted(deleted, "key"))
		return
	}
	const width = 30
	part := min(float64(deleted)/float64(b.total), 1)
	full := int(part * width)
	fmt.Fprintf(b.w, "\r\x1b[K%3.0f %% [%-*s] %d of %d", 100*part, width, hashes[:full], deleted, b.total)
}

const hashes = "##############################"

func (b *bar) clear() {
	if b.w != nil {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}
