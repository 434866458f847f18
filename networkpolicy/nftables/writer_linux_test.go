package nftables_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/internal/nettest"
	"github.com/keelson-dev/keelson/networkpolicy"
	"github.com/keelson-dev/keelson/networkpolicy/nftables"
	proxytables "github.com/keelson-dev/keelson/proxy"
	proxywriter "github.com/keelson-dev/keelson/proxy/nftables"
)

func policyName(name string) networkpolicy.Name {
	return networkpolicy.Name{Namespace: "default", Name: name}
}

// one are the tables of one policy for pods of the network.
func one(n *network, p networkpolicy.Policy, pods ...string) networkpolicy.Tables {
	var i networkpolicy.Isolation
	if p.IsolatesIngress {
		i.Ingress = []networkpolicy.Name{policyName("a")}
	}
	if p.IsolatesEgress {
		i.Egress = []networkpolicy.Name{policyName("a")}
	}
	t := networkpolicy.Tables{Pods: map[netip.Addr]networkpolicy.Isolation{}, Policies: map[networkpolicy.Name]networkpolicy.Policy{policyName("a"): p}}
	for _, pod := range pods {
		t.Pods[n.site(pod).v4], t.Pods[n.site(pod).v6] = i, i
	}
	return t
}

func deny() networkpolicy.Policy {
	return networkpolicy.Policy{IsolatesIngress: true, IsolatesEgress: true}
}

// allowing only the port, or the range to it.
func allowing(first, last uint16) networkpolicy.Rule {
	return networkpolicy.Rule{Everyone: true, Ports: []networkpolicy.PortRange{{Protocol: corev1.ProtocolTCP, First: first, Last: last}}}
}

func mustSync(t *testing.T, w *nftables.Writer, tables networkpolicy.Tables) {
	t.Helper()
	if err := w.Sync(t.Context(), tables); err != nil {
		t.Fatal(err)
	}
}

// dial connects from a namespace.
func dial(ns, network, to string, patience time.Duration) (c net.Conn, err error) {
	err = netns.Do(ns, func() (err error) {
		c, err = (&net.Dialer{Timeout: patience}).Dial(network, to)
		return err
	})
	return c, err
}

// reaches reports whether a connection to a port of a site is made.
func (n *network) reaches(ns string, to netip.AddrPort, want bool) {
	n.t.Helper()
	wait := 10 * time.Second
	if !want {
		wait = 2 * silence
	}
	c, err := dial(ns, "tcp", to.String(), wait)
	if err == nil {
		_ = c.Close()
	}
	if (err == nil) != want {
		n.t.Errorf("to %s: %v, want %v", to, err, want)
	}
}

// A pod and its node always reach each other, as does a pod itself; so probes work.
func TestOwnNode(t *testing.T) {
	n := newNetwork(t, bridged)
	mustSync(t, n.writer(t), one(n, deny(), "pod-0"))
	nettest.Serve(t, "", "10.64.0.254:7000", "host")
	nettest.Serve(t, "", "192.0.2.1:7000", "host")
	pod := n.site("pod-0")
	for _, to := range []netip.Addr{pod.v4, pod.v6} {
		n.reaches(n.host, netip.AddrPortFrom(to, 8080), true)
		n.reaches(pod.ns, netip.AddrPortFrom(to, 8080), true)
	}
	n.reaches(pod.ns, netip.MustParseAddrPort("10.64.0.254:7000"), true)
	n.reaches(pod.ns, netip.MustParseAddrPort("192.0.2.1:7000"), true)
	n.reaches(n.site("pod-1").ns, netip.AddrPortFrom(pod.v4, 8080), false)
	n.reaches(n.site("outside").ns, netip.AddrPortFrom(pod.v4, 8080), false)
}

