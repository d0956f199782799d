package consumer_test

import (
	"strings"
	"testing"

	"github.com/firsttime-go/firsttime/consumer"
)

func TestJoinKeepsDifferentFieldsApart(t *testing.T) {
	seen := map[string][]string{}
	parts := []string{"a", "b", "a/b", `a\`, `a\/b`, `\`, "/", "//", `\/`}
	for _, fields := range append(pairs(parts), []string{"a", "b", "c"}, []string{"a/b"}, []string{"a"}) {
		key := consumer.Join(fields...)
		if other := seen[key]; other != nil {
			t.Errorf("%q and %q make the same key %q", other, fields, key)
		}
		seen[key] = fields
	}
	if got := consumer.Join("eu", "4711"); got != "eu/4711" {
		t.Errorf("%q", got)
	}
}

func pairs(parts []string) (all [][]string) {
	for _, a := range parts {
		for _, b := range parts {
			all = append(all, []string{a, b})
		}
	}
	return all
}

func TestAMissingFieldIsAMissingKey(t *testing.T) {
	for _, fields := range [][]string{{}, {""}, {"a", ""}, {"", "a"}} {
		if key := consumer.Join(fields...); key != "" {
			t.Errorf("Join(%q) = %q", fields, key)
		}
		if key := consumer.Hash(fields...); key != "" {
			t.Errorf("Hash(%q) = %q", fields, key)
		}
	}
	none := func(order) string { return "" }
	if consumer.Prefixed("p:", none)(order{}) != "" || consumer.Hashed(none)(order{}) != "" {
		t.Error("a key was made of nothing")
	}
}

func TestHashMakesShortKeysOfLongOnes(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	key := consumer.Hashed(consumer.MessageID[order])(order{long})
	if len(key) != 64 || key != consumer.Hash(long) || key == consumer.Hash(long+"x") {
		t.Errorf("key %q", key)
	}
	if consumer.Hash("ab", "c") == consumer.Hash("a", "bc") {
		t.Error("different fields make the same key")
	}
	if key := consumer.Prefixed("refund:", consumer.MessageID[order])(order{"1"}); key != "refund:1" {
		t.Errorf("key %q", key)
	}
}
