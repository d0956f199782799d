package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Disk is a small file system in memory that can be filled up.
type Disk struct{ dir string }

// NewDisk makes a disk of so many bytes at dir, which must be empty. It needs root.
func NewDisk(dir string, size int64) (*Disk, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("run the tests as root: only root can make a small disk")
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", size)); err != nil {
		return nil, fmt.Errorf("a small disk at %s: %w", dir, err)
	}
	return &Disk{dir}, nil
}

func (d *Disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// Fill leaves less than a block free.
func (d *Disk) Fill() error {
	f, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(block)
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// Free undoes Fill.
func (d *Disk) Free() error { return os.Remove(d.ballast()) }

// Close removes the disk and what is on it, even if it is in use.
func (d *Disk) Close() error { return syscall.Unmount(d.dir, syscall.MNT_DETACH) }

// StartOnDisk is Start with a server that has all its files on a disk of so many bytes.
func StartOnDisk(ctx context.Context, kind Kind, size int64) (*Server, *Disk, error) {
	e := kind.engine()
	var home string
	if e.home != nil {
		var err error
		if home, err = e.home(ctx); err != nil {
			return nil, nil, fmt.Errorf("install %s (%s): %w", kind, e.install, err)
		}
	}
	dir, err := os.MkdirTemp(home, "firsttime-disk-")
	if err != nil {
		return nil, nil, err
	}
	disk, err := NewDisk(dir, size)
	if err != nil {
		return nil, nil, errors.Join(err, os.Remove(dir))
	}
	remove := func() {
		_ = disk.Close()
		_ = os.Remove(dir)
	}
	e.home = func(context.Context) (string, error) { return dir, nil }
	s, err := startPrivate(ctx, kind, e, nil)
	if err != nil {
		remove()
		return nil, nil, err
	}
	s.private.command.release = remove
	return s, disk, nil
}
