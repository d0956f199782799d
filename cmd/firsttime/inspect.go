package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/firsttime-go/firsttime/store"
)

// record is a key, as it is printed.
type record struct {
	Scope            string  `json:"scope"`
	Key              string  `json:"key"`
	State            string  `json:"state"` // claimed, stale or confirmed
	Holder           string  `json:"holder"`
	Attempts         int     `json:"attempts"`
	AgeSeconds       float64 `json:"age_seconds"`
	LeaseSeconds     float64 `json:"lease_left_seconds"` // negative: over since then; 0 if confirmed
	RetentionSeconds float64 `json:"retention_left_seconds"`

	of store.Record
}

func newRecord(r store.Record) record {
	p := record{
		Scope: r.Scope, Key: r.Key, State: "confirmed", Holder: r.Worker, Attempts: r.Attempts,
		AgeSeconds: seconds(r.Age), RetentionSeconds: seconds(r.RetentionLeft), of: r,
	}
	if !r.Confirmed {
		p.LeaseSeconds = seconds(r.LeaseLeft)
		p.State = "claimed"
		if r.LeaseLeft <= 0 {
			p.State = "stale"
		}
	}
	return p
}

type scopeStats struct {
	Scope         string  `json:"scope"`
	Claimed       int64   `json:"claimed"`
	Stale         int64   `json:"stale"`
	Confirmed     int64   `json:"confirmed"`
	PastRetention int64   `json:"past_retention"`
	OldestClaim   float64 `json:"oldest_claim_seconds"`
}

type stats struct {
	Scopes     []scopeStats `json:"scopes"`
	TableBytes int64        `json:"table_bytes"`
	IndexBytes int64        `json:"index_bytes"`
}

func newStats(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Count the keys of every scope",
		Long: `Counts the keys of every scope: claimed (a handler works), stale (a claim that never finished and whose lease
is over), confirmed, and how many of them are past their retention; with the age of the oldest claim and
the size of the table. It reads the whole table.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd.Context(), func(s *store.SQL) error { return c.stats(cmd, s) })
		},
	}
}

func (c *cli) stats(cmd *cobra.Command, s *store.SQL) error {
	scopes, err := s.Stats(cmd.Context())
	if err != nil {
		return err
	}
	size1, err := s.Size(cmd.Context())
	if err != nil {
		return err
	}
	all := stats{Scopes: []scopeStats{}, TableBytes: size1.Table, IndexBytes: size1.Index}
	for _, n := range scopes {
		all.Scopes = append(all.Scopes, scopeStats{n.Scope, n.Claimed, n.Stale, n.Confirmed, n.Purgeable, seconds(n.OldestClaim)})
	}
	return c.print(cmd, all, func(w io.Writer) {
		fmt.Fprintln(w, "SCOPE\tCLAIMED\tSTALE\tCONFIRMED\tPAST RETENTION\tOLDEST CLAIM")
		for _, n := range scopes {
			oldest := "-"
			if n.OldestClaim > 0 {
				oldest = roughly(n.OldestClaim)
			}
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", printable(n.Scope), n.Claimed, n.Stale, n.Confirmed, n.Purgeable, oldest)
		}
		fmt.Fprintf(w, "\ntable %s, index %s\n", size(size1.Table), size(size1.Index))
	})
}

func newStale(c *cli) *cobra.Command {
	limit := 100
	cmd := &cobra.Command{
		Use:   "stale",
		Short: "List claims that never finished",
		Long: `Lists claims that never finished and whose lease is over, the longest overdue first: their processes died, and
their messages were not delivered again since. The next delivery takes such a claim over.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return wrongUse{fmt.Errorf("--limit %d: give at least 1", limit)}
			}
			return c.withStore(cmd.Context(), func(s *store.SQL) error {
				found, err := s.Stale(cmd.Context(), limit)
				if err != nil {
					return err
				}
				records := make([]record, len(found))
				for i, r := range found {
					records[i] = newRecord(r)
				}
				return c.print(cmd, records, func(w io.Writer) { printRecords(w, records) })
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "how many to list at most")
	return cmd
}

func printRecords(w io.Writer, records []record) {
	fmt.Fprintln(w, "SCOPE\tKEY\tHOLDER\tATTEMPTS\tAGE\tOVERDUE")
	for _, r := range records {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", printable(r.Scope), printable(r.Key), printable(r.Holder), r.Attempts,
			roughly(r.of.Age), roughly(-r.of.LeaseLeft))
	}
}

// scopeFlag adds the flag of commands for one key.
func scopeFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("scope", store.DefaultScope, "scope of the key: the consumer that it belongs to")
}

func newShow(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Show one key; exit with 3 if it is not there",
		Args:  oneKey,
	}
	scope := scopeFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.withStore(cmd.Context(), func(s *store.SQL) error {
			scoped, err := s.Scope(*scope)
			if err != nil {
				return err
			}
			found, err := scoped.Get(cmd.Context(), args[0])
			if errors.Is(err, store.ErrNotFound) {
				return notThere(cmd, s, *scope, args[0])
			}
			if err != nil {
				return err
			}
			r := newRecord(found)
			return c.print(cmd, r, func(w io.Writer) { r.print(w) })
		})
	}
	return cmd
}

func (r record) print(w io.Writer) {
	row := func(name, value string) { fmt.Fprintf(w, "%s\t%s\n", name, value) }
	row("scope", printable(r.Scope))
	row("key", printable(r.Key))
	row("state", r.State)
	row("holder", printable(r.Holder))
	row("attempts", fmt.Sprint(r.Attempts))
	row("recorded", ago(r.of.Age))
	switch r.State {
	case "claimed":
		row("lease", "for another "+roughly(r.of.LeaseLeft))
	case "stale":
		row("lease", "over since "+roughly(-r.of.LeaseLeft))
	default:
		row("confirmed", ago(r.of.ConfirmedAge))
	}
	if r.of.RetentionLeft > 0 {
		row("kept", "for another "+roughly(r.of.RetentionLeft))
	} else {
		row("kept", "until the next purge")
	}
}

func ago(d time.Duration) string { return roughly(d) + " ago" }

// notThere says that a key is not there, and which scopes there are if its scope has no keys at all.
func notThere(cmd *cobra.Command, s *store.SQL, scope, key string) error {
	err := fmt.Errorf("no key %s in scope %s", printable(key), printable(scope))
	scopes, statsErr := s.Stats(cmd.Context())
	if statsErr != nil {
		return errors.Join(no{err}, statsErr)
	}
	names := make([]string, len(scopes))
	for i, n := range scopes {
		if n.Scope == scope {
			return no{err}
		}
		names[i] = printable(n.Scope)
	}
	if len(names) == 0 {
		return no{fmt.Errorf("%w: there are no keys", err)}
	}
	return no{fmt.Errorf("%w: that scope has no keys; there is %s", err, strings.Join(names, ", "))}
}
