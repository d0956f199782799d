package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// childRole names the variable that turns this test binary into a process of a test: its value is one of
// childRoles.
const childRole = "FIRSTTIME_TEST_CHILD"

var childRoles = map[string]func(ctx context.Context, args []string) error{}

func runChild() int {
	if err := childRoles[os.Getenv(childRole)](context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is this test binary as another process.
func child(ctx context.Context, role string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), childRole+"="+role)
	return cmd
}

func databaseNamed(name string) (database, error) {
	for _, d := range everyDatabase() {
		if d.name == name {
			return d, nil
		}
	}
	return database{}, fmt.Errorf("no database is called %q", name)
}
