package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"
	"github.com/spf13/cobra"

	"github.com/firsttime-go/firsttime/dialects/all"
	"github.com/firsttime-go/firsttime/migrations"
)

func newMigrate(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or change the table of keys",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "up",
			Short: "Apply all migrations that are missing",
			Long:  "Applies all migrations that are missing. Any number of processes may do so at once.",
			Args:  noArguments,
			RunE:  c.migrateUp,
		},
		&cobra.Command{
			Use:   "down",
			Short: "Take the newest migration back, and all keys with it when that is the first one",
			Args:  noArguments,
			RunE:  c.migrateDown,
		},
		&cobra.Command{
			Use:   "status",
			Short: "List the migrations; exit with 3 if one is missing",
			Args:  noArguments,
			RunE:  c.migrateStatus,
		},
		newExport(c),
	)
	return cmd
}

func (c *cli) migrateUp(cmd *cobra.Command, _ []string) error {
	db, err := c.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer db.Close()
	before, err := c.migrationStatus(cmd.Context(), db)
	if err != nil {
		return err
	}
	if err := migrations.Up(cmd.Context(), db.DB, db.dialect); err != nil {
		return err
	}
	applied := []string{}
	for _, m := range before {
		if !m.Applied {
			applied = append(applied, m.Name)
		}
	}
	return c.print(cmd, map[string]any{"applied": applied}, func(w io.Writer) {
		for _, name := range applied {
			fmt.Fprintln(w, "applied", name)
		}
		fmt.Fprintln(w, db.name, "is up to date")
	})
}

func (c *cli) migrateDown(cmd *cobra.Command, _ []string) error {
	db, err := c.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer db.Close()
	err = migrations.Down(cmd.Context(), db.DB, db.dialect)
	if errors.Is(err, goose.ErrNoNextVersion) {
		return no{errors.New("no migration is applied")}
	}
	if err != nil {
		return err
	}
	return c.print(cmd, map[string]any{"down": true}, func(w io.Writer) { fmt.Fprintln(w, "one migration taken back") })
}

// migrationStatus asks which migrations were applied. To apply them may take longer than --timeout.
func (c *cli) migrationStatus(ctx context.Context, db database) ([]migrations.Migration, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	return migrations.Status(ctx, db.DB, db.dialect)
}

type migrationStatus struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

func (c *cli) migrateStatus(cmd *cobra.Command, _ []string) error {
	db, err := c.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer db.Close()
	list, err := c.migrationStatus(cmd.Context(), db)
	if err != nil {
		return err
	}
	var missing int64
	status := make([]migrationStatus, len(list))
	for i, m := range list {
		status[i] = migrationStatus(m)
		if !m.Applied {
			missing++
		}
	}
	err = c.print(cmd, status, func(w io.Writer) {
		fmt.Fprintln(w, "VERSION\tAPPLIED\tNAME")
		for _, m := range status {
			fmt.Fprintf(w, "%d\t%v\t%s\n", m.Version, m.Applied, m.Name)
		}
	})
	if err == nil && missing > 0 {
		err = no{fmt.Errorf("missing: %s: run \"firsttime migrate up\"", counted(missing, "migration"))}
	}
	return err
}

func newExport(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "export DIALECT FOLDER",
		Short: "Write the migrations of postgres, mysql or sqlite into a folder, for goose",
		Long: `Writes the migrations of a dialect into a folder, as files of goose, for those who keep all migrations of
an application together. It never overwrites a file that differs. Needs no database.

With a folder of its own, run them beside others by another version table:
  goose -table ` + migrations.VersionTable + ` -dir FOLDER postgres "$DSN" up`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return wrongUse{fmt.Errorf("give a dialect and a folder: %s", cmd.UseLine())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			written, err := export(args[0], args[1])
			if err != nil {
				return err
			}
			return c.print(cmd, map[string]any{"files": written}, func(w io.Writer) {
				for _, path := range written {
					fmt.Fprintln(w, path)
				}
			})
		},
	}
}

// export returns the files that it wrote, or that were there already.
func export(dialectName, folder string) ([]string, error) {
	dialect, err := all.ByName(dialectName)
	if err != nil {
		return nil, wrongUse{err}
	}
	files, err := migrations.FS(dialect)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	var written []string
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(folder, name)
		if there, err := os.ReadFile(path); err == nil && string(there) != string(text) {
			return nil, fmt.Errorf("%s is there already and differs: it was not touched", path)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return nil, err
		}
		written = append(written, path)
	}
	return written, nil
}
