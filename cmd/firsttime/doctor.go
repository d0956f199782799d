package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/firsttime-go/firsttime/migrations"
	"github.com/firsttime-go/firsttime/store"
)

type finding struct {
	Level  string `json:"level"`
	Check  string `json:"check"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

func newDoctor(c *cli) *cobra.Command {
	var p periods
	var unprepared bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the database, the table and the settings; exit with 3 if there is a fault",
		Long: `Looks for whatever would break the promises or fail later, and says what to do. It changes nothing. What it finds
is a note (worth knowing), a warning (works, but not as well or as safely as it could), or a fault.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := p.options()
			if err != nil {
				return err
			}
			if unprepared {
				options = append(options, store.WithoutPreparedStatements())
			}
			return c.doctor(cmd, options...)
		},
	}
	p.flags(cmd, "lease of your consumers", "retention of your consumers")
	cmd.Flags().BoolVar(&unprepared, "unprepared", false, "your consumers use store.WithoutPreparedStatements")
	return cmd
}

func (c *cli) doctor(cmd *cobra.Command, options ...store.Option) error {
	db, err := c.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := c.limit(cmd.Context())
	defer cancel()
	found, err := store.Check(ctx, db.DB, db.dialect, append(options, store.WithTimeout(c.timeout))...)
	if err != nil {
		return err
	}
	var faults int64
	var findings []finding
	for _, f := range append(found, c.checkMigrations(cmd.Context(), db)) {
		findings = append(findings, finding{f.Level.String(), f.Check, f.Detail, f.Remedy})
		if f.Level == store.Fault {
			faults++
		}
	}
	err = c.print(cmd, findings, func(w io.Writer) {
		for _, f := range findings {
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Level, f.Check, f.Detail)
			if f.Remedy != "" {
				fmt.Fprintf(w, "\t\t→ %s\n", f.Remedy)
			}
		}
	})
	if err == nil && faults > 0 {
		err = no{fmt.Errorf("%s found", counted(faults, "fault"))}
	}
	return err
}

// checkMigrations compares the migrations that were applied with those that there are.
func (c *cli) checkMigrations(ctx context.Context, db database) store.Finding {
	const check = "migrations"
	list, err := c.migrationStatus(ctx, db)
	if err != nil {
		return store.Finding{Level: store.Warning, Check: check, Detail: "which of them are applied cannot be read: " + flat(err),
			Remedy: "grant SELECT on " + migrations.VersionTable + " to see it"}
	}
	missing := 0
	for _, m := range list {
		if !m.Applied {
			missing++
		}
	}
	if missing > 0 {
		return store.Finding{Level: store.Warning, Check: check, Detail: fmt.Sprintf("%d of %d are not applied", missing, len(list)),
			Remedy: "run \"firsttime migrate up\", unless your own goose has applied them with another version table"}
	}
	return store.Finding{Level: store.Note, Check: check, Detail: fmt.Sprintf("all %d applied", len(list))}
}
