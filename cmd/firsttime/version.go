package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := version()
			return c.print(cmd, map[string]string{"version": v, "go": runtime.Version()}, func(w io.Writer) {
				fmt.Fprintln(w, "firsttime", v, runtime.Version())
			})
		},
	}
}

// version is what Go has written into the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}
