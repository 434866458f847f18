package networkpolicy

import (
	"context"
	"maps"
	"net/netip"
	"slices"
)

// Isolation is what applies to an address of a pod: the policies that isolate it, sorted. Where there are none, everything
// is allowed.
type Isolation struct{ Ingress, Egress []Name }

func (i Isolation) empty() bool { return len(i.Ingress) == 0 && len(i.Egress) == 0 }

func (i Isolation) equal(o Isolation) bool {
	return slices.Equal(i.Ingress, o.Ingress) && slices.Equal(i.Egress, o.Egress)
}

// Tables are all that is enforced for some pods, mostly those of one node. The slices are sorted and must not be changed.
type Tables struct {
	// Pods are the addresses of the pods that are isolated.
	Pods map[netip.Addr]Isolation
	// Policies are those that isolate them.
	Policies map[Name]Policy
	// Selections are the addresses of the pods, on any node, that the rules of the policies select.
	Selections map[Selection][]netip.Addr
	// Ports are where pods have the named ports of the rules.
	Ports map[PortName][]netip.AddrPort
}

// Changes are what differs between Tables: whatever they name has now that value.
type Changes struct {
	// Pods are addresses, with the zero value for one that is not isolated any longer.
	Pods map[netip.Addr]Isolation
	// Policies are nil if they are gone.
	Policies map[Name]*Policy
	// Selections and Ports are empty if they are gone.
	Selections map[Selection][]netip.Addr
	Ports      map[PortName][]netip.AddrPort
}

// Empty reports whether nothing differs.
func (c *Changes) Empty() bool {
	return len(c.Pods) == 0 && len(c.Policies) == 0 && len(c.Selections) == 0 && len(c.Ports) == 0
}

// Apply makes changes to the tables.
func (t *Tables) Apply(c Changes) {
	if t.Pods == nil {
		t.Pods, t.Policies = map[netip.Addr]Isolation{}, map[Name]Policy{}
		t.Selections, t.Ports = map[Selection][]netip.Addr{}, map[PortName][]netip.AddrPort{}
	}
	for a, i := range c.Pods {
		if i.empty() {
			delete(t.Pods, a)
		} else {
			t.Pods[a] = i
		}
	}
	for n, p := range c.Policies {
		if p == nil {
			delete(t.Policies, n)
		} else {
			t.Policies[n] = *p
		}
	}
	for s, addresses := range c.Selections {
		put(t.Selections, s, addresses)
	}
	for n, ports := range c.Ports {
		put(t.Ports, n, ports)
	}
}

func put[K comparable, V any](all map[K][]V, k K, values []V) {
	if len(values) == 0 {
		delete(all, k)
	} else {
		all[k] = values
	}
}

// Clone returns tables that can be changed without changing these.
func (t *Tables) Clone() Tables {
	return Tables{maps.Clone(t.Pods), maps.Clone(t.Policies), maps.Clone(t.Selections), maps.Clone(t.Ports)}
}

// A Writer puts tables into effect. Its methods are not called concurrently. It may keep what it is given, but not change
// it; of Tables, it may keep the slices but not the maps.
type Writer interface {
	// Sync puts these tables into effect, whatever was before, all at once.
	Sync(ctx context.Context, tables Tables) error
	// Update makes these changes, all at once. Before the first Sync it is an error. If it fails, the effect may be the
	// old tables or the new ones; Sync makes that certain.
	Update(ctx context.Context, changes Changes) error
	// Intact reports whether the tables are in effect as written; others may have changed them.
	Intact(ctx context.Context) (bool, error)
}
