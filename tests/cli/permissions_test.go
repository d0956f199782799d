//go:build unix

package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const cannotWrite = "the folder must be there, and it and the file writable for this user"

// SQLite keeps two more files beside the database: the folder must be writable, too.
func TestAFileThatCannotBeWrittenIsTold(t *testing.T) {
	t.Parallel()
	nothing := []refusal{
		{"doctor", 1, cannotWrite}, {"stats", 1, cannotWrite}, {"show old", 1, cannotWrite}, {"confirm --create new", 1, cannotWrite},
		{"purge", 1, cannotWrite}, {"exec --key new -- echo charged", 1, cannotWrite},
	}
	reading := []refusal{
		{"doctor", 3, "make the file and its folder writable"}, {"stats", 0, "default"}, {"show old", 0, "confirmed"},
		{"confirm --create new", 1, cannotWrite}, {"purge", 1, cannotWrite}, {"exec --key new -- echo charged", 1, cannotWrite},
	}
	for name, test := range map[string]struct {
		folder, file os.FileMode
		commands     []refusal
	}{
		"neither":    {0o555, 0o444, nothing},
		"folder":     {0o555, 0o666, nothing},
		"file":       {0o777, 0o444, reading},
		"unreadable": {0o777, 0, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, err := os.MkdirTemp("", "firsttime-cli-") // whom t.TempDir lets in, it lets write
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(folder, "keys.db")
			t.Cleanup(func() {
				_ = os.Chmod(folder, 0o700)
				os.RemoveAll(folder)
			})
			mustRun(t, "sqlite:"+file, "migrate", "up")
			mustRun(t, "sqlite:"+file, "confirm", "--create", "old")
			if err := errors.Join(os.Chmod(file, test.file), os.Chmod(folder, test.folder)); err != nil {
				t.Fatal(err)
			}
			for _, r := range test.commands {
				cmd := command(t, "sqlite:"+file, strings.Fields(r.line)...)
				if os.Getuid() == 0 { // whom no mode binds
					cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
				}
				r.check(t, cmd)
			}
		})
	}
}
