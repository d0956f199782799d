package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The page of commands has a section for each, with its subcommands and flags.
func TestThePageHasEveryCommandAndFlag(t *testing.T) {
	text, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	sections := map[string]string{}
	for section := range strings.SplitSeq(page, "\n## ") {
		title, rest, _ := strings.Cut(section, "\n")
		sections[title] = rest
	}
	root := newRoot()
	mentioned := func(where, section string, flags *pflag.FlagSet) {
		flags.VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(section, "--"+f.Name) {
				t.Errorf("%s: nothing about --%s", where, f.Name)
			}
		})
	}
	mentioned("the page", page, root.PersistentFlags())
	for _, command := range root.Commands() {
		section, found := sections[command.Name()]
		if !found {
			t.Errorf("no section about %s", command.Name())
			continue
		}
		for _, part := range append([]*cobra.Command{command}, command.Commands()...) {
			if part != command && !strings.Contains(section, "`"+part.Name()+"`") {
				t.Errorf("%s: nothing about %s", command.Name(), part.Name())
			}
			mentioned(part.CommandPath(), section, part.LocalNonPersistentFlags())
		}
	}
}
