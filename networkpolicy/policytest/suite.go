// Package policytest has the suite that every networkpolicy.Writer passes.
package policytest

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/networkpolicy"
	"github.com/keelson-dev/keelson/networkpolicy/internal/random"
)

// Subject is a Writer to test, and what becomes of packets where it writes.
type Subject struct {
	Writer networkpolicy.Writer
	// Pass says which packets arrive, or sends them to see. It is given packets of TCP and UDP between addresses of Pods,
	// to the ports 8080, 8081, 9000 and 8500, and how many of them should arrive.
	Pass func(t *testing.T, packets []networkpolicy.Packet, want int) []bool
	// Pods are the addresses of at least three pods. Each has one address of each family that is tested.
	Pods [][]netip.Addr
	// Histories is how many random ones are tried; 3 if it is 0.
	Histories int
}

// Run tests Writers, of which each subtest gets a new one whose tables are empty.
func Run(t *testing.T, subject func(t *testing.T) Subject) {
	for name, test := range map[string]func(*suite){
		"update before sync": (*suite).unsynced,
		"isolation":          (*suite).isolation,
		"peers":              (*suite).peers,
		"blocks":             (*suite).blocks,
		"ports":              (*suite).ports,
		"named ports":        (*suite).named,
		"several policies":   (*suite).several,
		"sync replaces":      (*suite).replaces,
		"intact":             (*suite).intact,
		"histories":          (*suite).histories,
	} {
		t.Run(name, func(t *testing.T) { test(&suite{T: t, Subject: subject(t)}) })
	}
}

// suite runs one test and remembers what should be in effect.
type suite struct {
	*testing.T
	Subject

	model networkpolicy.Tables
}

func named(name string) networkpolicy.Name {
	return networkpolicy.Name{Namespace: "default", Name: name}
}

func (s *suite) sync() {
	s.Helper()
	if err := s.Writer.Sync(s.Context(), s.model.Clone()); err != nil {
		s.Fatal(err)
	}
	s.check()
}

func (s *suite) update(c networkpolicy.Changes) {
	s.Helper()
	s.model.Apply(c)
	if err := s.Writer.Update(s.Context(), c); err != nil {
		s.Fatal(err)
	}
	s.check()
}

// check compares what becomes of packets between all pods with what the model says.
func (s *suite) check() {
	s.Helper()
	var all []networkpolicy.Packet
	var want []bool
	count := 0
	for _, from := range slices.Concat(s.Pods...) {
		for _, to := range slices.Concat(s.Pods...) {
			if from.BitLen() != to.BitLen() {
				continue
			}
			for _, port := range append(random.Ports(), 8500) {
				for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
					p := networkpolicy.Packet{From: from, To: netip.AddrPortFrom(to, port), Protocol: protocol}
					allowed := s.model.Decide(p).Allowed()
					all, want = append(all, p), append(want, allowed)
					if allowed {
						count++
					}
				}
			}
		}
	}
	for i, passed := range s.Pass(s.T, all, count) {
		if passed != want[i] {
			s.Errorf("%s to %s/%s: passed %v, but %v", all[i].From, all[i].To, all[i].Protocol, passed, s.model.Decide(all[i]))
		}
	}
	if s.Failed() {
		s.FailNow()
	}
}

// isolated are the addresses of pods with the policies.
func (s *suite) isolated(i networkpolicy.Isolation, pods ...int) map[netip.Addr]networkpolicy.Isolation {
	all := map[netip.Addr]networkpolicy.Isolation{}
	for _, p := range pods {
		for _, a := range s.Pods[p] {
			all[a] = i
		}
	}
	return all
}