// What was connected before a policy stays so.
func TestConnectionsStay(t *testing.T) {
	n := newNetwork(t, bridged)
	w := n.writer(t)
	mustSync(t, w, one(n, deny()))
	from, to := n.site("pod-0"), n.site("pod-1")
	var l net.Listener
	err := netns.Do(to.ns, func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(to.v4, 7000).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	c, err := dial(from.ns, "tcp", l.Addr().String(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	mustSync(t, w, one(n, deny(), "pod-0", "pod-1"))
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 4)
	if _, err = c.Write([]byte("well")); err == nil {
		_, err = io.ReadFull(c, said)
	}
	if err != nil || string(said) != "well" {
		t.Errorf("%q, %v", said, err)
	}
	n.reaches(from.ns, netip.AddrPortFrom(to.v4, 8080), false)
	_ = c.Close()
	<-done
}

// Errors of what a pod has sent come back to it.
func TestErrorsComeBack(t *testing.T) {
	n := newNetwork(t, bridged)
	mustSync(t, n.writer(t), one(n, networkpolicy.Policy{IsolatesIngress: true}, "pod-0"))
	c, err := dial(n.site("pod-0").ns, "udp", netip.AddrPortFrom(n.site("pod-1").v4, 7777).String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody listens, and the sender learns %v", err)
	}
}

// Egress is decided on where a service sends a packet, not on the service's address.
func TestServices(t *testing.T) {
	n := newNetwork(t, bridged+1)
	var p *proxywriter.Writer
	err := netns.Do(n.host, func() (err error) {
		p, err = proxywriter.New(proxywriter.Options{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = p.Remove(t.Context()), p.Close() }()
	service := func(last byte, to ...netip.AddrPort) []proxytables.Port {
		return []proxytables.Port{{Protocol: corev1.ProtocolTCP, ClusterIP: netip.AddrFrom4([4]byte{10, 96, 0, last}), Port: 80, Cluster: to, Serving: to, Own: to}}
	}
	at := func(pod string, port uint16) netip.AddrPort { return netip.AddrPortFrom(n.site(pod).v4, port) }
	err = p.Sync(t.Context(), proxytables.Tables{Services: map[proxytables.Service][]proxytables.Port{
		policyName("near"): service(1, at("pod-1", 8080)), policyName("closed"): service(2, at("pod-1", 9000)),
		policyName("far"): service(3, at("pod-3", 8080)), policyName("self"): service(4, at("pod-0", 9000)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	mustSync(t, n.writer(t), one(n, networkpolicy.Policy{IsolatesEgress: true, IsolatesIngress: true, Egress: []networkpolicy.Rule{allowing(8000, 8080)}}, "pod-0"))
	for last, want := range map[byte]bool{1: true, 2: false, 3: true, 4: true} {
		n.reaches(n.site("pod-0").ns, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 0, last}), 80), want)
	}
}

// Others change their tables, or this one.
func TestOthers(t *testing.T) {
	n := newNetwork(t, bridged)
	w := n.writer(t)
	nettest.Run(t, "", "nft", "add table inet other; add chain inet other c { type filter hook input priority 5; }; add rule inet other c iif lo accept")
	other := func() string { return nettest.Run(t, "", "nft", "list", "table", "inet", "other") }
	tables := one(n, networkpolicy.Policy{IsolatesIngress: true, Ingress: []networkpolicy.Rule{allowing(9000, 9000)}}, "pod-0")
	mustSync(t, w, tables)
	intact := func(want bool) {
		t.Helper()
		if got, err := w.Intact(t.Context()); got != want || err != nil {
			t.Errorf("intact: %v, %v; want %v", got, err, want)
		}
	}
	isolated := func() {
		t.Helper()
		n.reaches(n.site("pod-1").ns, netip.AddrPortFrom(n.site("pod-0").v4, 8080), false)
		n.reaches(n.site("pod-1").ns, netip.AddrPortFrom(n.site("pod-0").v4, 9000), true)
	}
	change := networkpolicy.Changes{Pods: map[netip.Addr]networkpolicy.Isolation{n.site("pod-2").v4: {Ingress: []networkpolicy.Name{policyName("a")}}}}
	intact(true)
	nettest.Run(t, "", "nft", "add", "rule", "inet", "other", "c", "accept")
	intact(true)
	nettest.Run(t, "", "nft", "add", "rule", "inet", "other", "c", "accept")
	if err := w.Update(t.Context(), change); err != nil {
		t.Errorf("changes of other tables are in the way: %v", err)
	}
	isolated()
	nettest.Run(t, "", "nft", "add", "rule", "inet", "other", "c", "drop")
	intact(true)
	before := other()
	mustSync(t, w, tables)
	for _, harm := range []string{
		"delete table inet keelson-networkpolicy", "flush chain inet keelson-networkpolicy forward", "flush map inet keelson-networkpolicy ingress-pods-4",
		"delete element inet keelson-networkpolicy selves-4 { 10.64.0.1 . 10.64.0.1 }", "insert rule inet keelson-networkpolicy forward accept", "flush ruleset",
	} {
		if after := other(); after != before {
			t.Errorf("the other table was\n%s\nand is\n%s", before, after)
		}
		nettest.Run(t, "", append([]string{"nft"}, strings.Fields(harm)...)...)
		intact(false)
		if err := w.Update(t.Context(), networkpolicy.Changes{}); err != nil {
			t.Errorf("no change: %v", err)
		}
		intact(false)
		if err := w.Update(t.Context(), change); !errors.Is(err, nftables.ErrChanged) && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after %q an update: %v", harm, err)
		}
		mustSync(t, w, tables)
		intact(true)
		isolated()
	}
	if list := nettest.Run(t, "", "nft", "list", "ruleset"); strings.Contains(list, "table inet other") {
		t.Errorf("tables:\n%s", list)
	}
}

// Another writer takes the table over, as a program that was killed does when it is started again. Meanwhile the table is
// in effect.
func TestTakesOver(t *testing.T) {
	n := newNetwork(t, bridged)
	mustSync(t, n.writer(t), one(n, deny(), "pod-0"))
	n.reaches(n.site("pod-1").ns, netip.AddrPortFrom(n.site("pod-0").v4, 8080), false)
	second := n.writer(t)
	if intact, err := second.Intact(t.Context()); intact || err != nil {
		t.Errorf("a writer that has written nothing: intact %v, %v", intact, err)
	}
	if err := second.Update(t.Context(), networkpolicy.Changes{}); !errors.Is(err, nftables.ErrUnsynced) {
		t.Errorf("an update before the first sync: %v", err)
	}
	mustSync(t, second, one(n, deny(), "pod-1"))
	n.reaches(n.site("pod-1").ns, netip.AddrPortFrom(n.site("pod-2").v4, 8080), false)
	n.reaches(n.site("pod-2").ns, netip.AddrPortFrom(n.site("pod-0").v4, 8080), true)
	for range 2 {
		if err := second.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if list := nettest.Run(t, "", "nft", "list", "ruleset"); list != "" {
		t.Errorf("left:\n%s", list)
	}
}

// ruleHandles are the numbers that the kernel gives to rules when they are written.
func ruleHandles(t *testing.T) []string {
	t.Helper()
	return regexp.MustCompile(`(?m)^\t\t.*# handle \d+$`).FindAllString(nettest.Run(t, "", "nft", "-a", "list", "table", "inet", "keelson-networkpolicy"), -1)
}

// Pods that come and go change elements, and no rule. Those who list the table learn what a rule is for.
func TestWritesOnlyWhatChanges(t *testing.T) {
	n := newNetwork(t, bridged)
	w := n.writer(t)
	web := networkpolicy.Selection{Namespace: "default", Pods: "app=web"}
	http := networkpolicy.PortName{Name: "http", Protocol: corev1.ProtocolTCP}
	tables := one(n, networkpolicy.Policy{IsolatesIngress: true, Ingress: []networkpolicy.Rule{{Pods: []networkpolicy.Selection{web}, Named: []networkpolicy.PortName{http}}}}, "pod-0")
	mustSync(t, w, tables)
	before := ruleHandles(t)
	if !slices.ContainsFunc(before, func(rule string) bool { return strings.Contains(rule, `comment "default/a, ingress[0]"`) }) {
		t.Errorf("rules:\n%s", strings.Join(before, "\n"))
	}
	if list := nettest.Run(t, "", "nft", "list", "table", "inet", "keelson-networkpolicy"); !strings.Contains(list, `comment "pods with app=web of namespace default"`) {
		t.Errorf("table:\n%s", list)
	}
	pod := n.site("pod-1")
	err := w.Update(t.Context(), networkpolicy.Changes{
		Pods:       map[netip.Addr]networkpolicy.Isolation{pod.v4: tables.Pods[n.site("pod-0").v4]},
		Selections: map[networkpolicy.Selection][]netip.Addr{web: {pod.v4, pod.v6}},
		Ports:      map[networkpolicy.PortName][]netip.AddrPort{http: {netip.AddrPortFrom(n.site("pod-0").v4, 8080)}},
		Policies:   map[networkpolicy.Name]*networkpolicy.Policy{policyName("a"): new(tables.Policies[policyName("a")])},
	})
	if err != nil {
		t.Fatal(err)
	}
	if after := ruleHandles(t); !slices.Equal(after, before) {
		t.Errorf("rules were\n%s\nand are\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	n.reaches(pod.ns, netip.AddrPortFrom(n.site("pod-0").v4, 8080), true)
	n.reaches(pod.ns, netip.AddrPortFrom(n.site("pod-0").v4, 8081), false)
	n.reaches(n.site("pod-2").ns, netip.AddrPortFrom(n.site("pod-0").v4, 8080), false)
	if err := w.Update(t.Context(), networkpolicy.Changes{Pods: map[netip.Addr]networkpolicy.Isolation{n.site("pod-0").v4: {}, n.site("pod-0").v6: {}, pod.v4: {}}}); err != nil {
		t.Fatal(err)
	}
	if list := nettest.Run(t, "", "nft", "list", "table", "inet", "keelson-networkpolicy"); strings.Contains(list, "app=web") || strings.Contains(list, "ingress-4-") {
		t.Errorf("left:\n%s", list)
	}
}

// Neighbors are found whatever policies say, from the beginning.
func TestDiscovery(t *testing.T) {
	n := newNetwork(t, bridged)
	open := networkpolicy.Policy{IsolatesIngress: true, IsolatesEgress: true, Ingress: []networkpolicy.Rule{allowing(8080, 8080)}, Egress: []networkpolicy.Rule{allowing(8080, 8080)}}
	mustSync(t, n.writer(t), one(n, open, "pod-0", "pod-1"))
	for _, pod := range []string{"pod-0", "pod-1"} {
		nettest.Run(t, n.site(pod).ns, "ip", "-6", "neighbor", "flush", "dev", "eth0")
	}
	n.reaches(n.site("pod-0").ns, netip.AddrPortFrom(n.site("pod-1").v6, 8080), true)
}

func TestPoliceBridges(t *testing.T) {
	n := newNetwork(t, bridged)
	w := n.writer(t)
	mustSync(t, w, one(n, deny(), "pod-0"))
	to := netip.AddrPortFrom(n.site("pod-0").v4, 8080)
	nettest.Run(t, "", "sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=0", "net.bridge.bridge-nf-call-ip6tables=0")
	n.reaches(n.site("pod-1").ns, to, true)
	for range 2 {
		if err := nftables.PoliceBridges(); err != nil {
			t.Fatal(err)
		}
	}
	n.reaches(n.site("pod-1").ns, to, false)
	n.reaches(n.site("pod-1").ns, netip.AddrPortFrom(n.site("pod-0").v6, 8080), false)
}

// many are the tables of a node with 110 pods, in a cluster with so many pods and policies.
func many(pods, policies int) networkpolicy.Tables {
	var c networkpolicy.Changes
	c.Pods, c.Policies, c.Selections = map[netip.Addr]networkpolicy.Isolation{}, map[networkpolicy.Name]*networkpolicy.Policy{}, map[networkpolicy.Selection][]netip.Addr{}
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 64, byte(i >> 8), byte(i)}) }
	all := networkpolicy.Selection{}
	for i := range pods {
		c.Selections[all] = append(c.Selections[all], address(i))
	}
	for i := range policies {
		n, own := policyName(fmt.Sprintf("policy-%d", i)), networkpolicy.Selection{Namespace: fmt.Sprint(i)}
		for j := range 10 {
			c.Selections[own] = append(c.Selections[own], address(i*10%pods+j))
		}
		c.Policies[n] = &networkpolicy.Policy{IsolatesIngress: true, Ingress: []networkpolicy.Rule{
			{Pods: []networkpolicy.Selection{own}, AllPorts: true}, {Pods: []networkpolicy.Selection{all}, Ports: []networkpolicy.PortRange{{Protocol: corev1.ProtocolTCP, First: 80, Last: 80}}},
		}}
		c.Pods[address(i)] = networkpolicy.Isolation{Ingress: []networkpolicy.Name{n}}
	}
	var t networkpolicy.Tables
	t.Apply(c)
	return t
}

func BenchmarkFirstSync(b *testing.B) {
	needs(b)
	nettest.Host(b)
	tables := many(10_000, 1000)
	w := (&network{t: b, host: nettest.HostPath()}).writer(b)
	for b.Loop() {
		if err := w.Sync(b.Context(), tables); err != nil {
			b.Fatal(err)
		}
	}
}

// A pod of a cluster with 10,000 comes and goes, which 1,000 policies of the node allow.
func BenchmarkOneChange(b *testing.B) {
	needs(b)
	nettest.Host(b)
	tables := many(10_000, 1000)
	w := (&network{t: b, host: nettest.HostPath()}).writer(b)
	if err := w.Sync(b.Context(), tables); err != nil {
		b.Fatal(err)
	}
	all := networkpolicy.Selection{}
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		addresses := tables.Selections[all]
		if i%2 == 0 {
			addresses = append(slices.Clone(addresses), netip.MustParseAddr("10.127.0.1"))
		}
		began := time.Now()
		if err := w.Update(b.Context(), networkpolicy.Changes{Selections: map[networkpolicy.Selection][]netip.Addr{all: addresses}}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
