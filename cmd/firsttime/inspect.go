package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
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
	var scope string
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count the keys of every scope",
		Long: `Counts the keys of every scope: claimed (a handler works), stale (a claim that never finished and whose lease
is over), confirmed, and how many of them are past their retention; with the age of the oldest claim and
the size of the table. It reads the whole table.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd.Context(), func(s *store.SQL) error { return c.stats(cmd, s, scope) })
		},
	}
	oneScopeFlag(cmd, &scope)
	return cmd
}

// oneScopeFlag adds the flag of commands for all scopes or one.
func oneScopeFlag(cmd *cobra.Command, scope *string) {
	cmd.Flags().StringVar(scope, "scope", "", "only this scope; exit with 3 if it has no keys")
}

func (c *cli) stats(cmd *cobra.Command, s *store.SQL, scope string) error {
	scopes, err := c.scopes(cmd.Context(), s)
	if err != nil {
		return err
	}
	if scope != "" {
		if unknown := unknownScope(scope, scopes); unknown != nil {
			return no{fmt.Errorf("scope %s: %w", printable(scope), unknown)}
		}
		scopes = slices.DeleteFunc(scopes, func(n store.ScopeStats) bool { return n.Scope != scope })
	}
	ctx, cancel := c.limit(cmd.Context())
	defer cancel()
	bytes, err := s.Size(ctx)
	if err != nil {
		return err
	}
	all := stats{Scopes: []scopeStats{}, TableBytes: bytes.Table, IndexBytes: bytes.Index}
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
		fmt.Fprintf(w, "\ntable %s, index %s\n", size(bytes.Table), size(bytes.Index))
	})
}

func newStale(c *cli) *cobra.Command {
	var scope string
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
				records, err := c.stale(cmd.Context(), s, scope, limit)
				if err != nil {
					return err
				}
				return c.print(cmd, records, func(w io.Writer) { printRecords(w, records) })
			})
		},
	}
	oneScopeFlag(cmd, &scope)
	cmd.Flags().IntVar(&limit, "limit", limit, "how many to list at most")
	return cmd
}

// stale lists the stale claims of one scope, or of all of them if it is "".
func (c *cli) stale(ctx context.Context, s *store.SQL, scope string, limit int) ([]record, error) {
	most := limit
	if scope != "" {
		most = math.MaxInt32 // those of other scopes are dropped below
		scopes, err := c.scopes(ctx, s)
		if err != nil {
			return nil, err
		}
		if unknown := unknownScope(scope, scopes); unknown != nil {
			return nil, no{fmt.Errorf("scope %s: %w", printable(scope), unknown)}
		}
	}
	ctx, cancel := c.limit(ctx)
	defer cancel()
	found, err := s.Stale(ctx, most)
	if err != nil {
		return nil, err
	}
	records := []record{}
	for _, r := range found {
		if len(records) < limit && (scope == "" || r.Scope == scope) {
			records = append(records, newRecord(r))
		}
	}
	return records, nil
}

func printRecords(w io.Writer, records []record) {
	if len(records) == 0 {
		fmt.Fprintln(w, "no claim is stale")
		return
	}
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
				return c.notThere(cmd, s, *scope, args[0])
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

// scopes counts the keys of every scope.
func (c *cli) scopes(ctx context.Context, s *store.SQL) ([]store.ScopeStats, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	return s.Stats(ctx)
}

// notThere says that a key is not there, and which scopes there are if its scope has no keys at all.
func (c *cli) notThere(cmd *cobra.Command, s *store.SQL, scope, key string) error {
	err := fmt.Errorf("no key %s in scope %s", printable(key), printable(scope))
	scopes, statsErr := c.scopes(cmd.Context(), s)
	if statsErr != nil {
		return no{err}
	}
	if unknown := unknownScope(scope, scopes); unknown != nil {
		return no{fmt.Errorf("%w: %w", err, unknown)}
	}
	return no{err}
}

// unknownScope is an error that says which scopes there are, if one is not among them.
func unknownScope(scope string, scopes []store.ScopeStats) error {
	if len(scopes) == 0 {
		return errors.New("there are no keys")
	}
	names := make([]string, len(scopes))
	for i, n := range scopes {
		if n.Scope == scope {
			return nil
		}
		names[i] = printable(n.Scope)
	}
	return fmt.Errorf("that scope has no keys; these have: %s", strings.Join(names, ", "))
}
