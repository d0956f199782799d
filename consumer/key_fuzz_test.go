package consumer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/firsttime-go/firsttime/consumer"
	"github.com/firsttime-go/firsttime/store"
)

// Fields are divided by NULs here. Whatever they are, they can be read from what Join made of them, so that
// different fields make different keys.
func FuzzJoin(f *testing.F) {
	f.Fuzz(func(t *testing.T, one, other string) {
		a, b := strings.Split(one, "\x00"), strings.Split(other, "\x00")
		joined, hashed := consumer.Join(a...), consumer.Hash(a...)
		if slices.Contains(a, "") {
			if joined != "" || hashed != "" {
				t.Errorf("%q: Join %q and Hash %q of a missing field", a, joined, hashed)
			}
			return
		}
		if back := split(joined); !slices.Equal(back, a) {
			t.Errorf("Join made %q of %q, which reads %q", joined, a, back)
		}
		if err := store.ValidateKey(hashed); err != nil || len(hashed) != 64 {
			t.Errorf("Hash made %q of %q: %v", hashed, a, err)
		}
		if same := slices.Equal(a, b); same != (joined == consumer.Join(b...)) || same != (hashed == consumer.Hash(b...)) {
			t.Errorf("the keys of %q and %q are the same, or those of the same fields are not", a, b)
		}
	})
}

// split undoes Join.
func split(key string) []string {
	fields, escaped := []string{""}, false
	for _, c := range []byte(key) {
		last := len(fields) - 1
		switch {
		case !escaped && c == '\\':
			escaped = true
			continue
		case !escaped && c == '/':
			fields = append(fields, "")
		default:
			fields[last] += string([]byte{c})
		}
		escaped = false
	}
	return fields
}
