//go:build !linux

package sqlite

import "errors"

// networkFileSystem is known on Linux alone.
func networkFileSystem(string) (string, error) {
	return "", errors.New("not known on this system")
}
