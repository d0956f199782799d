package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program returns the path of a program that PATH or a Debian package has. The package is unpacked into the user's
// cache, once, and not installed: what it would start as a daemon stays off, and what it depends on is not brought,
// so this is for programs that need no more than libc. It fails the test, with what to do, when the program cannot
// be had.
func Program(tb testing.TB, name, pkg string) string {
	tb.Helper()
	path, err := find(name)
	if err != nil {
		path, err = unpackedProgram(tb.Context(), name, pkg)
	}
	if err != nil {
		tb.Fatalf("put %s (apt-get install %s) into PATH, or: %v", name, pkg, err)
	}
	return path
}

func unpackedProgram(ctx context.Context, name, pkg string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "firsttime", "package-"+pkg)
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFile(root + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(root); err != nil {
		fmt.Fprintf(os.Stderr, "servers: unpacking the Debian package %s into %s (once)\n", pkg, root)
		if err := unpack(ctx, pkg, root); err != nil {
			return "", err
		}
	}
	return find(filepath.Join(root, "usr", "bin", name))
}

// unpack makes the directory root with what is in a package. The lists of packages are brought up to date if the
// package is not found without that, for which apt-get wants root.
func unpack(ctx context.Context, pkg, root string) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return errors.New("only Debian and Ubuntu have packages to unpack")
	}
	dir, err := os.MkdirTemp(filepath.Dir(root), "unpacking-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := download(ctx, apt, pkg, dir); err != nil {
		updated := aptGet(ctx, apt, "update", "-qq")
		if err := download(ctx, apt, pkg, dir); err != nil {
			return errors.Join(updated, err)
		}
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("apt-get download %s brought %d packages", pkg, len(archives))
	}
	unfinished := filepath.Join(dir, "root")
	if err := run(exec.CommandContext(ctx, "dpkg-deb", "--extract", archives[0], unfinished), nil); err != nil {
		return fmt.Errorf("dpkg-deb: %w", err)
	}
	return os.Rename(unfinished, root)
}

func download(ctx context.Context, apt, pkg, dir string) error {
	cmd := exec.CommandContext(ctx, apt, "download", "-qq", pkg)
	cmd.Dir = dir
	if err := run(cmd, nil); err != nil {
		return fmt.Errorf("apt-get download: %w", err)
	}
	return nil
}
