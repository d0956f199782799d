package faults

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
	role := childRoles[os.Getenv(childRole)]
	if role == nil {
		fmt.Fprintf(os.Stderr, "%s: no such role\n", os.Getenv(childRole))
		return 2
	}
	if err := role(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is this test binary as another process.
func child(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childRole+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}
