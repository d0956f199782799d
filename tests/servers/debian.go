package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// suite is the Debian whose servers are newer than a system's own.
const suite = "sid"

// debianRoot returns a directory with a minimal Debian and the given packages in it, for servers that
// this system's own packages lack. It is made once and kept in the user's cache (some 600
// MB); two processes that want it make one.
func debianRoot(ctx context.Context, pkg string, more ...string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "firsttime")
	root := filepath.Join(dir, suite+"-"+pkg)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFile(root + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	if os.Getuid() != 0 {
		return "", fmt.Errorf("only root can unpack %s of Debian's %s", pkg, suite)
	}
	// Ubuntu has the keys of Debian in a package of their own.
	debootstrap, err := program(ctx, func() (string, error) { return find("debootstrap", "/usr/sbin/debootstrap") },
		"debootstrap", "debian-archive-keyring")
	if err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "servers: unpacking Debian %s with %s into %s (once)\n", suite, pkg, root)
	unfinished := root + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	args := []string{"--variant=minbase", "--include=" + strings.Join(append([]string{pkg}, more...), ","), suite, unfinished}
	if mirror := debianMirror(); mirror != "" {
		args = append(args, mirror)
	}
	cmd := exec.CommandContext(ctx, debootstrap, args...)
	enclose(cmd)
	if err := run(cmd, nil); err != nil {
		return "", errors.Join(fmt.Errorf("debootstrap: %w", err), os.RemoveAll(unfinished))
	}
	return root, os.Rename(unfinished, root)
}

// temporaryIn is the directory for temporary files in a Debian root; "" for the default, if that is not one.
func temporaryIn(root string) string {
	if root == "" {
		return ""
	}
	return filepath.Join(root, "tmp")
}

var debianURI = regexp.MustCompile(`(?m)^(?:URIs:|deb)\s+(?:\[.*\]\s+)?(\S+/debian)/?(?:\s|$)`)

// debianMirror is the mirror that this system installs from, "" for debootstrap's default.
func debianMirror() string {
	lists, _ := filepath.Glob("/etc/apt/sources.list.d/*")
	for _, list := range append(lists, "/etc/apt/sources.list") {
		text, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		if mirror := mirrorIn(text); mirror != "" {
			return mirror
		}
	}
	return ""
}

func mirrorIn(sources []byte) string {
	if m := debianURI.FindSubmatch(sources); m != nil {
		return string(m[1])
	}
	return ""
}
