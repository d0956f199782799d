package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/firsttime-go/firsttime/dialects"
)

// The numbers are those of linux/magic.h and of the file systems themselves.
func TestFileSystemsOverANetworkAreKnownByTheirNumber(t *testing.T) {
	for number, want := range map[uint32]string{
		0x6969: "NFS", 0xFF534D42: "SMB", 0xFE534D42: "SMB", 0x517B: "SMB", 0x01021997: "9P", 0x00C36400: "Ceph",
		0x47504653: "GPFS", 0x0BD00BD0: "Lustre", 0x5346414F: "AFS",
		0xEF53: "", 0x58465342: "", 0x9123683E: "", 0x01021994: "", 0x794C7630: "", 0x2FC12FC1: "", // ext4, XFS, Btrfs, tmpfs, overlay, ZFS
		0: "", 0xFFFFFFFF: "",
	} {
		if name, err := overNetwork(number); name != want || err != nil {
			t.Errorf("%#x: %q, %v; want %q", number, name, err, want)
		}
	}
	if name, err := overNetwork(0x65735546); name != "" || err == nil {
		t.Errorf("FUSE: %q, %v; want that nobody knows", name, err)
	}
}

// A file on a network is warned of; one of which nobody knows is a note.
func TestCheckWarnsOfAFileOnANetwork(t *testing.T) {
	fuse := func(string) (string, error) { return overNetwork(0x65735546) }
	nfs := func(string) (string, error) { return overNetwork(0x6969) }
	for _, test := range []struct {
		file   string
		system func(file string) (string, error)
		want   dialects.Level
		remedy bool
	}{
		{"/data/keys.db", nfs, dialects.Warning, true},
		{"/data/keys.db", fuse, dialects.Note, false},
		{filepath.Join(t.TempDir(), "keys.db"), networkFileSystem, dialects.Note, false},
		{"/no/such/folder/keys.db", networkFileSystem, dialects.Note, false},
		{"", nfs, dialects.Fault, true}, // in memory
	} {
		var f dialects.Findings
		checkFile(&f, test.file, test.system)
		if len(f) != 1 || f[0].Level != test.want || f[0].Check != "file" || (f[0].Remedy != "") != test.remedy {
			t.Errorf("%q: %+v, want a %v", test.file, f, test.want)
		}
	}
}
