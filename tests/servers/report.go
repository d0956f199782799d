package servers

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

var reported sync.Map // what this process has written, as path and line

// Report appends a server to the file that FIRSTTIME_TEST_REPORT names, once for each process, so that a run
// can show what it really ran against. This package does so for the servers it brings.
func Report(version, origin string) error {
	path := os.Getenv("FIRSTTIME_TEST_REPORT")
	if path == "" {
		return nil
	}
	line := fmt.Sprintf("%s (%s)\n", version, origin)
	if _, again := reported.LoadOrStore([2]string{path, line}, true); again {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line) // one write, so that processes do not mix their lines
	return errors.Join(err, f.Close())
}
