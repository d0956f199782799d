package servers

import (
	"context"
	"fmt"
	"time"
)

// fakeClock is the environment of a process whose wall clock is off.
func fakeClock(ctx context.Context, offset time.Duration) (env []string, err error) {
	const (
		library   = "libfaketimeMT.so.1"
		installed = "/usr/lib/*/faketime"
	)
	path, err := find(library, installed)
	if err != nil {
		if err := install(ctx, "libfaketime"); err != nil {
			return nil, err
		}
		if path, err = find(library, installed); err != nil {
			return nil, err
		}
	}
	return []string{
		"LD_PRELOAD=" + path,
		fmt.Sprintf("FAKETIME=%+d", int64(offset.Seconds())),
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
	}, nil
}
