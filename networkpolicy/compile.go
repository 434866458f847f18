package networkpolicy

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Cluster has the objects that decide on connections.
type Cluster struct {
	// Policies, Namespaces and Pods are all of the cluster.
	Policies   []*networkingv1.NetworkPolicy
	Namespaces []*corev1.Namespace
	Pods       []*corev1.Pod
}

// Compile returns the tables for the pods of the nodes that local names, or of all nodes if local is nil. The error says
// what of the policies could not be read; see Of.
func Compile(c Cluster, local func(node string) bool) (Tables, error) {
	a := newAssembly(local)
	for _, n := range c.Namespaces {
		a.putNamespace(n.Name, n.Labels)
	}
	for _, pod := range c.Pods {
		if p, ok := PodOf(pod); ok {
			a.putPod(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, &p)
		}
	}
	var errs []error
	for _, policy := range c.Policies {
		p, err := Of(policy)
		if err != nil {
			errs = append(errs, fmt.Errorf("network policy %s/%s: %w", policy.Namespace, policy.Name, err))
		}
		a.putPolicy(Name{Namespace: policy.Namespace, Name: policy.Name}, &p)
	}
	return a.tables, errors.Join(errs...)
}

// assembly keeps tables in step with the objects of a cluster. Each change costs what it affects, and a look at the
// policies of the pod's namespace and at the selections in use.
type assembly struct {
	local      func(node string) bool
	namespaces map[string]map[string]string
	pods       map[string]map[types.NamespacedName]Pod // by namespace
	at         map[netip.Addr][]types.NamespacedName   // who has the address
	policies   map[string]map[Name]subject             // by namespace
	active     map[Name]int                            // how many addresses the policy isolates
	selections map[Selection]*member
	ports      map[PortName]int // how many rules use it
	tables     Tables
	changes    Changes
}

// subject is a policy, and the pods it is for.
type subject struct {
	policy Policy
	pods   matcher
}

// member is a selection in use.
type member struct {
	matcher

	uses int // by rules of active policies
}

func newAssembly(local func(node string) bool) *assembly {
	a := &assembly{
		local: local, namespaces: map[string]map[string]string{}, pods: map[string]map[types.NamespacedName]Pod{}, at: map[netip.Addr][]types.NamespacedName{},
		policies: map[string]map[Name]subject{}, active: map[Name]int{}, selections: map[Selection]*member{}, ports: map[PortName]int{},
	}
	a.tables.Apply(Changes{})
	a.take()
	return a
}

// take returns what has changed since the last call.
func (a *assembly) take() Changes {
	had := a.changes
	a.changes = Changes{
		Pods: map[netip.Addr]Isolation{}, Policies: map[Name]*Policy{}, Selections: map[Selection][]netip.Addr{}, Ports: map[PortName][]netip.AddrPort{},
	}
	return had
}

// putNamespace sets the labels of a namespace, or nil if it is gone.
func (a *assembly) putNamespace(name string, labels map[string]string) {
	if maps.Equal(a.namespaces[name], labels) {
		return
	}
	a.namespaces[name] = labels
	if labels == nil {
		delete(a.namespaces, name)
	}
	for _, p := range a.pods[name] {
		a.refresh(p.Addresses)
	}
}

// putPod sets a pod, or nil if there is none that policies see.
func (a *assembly) putPod(key types.NamespacedName, p *Pod) {
	had, existed := a.pods[key.Namespace][key]
	if existed == (p != nil) && (p == nil || samePod(&had, p)) {
		return
	}
	touched := slices.Clone(had.Addresses)
	for _, ip := range had.Addresses {
		if a.at[ip] = slices.DeleteFunc(a.at[ip], func(k types.NamespacedName) bool { return k == key }); len(a.at[ip]) == 0 {
			delete(a.at, ip)
		}
	}
	delete(a.pods[key.Namespace], key)
	if len(a.pods[key.Namespace]) == 0 {
		delete(a.pods, key.Namespace)
	}
	if p != nil {
		if a.pods[key.Namespace] == nil {
			a.pods[key.Namespace] = map[types.NamespacedName]Pod{}
		}
		a.pods[key.Namespace][key] = *p
		for _, ip := range p.Addresses {
			a.at[ip] = append(a.at[ip], key)
			touched = append(touched, ip)
		}
	}
	a.refresh(touched)
	a.refreshPorts(&had, p)
}

