package selector_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/selector"
)

func show(terms []authz.Requirement) string {
	s := ""
	for _, t := range terms {
		values := slices.Sorted(slices.Values(t.Values))
		s += fmt.Sprintf("%s %s %q; ", t.Key, t.Operator, values)
	}
	return s
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		parse     func(string) ([]authz.Requirement, error)
		raw, want string
		bad       bool
	}{
		{selector.ParseFields, "", "", false},
		{selector.ParseFields, "spec.nodeName=n1,metadata.name!=x", `metadata.name != ["x"]; spec.nodeName = ["n1"]; `, false},
		{selector.ParseFields, "spec.nodeName==n1", `spec.nodeName = ["n1"]; `, false},
		{selector.ParseFields, "nonsense", "", true},
		{selector.ParseLabels, "", "", false},
		{selector.ParseLabels, "app in (b, a),!old,x=y", `app in ["a" "b"]; old ! []; x = ["y"]; `, false},
		{selector.ParseLabels, "(", "", true},
	} {
		got, err := c.parse(c.raw)
		if show(got) != c.want || (err != nil) != c.bad {
			t.Errorf("%q: got %s, %v; want %s", c.raw, show(got), err, c.want)
		}
	}
}

// TestCheckFromTheStart: the first character counts as all others.
func TestCheckFromTheStart(t *testing.T) {
	if err := selector.Check(strings.Repeat(",", selector.MaxTerms-1)); err != nil {
		t.Error(err)
	}
	if err := selector.Check(strings.Repeat(",", selector.MaxTerms)); !errors.Is(err, selector.ErrTooLong) {
		t.Errorf("one more: %v", err)
	}
}

func ExampleParseFields() {
	terms, err := selector.ParseFields("spec.nodeName=node-1")
	fmt.Println(terms, err)
	// Output: [{spec.nodeName = [node-1]}] <nil>
}

// TestCheck: what matching would cost is bounded by the text, before it is parsed.
func TestCheck(t *testing.T) {
	terms := func(n int) string { return strings.TrimSuffix(strings.Repeat("!a,", n), ",") }
	values := func(n int) string { return "a in (" + strings.TrimSuffix(strings.Repeat("b,", n), ",") + ")" }
	for name, c := range map[string]struct {
		raw, want string
	}{
		"none":             {"", ""},
		"most terms":       {terms(selector.MaxTerms), ""},
		"too many terms":   {terms(selector.MaxTerms + 1), "selector is too long: it has 1001 terms, at most 1000 are allowed"},
		"most values":      {values(selector.MaxValues), ""},
		"too many values":  {values(selector.MaxValues + 1), "selector is too long: it has 10001 values, at most 10000 are allowed"},
		"in several terms": {values(selector.MaxValues) + "," + values(1), "selector is too long: it has 10001 values, at most 10000 are allowed"},
		"escaped":          {"a=" + strings.Repeat(`\,`, 2000), ""},
		"ends in the air":  {`a=\`, ""},
	} {
		got := ""
		if err := selector.Check(c.raw); err != nil {
			if got = err.Error(); !errors.Is(err, selector.ErrTooLong) {
				t.Errorf("%s: %v", name, err)
			}
			for _, parse := range []func(string) ([]authz.Requirement, error){selector.ParseFields, selector.ParseLabels} {
				if terms, err := parse(c.raw); !errors.Is(err, selector.ErrTooLong) || terms != nil {
					t.Errorf("%s: parsed: %v", name, err)
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
