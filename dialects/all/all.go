// Package all picks a dialect by the name that stands in a program's configuration. It imports every
// adapter; a program that always uses the same database names that adapter instead.
package all

import (
	"fmt"
	"strings"

	"github.com/firsttime-go/firsttime/dialects"
	"github.com/firsttime-go/firsttime/dialects/mysql"
	"github.com/firsttime-go/firsttime/dialects/postgres"
	"github.com/firsttime-go/firsttime/dialects/sqlite"
)

// Dialects lists every dialect, in the order of their names.
func Dialects() []dialects.Dialect {
	return []dialects.Dialect{mysql.Dialect, postgres.Dialect, sqlite.Dialect}
}

// ByName returns the dialect called name, in whatever case: "mysql" (or "mariadb"), "postgres" (or
// "postgresql") or "sqlite". The error for any other name lists the known ones.
func ByName(name string) (dialects.Dialect, error) {
	switch strings.ToLower(name) {
	case "mysql", "mariadb":
		return mysql.Dialect, nil
	case "postgres", "postgresql":
		return postgres.Dialect, nil
	case "sqlite":
		return sqlite.Dialect, nil
	}
	known := make([]string, 0, 3)
	for _, d := range Dialects() {
		known = append(known, d.Name())
	}
	return nil, fmt.Errorf("unknown dialect %q: choose one of %s", name, strings.Join(known, ", "))
}
