package sqlite

import (
	"errors"
	"path/filepath"
	"syscall"
)

// networkFileSystem names the file system of a file if it is one over a network.
func networkFileSystem(file string) (string, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(file), &stat); err != nil {
		return "", err
	}
	return overNetwork(uint32(stat.Type))
}

// overNetwork names a file system by its number in statfs(2) if it is one over a network.
func overNetwork(kind uint32) (string, error) {
	switch kind {
	case 0x6969:
		return "NFS", nil
	case 0x517B, 0xFF534D42, 0xFE534D42:
		return "SMB", nil
	case 0x01021997:
		return "9P", nil
	case 0x00C36400:
		return "Ceph", nil
	case 0x47504653:
		return "GPFS", nil
	case 0x0BD00BD0:
		return "Lustre", nil
	case 0x5346414F:
		return "AFS", nil
	case 0x65735546:
		return "", errors.New("FUSE, which may lead over a network")
	}
	return "", nil
}
