package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// install installs Debian packages, if this is root on a system that has apt-get, and says so.
func install(ctx context.Context, packages ...string) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Getuid() != 0 {
		return errors.New("it is not installed, and only root on Debian or Ubuntu can install it here")
	}
	fmt.Fprintln(os.Stderr, "servers: installing Debian packages:", packages)
	env := append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	for _, args := range [][]string{
		{"update", "-qq"},
		append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...),
	} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = env
		if err := run(cmd, nil); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	return nil
}
