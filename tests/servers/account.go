package servers

import (
	"os"
	"os/user"
	"strconv"
)

// account is another user to run a server as: PostgreSQL and MariaDB refuse root.
type account struct{ uid, gid uint32 }

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
	return &account{uint32(uid), uint32(gid)}, err
}

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
