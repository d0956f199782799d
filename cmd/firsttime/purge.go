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
may run at once. What was deleted stays deleted when it is interrupted.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd.Flags().Changed); err != nil {
				return wrongUse{err}
			}
			return c.withStore(cmd.Context(), func(s *store.SQL) error { return c.purge(cmd, s, o) })
		},
	}
	f := cmd.Flags()
	f.Float64Var(&o.share, "share", store.DefaultPurgeShare, "part of the time in which statements may run, over 0 to 1")
	f.DurationVar(&o.maxDuration, "max-duration", 0, "end after this time, done or not")
	f.DurationVar(&o.every, "every", 0, "stay, and purge about this often")
	return cmd
}

func (o purgeOptions) validate(given func(flag string) bool) error {
	switch {
	case !(o.share > 0 && o.share <= 1):
		return fmt.Errorf("--share %v: give more than 0 and at most 1", o.share)
	case given("max-duration") && o.maxDuration <= 0:
		return fmt.Errorf("--max-duration %v: give a positive time, such as 10m", o.maxDuration)
	case given("every") && o.every < time.Second:
		return fmt.Errorf("--every %v: give at least 1s", o.every)
	}
	return nil
}

// purge purges once, or until it is interrupted.
func (c *cli) purge(cmd *cobra.Command, s *store.SQL, o purgeOptions) error {
	for {
		if err := c.purgeOnce(cmd, s, o); err != nil {
			return err
		}
		if o.every == 0 {
			return nil
		}
		select {
		case <-cmd.Context().Done():
			return nil // staying until then was the work
		case <-time.After(o.every):
		}
	}
}

// purgeOnce reports what was deleted, whatever ends it.
func (c *cli) purgeOnce(cmd *cobra.Command, s *store.SQL, o purgeOptions) error {
	ctx := cmd.Context()
	bar, err := newBar(ctx, s, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	started := time.Now()
	options := store.PurgeOptions{Share: o.share, MaxDuration: o.maxDuration, Progress: bar.show}
	deleted, err := s.Purge(ctx, options)
	bar.clear()
	result := purgeResult{Deleted: deleted, Seconds: seconds(time.Since(started)), Done: err == nil}
	unfinished := errors.Is(err, store.ErrPurgeUnfinished)
	printErr := c.print(cmd, result, func(w io.Writer) {
		fmt.Fprintf(w, "%d keys deleted in %s\n", deleted, roughly(time.Since(started)))
		if unfinished {
			fmt.Fprintln(w, "the time is over, there are more")
		}
	})
	if unfinished {
		err = nil
	}
	return errors.Join(err, printErr)
}

// bar shows on a terminal how far a purge is.
type bar struct {
	w     io.Writer // nil: show nothing
	total int64
}

// newBar counts what there is to delete, if somebody looks.
func newBar(ctx context.Context, s *store.SQL, w io.Writer) (*bar, error) {
	if !isTerminal(w) {
		return new(bar), nil
	}
	scopes, err := s.Stats(ctx)
	if err != nil {
		return nil, err
	}
	b := &bar{w: w}
	for _, n := range scopes {
		b.total += n.Purgeable
	}
	return b, nil
}

func (b *bar) show(deleted int64) {
	if b.w == nil || b.total == 0 {
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
