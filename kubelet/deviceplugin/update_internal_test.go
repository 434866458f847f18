package deviceplugin

import (
	"testing"

	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// What a plugin lists after another has taken its place, or its resource is forgotten, changes nothing.
func TestLateList(t *testing.T) {
	p, err := New(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	of := func(socket string) *plugin { return &plugin{resource: "example.com/device", socket: socket} }
	list := []*devices.Device{{ID: "a", Health: devices.Healthy}}
	p.update(of("gone.sock"), list)
	current := of("a.sock")
	p.resources[current.resource] = &source{plugins: map[string]*plugin{current.socket: current}, current: current}
	for _, late := range []*plugin{of("gone.sock"), of(current.socket)} {
		p.update(late, list)
		if s := p.resources[current.resource]; s.listed || len(s.devices) > 0 || p.takeChanged() {
			t.Errorf("the list of %s counts: %v", late.socket, s.devices)
		}
	}
	p.update(current, list)
	if s := p.resources[current.resource]; !s.listed || len(s.devices) != 1 || !p.takeChanged() {
		t.Errorf("the current plugin's list does not count: %v", s.devices)
	}
}
