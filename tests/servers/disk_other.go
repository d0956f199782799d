//go:build !linux

package servers

import (
	"context"
	"errors"
)

// Disk is a small file system that can be filled up, which there is on Linux only.
type Disk struct{}

var errNoDisk = errors.New("run the tests on Linux: there are no small disks elsewhere")

// NewDisk fails.
func NewDisk(string, int64) (*Disk, error) { return nil, errNoDisk }

// Fill fails.
func (*Disk) Fill() error { return errNoDisk }

// Free fails.
func (*Disk) Free() error { return errNoDisk }

// Close fails.
func (*Disk) Close() error { return errNoDisk }

// StartOnDisk fails.
func StartOnDisk(context.Context, Kind, int64) (*Server, *Disk, error) { return nil, nil, errNoDisk }
