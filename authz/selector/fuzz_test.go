package selector_test

import (
	"testing"

	"github.com/keelson-dev/keelson/authz/selector"
)

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "a=b", "a!=b,c==d", "a in (b,c)", "!x", "a notin ()", "x gt 1", `a=\,`, ",", "a==", "="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if terms, err := selector.ParseFields(raw); err != nil && terms != nil {
			t.Errorf("fields %q: %v beside %v", raw, terms, err)
		}
		terms, err := selector.ParseLabels(raw)
		if err != nil && terms != nil {
			t.Errorf("labels %q: %v beside %v", raw, terms, err)
		}
		for _, term := range terms {
			if term.Key == "" || term.Operator == "" {
				t.Errorf("labels %q: term %+v", raw, term)
			}
		}
	})
}
