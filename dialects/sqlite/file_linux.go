package sqlite

import (
	"path/filepath"
	"syscall"
)

// networkFileSystem names the file system of a file if it is one over a network.
func networkFileSystem(file string) (string, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(file), &stat); err != nil {
		return "", err
	}
	// The numbers of statfs(2).
	switch uint32(stat.Type) {
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
	}
	return "", nil
}
