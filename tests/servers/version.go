package servers

import (
	"os"
	"strings"
)

// versionWanted is the version that the environment asks for beside a kind's variable, whole or its first
// numbers; "" if any will do.
func versionWanted(variable string) string { return os.Getenv(variable + "_VERSION") }

// isVersion reports whether a version is the one that is wanted.
func isVersion(version, wanted string) bool {
	return wanted == "" || version == wanted || strings.HasPrefix(version, wanted+".")
}
