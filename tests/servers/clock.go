package servers

import (
	"context"
	"fmt"
	"time"
)

// fakeClock is the environment of a process whose wall clock is off.
func fakeClock(ctx context.Context, offset time.Duration) (env []string, err error) {
	path, err := program(ctx, func() (string, error) {
		return find("libfaketimeMT.so.1", "/usr/lib/*/faketime/libfaketimeMT.so.1")
	}, "libfaketime")
	if err != nil {
		return nil, err
	}
	return []string{
		"LD_PRELOAD=" + path,
		fmt.Sprintf("FAKETIME=%+d", int64(offset.Seconds())),
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
	}, nil
}