func samePod(x, y *Pod) bool {
	return x.Node == y.Node && maps.Equal(x.Labels, y.Labels) && slices.Equal(x.Addresses, y.Addresses) && slices.Equal(x.Ports, y.Ports)
}

// refresh decides again what concerns addresses.
func (a *assembly) refresh(addresses []netip.Addr) {
	for _, ip := range addresses {
		a.isolate(ip)
		for s, m := range a.selections {
			a.setMember(s, ip, a.selected(m, ip))
		}
	}
}

// selected reports whether one of those who have the address is.
func (a *assembly) selected(m *member, ip netip.Addr) bool {
	return slices.ContainsFunc(a.at[ip], func(k types.NamespacedName) bool {
		p := a.pods[k.Namespace][k]
		return m.has(&p, a.namespaces[p.Namespace])
	})
}

func (a *assembly) setMember(s Selection, ip netip.Addr, is bool) {
	if with, changed := toggled(a.tables.Selections[s], ip, netip.Addr.Compare, is); changed {
		put(a.tables.Selections, s, with)
		a.changes.Selections[s] = with
	}
}

// toggled returns a copy of a sorted slice with or without the value.
func toggled[T any](all []T, one T, compare func(T, T) int, has bool) ([]T, bool) {
	at, had := slices.BinarySearchFunc(all, one, compare)
	switch {
	case had == has:
		return all, false
	case has:
		return slices.Insert(slices.Clone(all), at, one), true
	}
	return slices.Delete(slices.Clone(all), at, at+1), true
}

// isolate decides again which policies isolate an address.
func (a *assembly) isolate(ip netip.Addr) {
	var now Isolation
	for _, k := range a.at[ip] {
		p := a.pods[k.Namespace][k]
		if a.local != nil && !a.local(p.Node) {
			continue
		}
		for n, s := range a.policies[p.Namespace] {
			if !s.pods.has(&p, a.namespaces[p.Namespace]) {
				continue
			}
			if s.policy.IsolatesIngress {
				now.Ingress = append(now.Ingress, n)
			}
			if s.policy.IsolatesEgress {
				now.Egress = append(now.Egress, n)
			}
		}
	}
	now.Ingress, now.Egress = ordered(now.Ingress), ordered(now.Egress)
	was := a.tables.Pods[ip]
	if was.equal(now) {
		return
	}
	for _, n := range ordered(slices.Concat(now.Ingress, now.Egress)) {
		a.use(n, 1)
	}
	for _, n := range ordered(slices.Concat(was.Ingress, was.Egress)) {
		a.use(n, -1)
	}
	a.tables.Apply(Changes{Pods: map[netip.Addr]Isolation{ip: now}})
	a.changes.Pods[ip] = now
}

func ordered(names []Name) []Name {
	slices.SortFunc(names, CompareNames)
	return slices.Compact(names)
}

// use counts the addresses that a policy isolates. Only policies that isolate any are in the tables.
func (a *assembly) use(n Name, by int) {
	before := a.active[n]
	a.active[n] += by
	switch {
	case before == 0:
		policy := a.policies[n.Namespace][n].policy
		a.tables.Policies[n] = policy
		a.changes.Policies[n] = &policy
		a.useRules(&policy, 1)
	case a.active[n] == 0:
		policy := a.tables.Policies[n]
		delete(a.active, n)
		delete(a.tables.Policies, n)
		a.changes.Policies[n] = nil
		a.useRules(&policy, -1)
	}
}

// useRules counts what the rules of a policy use.
func (a *assembly) useRules(p *Policy, by int) {
	for _, rules := range [][]Rule{p.Ingress, p.Egress} {
		for _, r := range rules {
			for _, s := range r.Pods {
				a.useSelection(s, by)
			}
			for _, n := range r.Named {
				a.usePorts(n, by)
			}
		}
	}
}

