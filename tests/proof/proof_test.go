package proof

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheRowsOfAllPackagesMakeOneAlignedTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	t.Setenv(variable, path)
	t.Cleanup(func() { table.rows = nil })
	Add(Row{Fault: "kills", Database: "SQLite", Runs: 1, Effects: 10, Figures: map[string]int{"kills": 2}, Command: "go test ./a"})
	Add(Row{Fault: "kills", Database: "SQLite", Runs: 1, Effects: 10, Doubled: 1, Figures: map[string]int{"kills": 3}, Command: "go test ./a"})
	Add(Row{Fault: "cuts", Database: "MySQL", Runs: 1, Effects: 10, Lost: 2, Command: "go test ./a"})
	if err := Write(); err != nil {
		t.Fatal(err)
	}
	table.rows = nil // as in another process
	Add(Row{Fault: "a very long name of a fault", Database: "PostgreSQL", Runs: 100, Command: "go test ./b"})
	if err := Write(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"| fault                       | database   | runs | effects | lost | doubled | also counted | command       |",
		"|-----------------------------|------------|------|---------|------|---------|--------------|---------------|",
		"| cuts                        | MySQL      | 1    | 10      | 2    | 0       |              | `go test ./a` |",
		"| kills                       | SQLite     | 2    | 20      | 0    | 1       | 5 kills      | `go test ./a` |",
		"| a very long name of a fault | PostgreSQL | 100  | 0       | 0    | 0       |              | `go test ./b` |",
		"",
	}, "\n")
	if string(text) != want {
		t.Errorf("the table is\n%s\nwant\n%s", text, want)
	}
}