func (s *suite) addresses(pods ...int) (all []netip.Addr) {
	for _, p := range pods {
		all = append(all, s.Pods[p]...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

func ingress(rules ...networkpolicy.Rule) *networkpolicy.Policy {
	return &networkpolicy.Policy{IsolatesIngress: true, Ingress: rules}
}

func by(names ...string) networkpolicy.Isolation {
	var i networkpolicy.Isolation
	for _, n := range names {
		i.Ingress = append(i.Ingress, named(n))
	}
	return i
}

func (s *suite) unsynced() {
	if err := s.Writer.Update(s.Context(), networkpolicy.Changes{Pods: s.isolated(by("a"), 0)}); err == nil {
		s.Error("no error")
	}
	if intact, err := s.Writer.Intact(s.Context()); intact || err != nil {
		s.Errorf("intact: %v, %v", intact, err)
	}
	s.sync()
}

func (s *suite) isolation() {
	s.sync()
	a := networkpolicy.Isolation{Ingress: []networkpolicy.Name{named("a")}}
	s.update(networkpolicy.Changes{Pods: s.isolated(a, 0), Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("a"): ingress()}})
	s.update(networkpolicy.Changes{Pods: s.isolated(a, 1)})
	s.update(networkpolicy.Changes{Pods: s.isolated(networkpolicy.Isolation{}, 0)})
	out := networkpolicy.Isolation{Egress: []networkpolicy.Name{named("a")}}
	both := networkpolicy.Policy{IsolatesIngress: true, IsolatesEgress: true, Egress: []networkpolicy.Rule{{Everyone: true, Ports: []networkpolicy.PortRange{{Protocol: corev1.ProtocolTCP, First: 8080, Last: 8080}}}}}
	s.update(networkpolicy.Changes{Pods: s.isolated(out, 0), Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("a"): &both}})
	s.update(networkpolicy.Changes{Pods: s.isolated(networkpolicy.Isolation{Ingress: a.Ingress, Egress: out.Egress}, 0, 1)})
	s.update(networkpolicy.Changes{Pods: s.isolated(networkpolicy.Isolation{}, 0, 1), Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("a"): nil}})
	s.update(networkpolicy.Changes{Pods: s.isolated(networkpolicy.Isolation{}, 2), Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("unknown"): nil}})
}

func (s *suite) peers() {
	web := networkpolicy.Selection{Namespace: "default", Pods: "app=web"}
	db := networkpolicy.Selection{Namespaces: "a=b"}
	set := func(p *networkpolicy.Policy) networkpolicy.Changes {
		return networkpolicy.Changes{Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("a"): p}}
	}
	members := func(of networkpolicy.Selection, pods ...int) networkpolicy.Changes {
		return networkpolicy.Changes{Selections: map[networkpolicy.Selection][]netip.Addr{of: s.addresses(pods...)}}
	}
	s.model.Apply(networkpolicy.Changes{Pods: s.isolated(by("a"), 0, 1)})
	s.model.Apply(set(ingress(networkpolicy.Rule{Pods: []networkpolicy.Selection{web}, AllPorts: true})))
	s.sync()
	s.update(members(web, 2))
	s.update(members(web, 0, 2))
	s.update(members(web, 0, 1))
	c := set(ingress(networkpolicy.Rule{Pods: []networkpolicy.Selection{db, web}, AllPorts: true}))
	c.Selections = members(db, 2).Selections
	s.update(c)
	s.update(members(web))
	c = set(ingress(networkpolicy.Rule{Pods: []networkpolicy.Selection{db}, AllPorts: true}))
	c.Selections = members(db, 1, 2).Selections
	s.update(c)
	s.update(set(ingress(networkpolicy.Rule{Everyone: true, AllPorts: true})))
	s.update(set(ingress(networkpolicy.Rule{AllPorts: true}))) // of no one
}

// just is the range of an address.
func just(a netip.Addr) networkpolicy.Range { return networkpolicy.Range{First: a, Last: a} }

