package authn_test

import (
	"testing"

	"github.com/keelson-dev/keelson/authn"
)

// TestNode: a node is who has both a node's name and the nodes' group.
func TestNode(t *testing.T) {
	for _, c := range []struct {
		name   string
		groups []string
		want   string
		is     bool
	}{
		{"system:node:one", []string{"other", "system:nodes"}, "one", true},
		{"system:node:one", []string{"other"}, "", false},
		{"system:node:one", nil, "", false},
		{"one", []string{"system:nodes"}, "", false},
		{"system:nodeone", []string{"system:nodes"}, "", false},
		{"", []string{"system:nodes"}, "", false},
		{"system:node:", []string{"system:nodes"}, "", true}, // which one is not said
	} {
		if name, is := authn.Node(&authn.Identity{Name: c.name, Groups: c.groups}); name != c.want || is != c.is {
			t.Errorf("%q of %q: %q, %v", c.name, c.groups, name, is)
		}
	}
	if name, is := authn.Node(nil); is || name != "" {
		t.Errorf("nobody: %q, %v", name, is)
	}
}
