package deviceplugin

import (
	"context"
	"testing"
)

// A plugin that leaves before it has listed devices leaves nothing, and nothing of one that is not known.
func TestLeave(t *testing.T) {
	p, err := New(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	one := &plugin{resource: "example.com/device", socket: "a.sock"}
	if err := p.enter(one); err == nil || len(p.resources) != 0 {
		t.Errorf("a plugin is taken by a kubelet that does not run: %v", err)
	}
	p.spawn = func(func(context.Context)) {}
	if p.leave(one) {
		t.Error("a plugin leaves that has never come")
	}
	if err := p.enter(one); err != nil {
		t.Fatal(err)
	}
	if p.leave(&plugin{resource: one.resource, socket: "b.sock"}) {
		t.Error("another plugin of the resource leaves")
	}
	if !p.leave(one) || len(p.resources) != 0 {
		t.Errorf("%v is left", p.resources)
	}
}