func (s *suite) blocks() {
	s.model.Apply(networkpolicy.Changes{Pods: s.isolated(by("a"), 0)})
	s.sync()
	zero := func(a netip.Addr) netip.Addr {
		if a.Is4() {
			return netip.IPv4Unspecified()
		}
		return netip.IPv6Unspecified()
	}
	last := func(a netip.Addr) netip.Addr {
		all, _ := netip.AddrFromSlice(slices.Repeat([]byte{255}, a.BitLen()/8))
		return all
	}
	for _, f := range []func(a, b netip.Addr) []networkpolicy.Range{
		func(a, _ netip.Addr) []networkpolicy.Range { return []networkpolicy.Range{just(a)} },
		func(a, b netip.Addr) []networkpolicy.Range { return []networkpolicy.Range{just(a), just(b)} },
		func(a, _ netip.Addr) []networkpolicy.Range {
			return []networkpolicy.Range{{First: zero(a), Last: last(a)}}
		},
		func(a, _ netip.Addr) []networkpolicy.Range {
			return []networkpolicy.Range{{First: zero(a), Last: a.Prev()}, {First: a.Next(), Last: last(a)}}
		},
		func(a, _ netip.Addr) []networkpolicy.Range {
			return []networkpolicy.Range{{First: a.Next(), Last: last(a)}}
		},
		func(netip.Addr, netip.Addr) []networkpolicy.Range { return nil },
	} {
		r := networkpolicy.Rule{AllPorts: true}
		for i := range s.Pods[1] {
			a, b := s.Pods[1][i], s.Pods[2][i]
			if b.Less(a) {
				a, b = b, a
			}
			r.Blocks = append(r.Blocks, f(a, b)...)
		}
		s.update(networkpolicy.Changes{Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("a"): ingress(r)}})
	}
}

func (s *suite) ports() {
	s.model.Apply(networkpolicy.Changes{Pods: s.isolated(by("a"), 0)})
	s.sync()
	tcp, udp := corev1.ProtocolTCP, corev1.ProtocolUDP
	for _, ports := range [][]networkpolicy.PortRange{
		{{Protocol: tcp, First: 8080, Last: 8080}},
		{{Protocol: tcp, First: 8081, Last: 9000}, {Protocol: udp, First: 8080, Last: 8080}},
		{{Protocol: tcp, First: 0, Last: 65535}},
		{{Protocol: tcp, First: 9001, Last: 65535}, {Protocol: udp, First: 0, Last: 65535}},
		{{Protocol: corev1.ProtocolSCTP, First: 1, Last: 65535}},
	} {
		s.update(networkpolicy.Changes{Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("a"): ingress(networkpolicy.Rule{Everyone: true, Ports: ports})}})
	}
}

func (s *suite) named() {
	http := networkpolicy.PortName{Name: "http", Protocol: corev1.ProtocolTCP}
	at := func(ports ...uint16) networkpolicy.Changes {
		var all []netip.AddrPort
		for i, port := range ports {
			for _, a := range s.Pods[i] {
				all = append(all, netip.AddrPortFrom(a, port))
			}
		}
		slices.SortFunc(all, netip.AddrPort.Compare)
		return networkpolicy.Changes{Ports: map[networkpolicy.PortName][]netip.AddrPort{http: all}}
	}
	s.model.Apply(networkpolicy.Changes{
		Pods: s.isolated(networkpolicy.Isolation{Egress: by("a").Ingress}, 0, 1), Policies: map[networkpolicy.Name]*networkpolicy.Policy{
			named("a"): {IsolatesEgress: true, Egress: []networkpolicy.Rule{{
				Everyone: true, Named: []networkpolicy.PortName{http}, Ports: []networkpolicy.PortRange{{Protocol: corev1.ProtocolUDP, First: 8500, Last: 8500}},
			}}},
		},
	})
	s.model.Apply(at(8080, 8081))
	s.sync()
	s.update(at(8081, 8081, 9000))
	s.update(at())
	s.update(at(9000))
	s.update(networkpolicy.Changes{
		Pods: s.isolated(by("b"), 0, 1, 2), Policies: map[networkpolicy.Name]*networkpolicy.Policy{
			named("a"): nil, named("b"): ingress(networkpolicy.Rule{Pods: []networkpolicy.Selection{{Namespace: "x"}}, Named: []networkpolicy.PortName{http}}),
		},
		Selections: map[networkpolicy.Selection][]netip.Addr{{Namespace: "x"}: s.addresses(1)},
	})
	s.update(at(9000, 8080, 8500))
}

