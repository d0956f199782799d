package faults

import (
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/tests/servers"
)

// A disk is full for a while. Errors are answered, what was committed stays, and afterwards the work goes on. A
// server that gives up, as PostgreSQL does when it cannot write its log, is started again when there is room.
func TestNothingIsLostOrDoubledWhenTheDiskIsFull(t *testing.T) {
	if !*long {
		t.Skip("in short: it needs root and a server on a disk of its own")
	}
	const fault = "disk full for a while"
	for _, c := range []struct {
		database
		size  int64
		signs []string // errors by which it is seen that the disk was full
	}{
		{sqliteDB, 128 << 20, []string{"13"}},
		{postgresDB, 256 << 20, []string{"53100"}},
		{mariaDB, 512 << 20, []string{"1114", "1021"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			prove(t, fault, c.name, func(t *testing.T) outcome {
				s, disk := smallSite(t, c.database, c.size)
				s.charge = charging(60_000, 2*time.Millisecond) // more than servers keep ready
				l := startLoad(t, s)
				met := func() (n int) {
					for _, sign := range c.signs {
						n += l.seen.of(sign)
					}
					return n
				}
				crashes := 0
				l.disturb(strikes(), func() {
					former := met()
					if err := disk.Fill(); err != nil {
						t.Fatal(err)
					}
					for end := time.Now().Add(20 * time.Second); met() == former && s.runs() && l.broker.open() && time.Now().Before(end); {
						time.Sleep(10 * time.Millisecond)
					}
					time.Sleep(short)
					if err := disk.Free(); err != nil {
						t.Fatal(err)
					}
					if !s.runs() {
						crashes++
						if err := s.server.Restart(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				})
				o := l.finish()
				o.figures = map[string]int{"strikes": strikes(), "errors": met(), "crashes": crashes}
				if met() == 0 && crashes == 0 {
					t.Errorf("no server crashed, and no consumer met one of the errors %v: this showed less than it claims", c.signs)
				}
				return o
			})
		})
	}
}

// smallSite makes a site on a small disk.
func smallSite(t *testing.T, d database, size int64) (*site, *servers.Disk) {
	t.Helper()
	if d.server != "" {
		server, disk, err := servers.StartOnDisk(t.Context(), d.server, size)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Kill() }) // it may have ended by itself
		return newSite(t, d, server), disk
	}
	dir := t.TempDir()
	disk, err := servers.NewDisk(dir, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	return fileSite(t, dir), disk
}

// runs reports whether the site's server, if it has one, runs.
func (s *site) runs() bool { return s.server == nil || s.server.Running() }
