package selector_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/selector"
	"github.com/keelson-dev/keelson/internal/depcheck"
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

func TestClosure(t *testing.T) {
	depcheck.AtMost(t, "authz/selector", 60)
	depcheck.Siblings(t, "authz/selector", "authn", "authz")
}

func ExampleParseFields() {
	terms, err := selector.ParseFields("spec.nodeName=node-1")
	fmt.Println(terms, err)
	// Output: [{spec.nodeName = [node-1]}] <nil>
}