func (a *assembly) useSelection(s Selection, by int) {
	m, known := a.selections[s]
	if !known {
		m = &member{matcher: newMatcher(s)}
		a.selections[s] = m
		all := a.members(&m.matcher)
		put(a.tables.Selections, s, all)
		a.changes.Selections[s] = all
	}
	if m.uses += by; m.uses == 0 {
		delete(a.selections, s)
		delete(a.tables.Selections, s)
		a.changes.Selections[s] = nil
	}
}

// members are the addresses of all that are selected.
func (a *assembly) members(m *matcher) (all []netip.Addr) {
	for namespace, pods := range a.pods {
		if m.namespace != "" && m.namespace != namespace {
			continue
		}
		for _, p := range pods {
			if m.has(&p, a.namespaces[namespace]) {
				all = append(all, p.Addresses...)
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

func (a *assembly) usePorts(n PortName, by int) {
	if a.ports[n] == 0 {
		var all []netip.AddrPort
		for _, pods := range a.pods {
			for _, p := range pods {
				all = append(all, p.at(n)...)
			}
		}
		slices.SortFunc(all, netip.AddrPort.Compare)
		all = slices.Compact(all)
		put(a.tables.Ports, n, all)
		a.changes.Ports[n] = all
	}
	if a.ports[n] += by; a.ports[n] == 0 {
		delete(a.ports, n)
		delete(a.tables.Ports, n)
		a.changes.Ports[n] = nil
	}
}

// at is where the pod has the port.
func (p *Pod) at(n PortName) (all []netip.AddrPort) {
	for _, port := range p.Ports {
		if port.PortName == n {
			for _, ip := range p.Addresses {
				all = append(all, netip.AddrPortFrom(ip, port.Number))
			}
		}
	}
	return all
}

// refreshPorts decides again where named ports are, as a pod was replaced.
func (a *assembly) refreshPorts(had, has *Pod) {
	names := map[PortName]bool{}
	for _, p := range []*Pod{had, has} {
		if p == nil {
			continue
		}
		for _, port := range p.Ports {
			names[port.PortName] = a.ports[port.PortName] > 0
		}
	}
	for n, used := range names {
		if !used {
			continue
		}
		touched := had.at(n)
		if has != nil {
			touched = append(touched, has.at(n)...)
		}
		for _, to := range touched {
			is := slices.ContainsFunc(a.at[to.Addr()], func(k types.NamespacedName) bool {
				p := a.pods[k.Namespace][k]
				return slices.Contains(p.at(n), to)
			})
			if with, changed := toggled(a.tables.Ports[n], to, netip.AddrPort.Compare, is); changed {
				put(a.tables.Ports, n, with)
				a.changes.Ports[n] = with
			}
		}
	}
}

// putPolicy sets a policy, or nil if it is gone.
func (a *assembly) putPolicy(n Name, p *Policy) {
	had, existed := a.policies[n.Namespace][n]
	if existed == (p != nil) && (p == nil || reflect.DeepEqual(had.policy, *p)) {
		return
	}
	delete(a.policies[n.Namespace], n)
	if existed {
		a.isolateAll(n.Namespace, &had.pods)
	}
	if p == nil {
		if len(a.policies[n.Namespace]) == 0 {
			delete(a.policies, n.Namespace)
		}
		return
	}
	if a.policies[n.Namespace] == nil {
		a.policies[n.Namespace] = map[Name]subject{}
	}
	now := subject{*p, newMatcher(p.Pods)}
	a.policies[n.Namespace][n] = now
	a.isolateAll(n.Namespace, &now.pods)
}

// isolateAll decides again on the pods that a policy is or was for.
func (a *assembly) isolateAll(namespace string, m *matcher) {
	for _, p := range a.pods[namespace] {
		if m.has(&p, a.namespaces[namespace]) {
			for _, ip := range p.Addresses {
				a.isolate(ip)
			}
		}
	}
}
