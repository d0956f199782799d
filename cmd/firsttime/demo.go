package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/firsttime-go/firsttime/migrations"
)

// demoOptions are the flags of demo.
type demoOptions struct {
	db        string
	messages  int
	consumers int
	seed      uint64
	input     string
	json      bool
	timeout   time.Duration
}

func newDemo(c *cli) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Handle payments exactly once, although the broker redelivers and handlers die",
		Long: `Lets consumers handle payments from an in-process broker that delivers each message one to four times,
some to two consumers at once, while about one in twenty handlers dies half way. Each handler charges in
the same transaction that confirms its key. The demo exits with 0 only if every payment was charged
exactly once. Without --db, whatever FIRSTTIME_DB says, it uses an SQLite file in a temporary directory, and removes it.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("input") && cmd.Flags().Changed("messages") {
				return wrongUse{errors.New("--input and --messages exclude each other")}
			}
			o.db, o.json, o.timeout = c.db, c.json, c.timeout
			return runDemo(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.messages, "messages", 500, "number of payments to generate")
	f.IntVar(&o.consumers, "consumers", 4, "number of concurrent consumers")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the deliveries and crashes")
	f.StringVar(&o.input, "input", "", "file of payments, one JSON object with id, order_id and amount_cents a line, instead of generated ones")
	return cmd
}

// demoResult is what a demo prints.
type demoResult struct {
	Messages   int     `json:"messages"`
	Deliveries int     `json:"deliveries"`
	Handled    int     `json:"handled"`
	Duplicates int     `json:"duplicates"`
	InProgress int     `json:"in_progress"`
	Takeovers  int     `json:"takeovers"`
	Crashes    int     `json:"crashes"`
	Charges    int     `json:"charges"`
	Missing    int     `json:"missing"`
	Double     int     `json:"double"`
	Seconds    float64 `json:"seconds"`
}

func runDemo(ctx context.Context, o demoOptions, stdout, stderr io.Writer) error {
	payments, err := o.payments()
	if err != nil {
		return wrongUse{err}
	}
	if o.consumers < 1 || o.consumers > 1000 {
		return wrongUse{fmt.Errorf("--consumers %d: give 1 to 1000", o.consumers)}
	}
	db, remove, err := o.database()
	if err != nil {
		return err
	}
	defer remove()
	defer db.Close()
	if err := db.answer(ctx, o.timeout); err != nil {
		return err
	}
	if err := migrateForDemo(ctx, db, stderr); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%d payments, %d consumers, on %s\n", len(payments), o.consumers, db.name)

	started := time.Now()
	d, err := newPaymentDemo(ctx, db, payments, o)
	if err != nil {
		return err
	}
	workErr := d.run(ctx, stderr)
	result := d.result()
	result.Seconds = time.Since(started).Round(time.Millisecond).Seconds()
	if workErr == nil {
		result.Charges, result.Missing, result.Double, workErr = d.ledger.check(ctx, payments)
	}
	if err := errors.Join(workErr, d.cleanUp(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	if err := result.print(stdout, o.json); err != nil {
		return err
	}
	return result.verdict()
}

// verdict is an error unless every payment was charged exactly once.
func (r demoResult) verdict() error {
	if r.Missing > 0 || r.Double > 0 || r.Charges != r.Messages {
		return fmt.Errorf("%d payments, %d charges: %d missing, %d double", r.Messages, r.Charges, r.Missing, r.Double)
	}
	return nil
}

func (r demoResult) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	for _, row := range []struct {
		name string
		n    int
		note string
	}{
		{"messages", r.Messages, "payments to charge once"},
		{"deliveries", r.Deliveries, "the broker delivers at least once"},
		{"handled", r.Handled, "work and key committed in one transaction"},
		{"duplicates", r.Duplicates, "acknowledged, the handler did not run"},
		{"in progress", r.InProgress, "put back: another consumer was at work"},
		{"crashes", r.Crashes, "handlers that died, before, in or after the work"},
		{"takeovers", r.Takeovers, "claims of dead handlers, after their lease"},
		{"charges", r.Charges, "rows in the table of charges"},
		{"missing", r.Missing, "payments without a charge"},
		{"double", r.Double, "payments with more than one"},
	} {
		if _, err := fmt.Fprintf(w, "%-12s %7d   %s\n", row.name, row.n, row.note); err != nil {
			return err
		}
	}
	verdict := "every payment was charged exactly once"
	if r.verdict() != nil {
		verdict = "WRONG"
	}
	_, err := fmt.Fprintf(w, "%s, in %.1f s\n", verdict, r.Seconds)
	return err
}

// database opens what --db names, or a new file. remove deletes that file.
func (o demoOptions) database() (db database, remove func(), err error) {
	if o.db != "" {
		db, err = openDatabase(o.db)
		return db, func() {}, err
	}
	dir, err := os.MkdirTemp("", "firsttime-demo-")
	if err != nil {
		return database{}, nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	if db, err = openDatabase("sqlite:" + filepath.ToSlash(filepath.Join(dir, "demo.db"))); err != nil {
		remove()
	}
	return db, remove, err
}

func migrateForDemo(ctx context.Context, db database, stderr io.Writer) error {
	list, err := migrations.Status(ctx, db.DB, db.dialect)
	if err != nil {
		return err
	}
	for _, m := range list {
		if !m.Applied {
			fmt.Fprintln(stderr, "creating the table firsttime_keys")
			return migrations.Up(ctx, db.DB, db.dialect)
		}
	}
	return nil
}
