package boundedyaml_test

import (
	"fmt"
	"testing"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

func TestDocuments(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                nil,
		"a: 1":                            {"a: 1"},
		"---\na: 1\n---  \r\nb: 2\n---\n": {"a: 1\n", "b: 2\n"},
		"a: |\n  ---\n---b: 2\n--- # c\n": {"a: |\n  ---\n---b: 2\n--- # c\n"},
		"a: 1\n\n---\n \n---\nb: 2":       {"a: 1\n\n", "b: 2"},
	} {
		if got := boundedyaml.Documents([]byte(text)); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
