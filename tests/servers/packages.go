package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// find looks for a program in PATH and then at other places, which may be patterns.
func find(name string, places ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	for _, place := range places {
		if matches, err := filepath.Glob(place); err == nil && len(matches) > 0 {
			return matches[len(matches)-1], nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// program finds a program, and installs the Debian packages that bring it if it is missing. Processes that
// miss something install it one after the other.
func program(ctx context.Context, find func() (string, error), packages ...string) (string, error) {
	if path, err := find(); err == nil {
		return path, nil
	}
	unlock, err := lockFile(filepath.Join(os.TempDir(), "firsttime-apt.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	path, missing := find()
	if missing == nil {
		return path, nil
	}
	if err := install(ctx, packages...); err != nil {
		return "", fmt.Errorf("%w, and %w", missing, err)
	}
	return find()
}

// install installs Debian packages, if this is root on a system that has apt-get, and says so.
func install(ctx context.Context, packages ...string) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Getuid() != 0 {
		return errors.New("only root on Debian or Ubuntu can install it here")
	}
	fmt.Fprintln(os.Stderr, "servers: installing Debian packages:", packages)
	// One list that cannot be updated does not stop the others from being enough.
	updated := aptGet(ctx, apt, "update", "-qq")
	installed := aptGet(ctx, apt, slices.Concat([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages)...)
	if installed != nil {
		return errors.Join(updated, installed)
	}
	return nil
}

// aptGet waits for another apt-get. Once begun it is not cut short, since a system with half of a package
// needs repair.
func aptGet(ctx context.Context, apt string, args ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cmd := exec.Command(apt, append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", args[0], err, tail(out))
	}
	return nil
}
