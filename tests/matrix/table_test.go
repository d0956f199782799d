package main

import (
	"io"
	"strings"
	"testing"
)

// What go test -json tells of one test with a row, its two subtests, and one without.
const events = `
{"Action":"run","Test":"TestConformance"}
{"Action":"run","Test":"TestConformance/PostgreSQL"}
{"Action":"attr","Test":"TestConformance/PostgreSQL","Key":"database","Value":"PostgreSQL 18.6"}
{"Action":"attr","Test":"TestConformance/PostgreSQL","Key":"driver","Value":"github.com/lib/pq"}
{"Action":"run","Test":"TestConformance/PostgreSQL/ForgetLetsARetryRun"}
{"Action":"run","Test":"TestConformance/PostgreSQL/ConfirmTwiceSucceedsTwice"}
{"Action":"pass","Test":"TestConformance/PostgreSQL/ForgetLetsARetryRun"}
{"Action":"skip","Test":"TestConformance/PostgreSQL/ConfirmTwiceSucceedsTwice"}
{"Action":"pass","Test":"TestConformance/PostgreSQL"}
{"Action":"pass","Test":"TestConformance"}
`

func TestAVersionThatWasNotTestedIsMissed(t *testing.T) {
	var have table
	if err := have.read(strings.NewReader(events), io.Discard); err != nil {
		t.Fatal(err)
	}
	if c := have.rows[row{"PostgreSQL 18.6", pq}]; len(have.rows) != 1 || *c != (counts{passed: 1, skipped: 1}) {
		t.Fatalf("rows %v, want one with the two subtests", have.rows)
	}
	for want, complaint := range map[row]string{
		{"PostgreSQL 18", pq}:  "1 tests were skipped on PostgreSQL 18 with github.com/lib/pq",
		{"PostgreSQL 18", pgx}: "no test has passed on PostgreSQL 18 with github.com/jackc/pgx/v5/stdlib",
		{"PostgreSQL 1", pq}:   "no test has passed on PostgreSQL 1 with github.com/lib/pq",
	} {
		if err := have.lacks([]row{want}); err == nil || err.Error() != complaint {
			t.Errorf("%v: %v, want %q", want, err, complaint)
		}
	}
	have.rows[row{"PostgreSQL 18.6", pq}].skipped = 0
	if err := have.lacks([]row{{"PostgreSQL 18", pq}}); err != nil {
		t.Errorf("%v, want nothing missing", err)
	}
}
