package boundedyaml_test

import (
	"testing"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

func TestLine(t *testing.T) {
	const text = "# a comment\nkind: X\nspec:\n  rules:\n  - verbs: [get]\n    names: &n\n      a: 1\n  - names: *n\n  \"quoted\": {x: 1,\n    y: 2}\n---\nsecond: 1\n"
	for field, want := range map[string]int{
		"":                      2,
		"kind":                  2,
		"spec":                  3,
		"spec.rules":            4,
		"spec.rules[0].verbs":   5,
		"spec.rules[0].names":   6,
		"spec.rules[1]":         8,
		"spec.rules[1].names":   8,
		"spec.rules[1].names.a": 7, // where the alias leads
		"spec.rules[2].names":   4,
		"spec.rules[-1]":        4,
		"spec.rules.x":          4,
		"spec.quoted.y":         10,
		"spec.missing.more":     3,
		"second":                2,
	} {
		if got := boundedyaml.Line([]byte(text), field); got != want {
			t.Errorf("%s: line %d, want %d", field, got, want)
		}
	}
	for _, text := range []string{"", "a: [", "# nothing\n"} {
		if got := boundedyaml.Line([]byte(text), "a"); got != 0 {
			t.Errorf("%q: line %d", text, got)
		}
	}
}
