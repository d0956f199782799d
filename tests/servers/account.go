package servers

import (
	"os"
	"os/user"
	"strconv"
	"strings"
)

// account is another user to run a server as: PostgreSQL and MariaDB refuse root.
type account struct {
	uid, gid uint32
	root     string // a directory that the server sees as the whole system; "" for this system
}

// sees is the path by which a server that runs as this account, or as nil, finds what is at path.
func (a *account) sees(path string) string {
	if a == nil {
		return path
	}
	return strings.TrimPrefix(path, a.root)
}

// unprivileged is the account called name if these tests run as root, and otherwise nil: their own.
func unprivileged(name string) (*account, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &account{uid: uint32(uid), gid: uint32(gid)}, err
}

// nobodyIn is the user nobody of a Debian root, whose number is the same in each.
func nobodyIn(root string) *account { return &account{65534, 65534, root} }

// makeDir makes a directory for the account that a server runs as.
func makeDir(path string, as *account) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	if as == nil {
		return nil
	}
	return os.Chown(path, int(as.uid), int(as.gid))
}
