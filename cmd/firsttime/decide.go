package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/firsttime-go/firsttime/store"
)

func newRelease(c *cli) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "release KEY",
		Short: "Give back the claim of a process that died, so that a delivery runs at once",
		Long: `Gives back a claim that never finished: the next delivery of its message is a first one again, and its attempts
are counted anew. A claim whose lease is still running is refused: its holder may be at work. --force gives it
back all the same; its holder cannot confirm any more then. A confirmed key is always refused.`,
		Args: oneKey,
	}
	scope := scopeFlag(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "give a live claim back, too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.withStore(cmd.Context(), func(s *store.SQL) error {
			scoped, err := s.Scope(*scope)
			if err != nil {
				return err
			}
			release := scoped.Release
			if force {
				release = scoped.ForceRelease
			}
			found, err := release(cmd.Context(), args[0])
			r := newRecord(found)
			switch {
			case errors.Is(err, store.ErrNotFound):
				return c.notThere(cmd, s, *scope, args[0])
			case errors.Is(err, store.ErrConfirmed):
				return no{fmt.Errorf("key %s is confirmed, by %s %s: the work is done", printable(args[0]), printable(r.Holder), ago(found.ConfirmedAge))}
			case errors.Is(err, store.ErrLive):
				return no{fmt.Errorf("%s holds key %s for another %s: wait, or use --force", printable(r.Holder), printable(args[0]), roughly(found.LeaseLeft))}
			case err != nil:
				return err
			}
			return c.print(cmd, r, func(w io.Writer) {
				fmt.Fprintf(w, "released key %s of scope %s, which %s had claimed %s\n", printable(r.Key), printable(r.Scope), printable(r.Holder), ago(found.Age))
			})
		})
	}
	return cmd
}

func newConfirm(c *cli) *cobra.Command {
	var create bool
	cmd := &cobra.Command{
		Use:   "confirm KEY",
		Short: "Record that the work on a key is done, on your word",
		Long: `Records that the work on a key is done: its message is not handled any more. Who holds a claim on it loses it.
It is recorded with your name, as operator:NAME.`,
		Args: oneKey,
	}
	scope := scopeFlag(cmd)
	name := cmd.Flags().String("name", userName(), "who decides this")
	cmd.Flags().BoolVar(&create, "create", false, "record a key that is not there, too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if store.ValidateKey(*name) != nil || len(*name) > longestName {
			return wrongUse{fmt.Errorf("--name: give 1 to %d bytes of text: it is recorded who decides this", longestName)}
		}
		return c.withStore(cmd.Context(), func(s *store.SQL) error {
			scoped, err := s.Scope(*scope)
			if err != nil {
				return err
			}
			if _, err := scoped.Get(cmd.Context(), args[0]); errors.Is(err, store.ErrNotFound) && !create {
				return fmt.Errorf("%w; --create records it all the same", c.notThere(cmd, s, *scope, args[0]))
			}
			if err := scoped.Confirm(cmd.Context(), args[0]); err != nil {
				return err
			}
			found, err := scoped.Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			r := newRecord(found)
			return c.print(cmd, r, func(w io.Writer) {
				fmt.Fprintf(w, "key %s of scope %s is confirmed, by %s\n", printable(r.Key), printable(r.Scope), printable(r.Holder))
			})
		}, store.WithWorker("operator:"+*name))
	}
	return cmd
}

// longestName is how many bytes of the table's column the name may take.
const longestName = 80

// userName is the name of the person at the terminal, "" if the system does not say.
func userName() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}