func (s *suite) several() {
	open := func(port uint16) networkpolicy.Rule {
		return networkpolicy.Rule{Everyone: true, Ports: []networkpolicy.PortRange{{Protocol: corev1.ProtocolTCP, First: port, Last: port}}}
	}
	s.model.Apply(networkpolicy.Changes{
		Pods:     s.isolated(by("a", "b"), 0),
		Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("a"): ingress(open(8080)), named("b"): ingress(open(8081))},
	})
	s.sync()
	s.update(networkpolicy.Changes{Pods: s.isolated(by("b"), 1), Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("b"): ingress(open(9000), open(8500))}})
	s.update(networkpolicy.Changes{Pods: s.isolated(by("a"), 0)})
	s.update(networkpolicy.Changes{Pods: s.isolated(by("a", "b", "c"), 1, 2), Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("c"): ingress()}})
	s.update(networkpolicy.Changes{Pods: s.isolated(by("c"), 0, 1, 2), Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("a"): nil, named("b"): nil}})
}

func (s *suite) replaces() {
	s.model.Apply(networkpolicy.Changes{Pods: s.isolated(by("a"), 0), Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("a"): ingress()}})
	s.sync()
	s.model = networkpolicy.Tables{}
	s.model.Apply(networkpolicy.Changes{Pods: s.isolated(by("b"), 1), Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("b"): ingress()}})
	s.sync()
	s.update(networkpolicy.Changes{Pods: s.isolated(networkpolicy.Isolation{}, 1), Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("b"): nil}})
	s.model = networkpolicy.Tables{}
	s.sync()
}

func (s *suite) intact() {
	s.sync()
	for i := range 3 {
		if intact, err := s.Writer.Intact(s.Context()); !intact || err != nil {
			s.Errorf("intact: %v, %v", intact, err)
		}
		s.update(networkpolicy.Changes{Pods: s.isolated(by("a"), i), Policies: map[networkpolicy.Name]*networkpolicy.Policy{named("a"): ingress()}})
	}
}

// histories change random clusters at random.
func (s *suite) histories() {
	count := s.Histories
	if count == 0 {
		count = 3
	}
	for seed := range count {
		r := random.New(uint64(seed)) //nolint:gosec // a count
		s.model = s.random(r)
		s.sync()
		for range 5 {
			before, after := s.model.Clone(), s.random(r)
			s.update(Diff(before, after))
		}
	}
}

// random is what follows from random objects about the pods.
func (s *suite) random(r random.Source) networkpolicy.Tables {
	var c networkpolicy.Cluster
	for _, n := range random.Namespaces() {
		c.Namespaces = append(c.Namespaces, r.Namespace(n))
	}
	for i, addresses := range s.Pods {
		all := random.Namespaces()
		c.Pods = append(c.Pods, r.Pod(all[i%len(all)], fmt.Sprintf("pod-%d", i), "node", addresses...))
	}
	c.Policies = r.Policies(6, s.addresses(0, 1, 2))
	tables, err := networkpolicy.Compile(c, nil)
	if err != nil {
		s.Fatal(err)
	}
	return tables
}

// Diff is what makes one of the tables of the other.
func Diff(from, to networkpolicy.Tables) networkpolicy.Changes {
	c := networkpolicy.Changes{
		Pods: differences(from.Pods, to.Pods), Selections: differences(from.Selections, to.Selections), Ports: differences(from.Ports, to.Ports),
		Policies: map[networkpolicy.Name]*networkpolicy.Policy{},
	}
	for n := range differences(from.Policies, to.Policies) {
		c.Policies[n] = nil
		if p, ok := to.Policies[n]; ok {
			c.Policies[n] = &p
		}
	}
	return c
}

func differences[K comparable, V any](from, to map[K]V) map[K]V {
	all := maps.Clone(to)
	if all == nil {
		all = map[K]V{}
	}
	var zero V
	for k, v := range from {
		if now, ok := to[k]; !ok {
			all[k] = zero
		} else if reflect.DeepEqual(v, now) {
			delete(all, k)
		}
	}
	return all
}
