package nftables_test

import (
	"flag"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/networkpolicy"
	"github.com/keelson-dev/keelson/networkpolicy/internal/random"
	"github.com/keelson-dev/keelson/networkpolicy/policytest"
)

// Flags that make packets sets.
var (
	sets     = flag.Int("sets", 30, "how many random sets of policies to try with packets")
	fromSeed = flag.Uint64("seed", 1, "of the first set")
)

// cluster is a random one about the pods of the network. Those on the bridge are on another node than the rest.
func (n *network) cluster(s random.Source) networkpolicy.Cluster {
	var c networkpolicy.Cluster
	for _, name := range random.Namespaces() {
		c.Namespaces = append(c.Namespaces, s.Namespace(name))
	}
	var addresses []netip.Addr
	for i, at := range n.sites {
		addresses = append(addresses, at.v4, at.v6)
		if at.name == "outside" {
			continue
		}
		node := "here"
		if i > bridged {
			node = "there"
		}
		c.Pods = append(c.Pods, s.Pod(random.Namespaces()[s.IntN(3)], at.name, node, at.v4, at.v6))
	}
	c.Policies = s.Policies(8, addresses)
	return c
}

// packets are all between the sites.
func (n *network) packets() (all []networkpolicy.Packet) {
	for _, from := range n.sites {
		for _, to := range n.sites {
			for _, port := range append(random.Ports(), 8500) {
				for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
					all = append(all, networkpolicy.Packet{From: from.v4, To: netip.AddrPortFrom(to.v4, port), Protocol: protocol},
						networkpolicy.Packet{From: from.v6, To: netip.AddrPortFrom(to.v6, port), Protocol: protocol})
				}
			}
		}
	}
	return all
}

// expect compares what becomes of all packets with what the tables say, and returns how many there were and passed.
func (n *network) expect(t *testing.T, tables *networkpolicy.Tables) (sent, passed int) {
	t.Helper()
	all := n.packets()
	for _, p := range all {
		if tables.Decide(p).Allowed() {
			passed++
		}
	}
	for i, arrived := range n.pass(t, all, passed) {
		if d := tables.Decide(all[i]); arrived != d.Allowed() {
			t.Errorf("%s to %s/%s: arrived %v, but %v", all[i].From, all[i].To, all[i].Protocol, arrived, d)
		}
	}
	return len(all), passed
}

// Packets of three protocols and both families, between pods on a bridge, pods of another node and the outside: who
// reaches whom equals the model, for random policies that replace each other.
func TestRandomPolicies(t *testing.T) {
	n := newNetwork(t, bridged+2)
	w := n.writer(t)
	count := *sets
	if testing.Short() {
		count = min(count, 3)
	}
	var before networkpolicy.Tables
	sent, passed := 0, 0
	for i := range count {
		seed := *fromSeed + uint64(i) //nolint:gosec // a count
		s := random.New(seed)
		c := n.cluster(s)
		var local func(string) bool
		if s.IntN(3) > 0 {
			local = func(node string) bool { return node == "here" }
		}
		tables, err := networkpolicy.Compile(c, local)
		if err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			err = w.Sync(t.Context(), tables)
		} else {
			err = w.Update(t.Context(), policytest.Diff(before, tables))
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		more, of := n.expect(t, &tables)
		sent, passed = sent+more, passed+of
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		before = tables
	}
	t.Logf("%d sets, %d packets, of which %d passed", count, sent, passed)
}
