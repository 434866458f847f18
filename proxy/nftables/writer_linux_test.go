package nftables_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/internal/nettest"
	"github.com/keelson-dev/keelson/proxy"
)

// one is a service with these pods behind it.
func one(n *network, protocol corev1.Protocol, affinity time.Duration, pods ...int) map[proxy.Service][]proxy.Port {
	to := n.both(false, pods...)
	return map[proxy.Service][]proxy.Port{name("a"): {{
		Protocol: protocol, ClusterIP: netip.MustParseAddr("10.96.0.1"), Port: 80, Cluster: to, Serving: to, Affinity: affinity,
	}}}
}

func theOne() netip.AddrPort { return netip.MustParseAddrPort("10.96.0.1:80") }

func TestStaleFlows(t *testing.T) {
	n := newNetwork(t, 3)
	w := n.writer(t)
	if err := w.Sync(t.Context(), proxy.Tables{Settings: settings(), Services: one(n, corev1.ProtocolUDP, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	var c net.Conn
	err := netns.Do(n.site("pod-2").ns, func() (err error) {
		c, err = net.Dial("udp", theOne().String()) //nolint:noctx // it does not wait
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ask := func() string {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, err := c.Write([]byte("?"))
		said := make([]byte, 64)
		size := 0
		if err == nil {
			size, err = c.Read(said)
		}
		server, _, _ := strings.Cut(string(said[:size]), " ")
		if err != nil {
			return err.Error()
		}
		return server
	}
	if got := ask(); got != "pod-0" {
		t.Fatal(got)
	}
	both := one(n, corev1.ProtocolUDP, 0, 0)
	both[name("a")][0].Cluster, both[name("a")][0].Serving = n.both(false, 1), n.both(false, 0, 1)
	if err := w.Update(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != "pod-0" {
		t.Errorf("%s: the flow was cut although its endpoint still serves", got)
	}
	if err := w.Update(t.Context(), one(n, corev1.ProtocolUDP, 0, 1)); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != "pod-1" {
		t.Errorf("%s: the flow stayed with an endpoint that is gone", got)
	}
}

func TestAffinity(t *testing.T) {
	n := newNetwork(t, 3)
	w := n.writer(t)
	if err := w.Sync(t.Context(), proxy.Tables{Settings: settings(), Services: one(n, corev1.ProtocolTCP, time.Hour, 0, 1, 2)}); err != nil {
		t.Fatal(err)
	}
	ask := func() string { return n.send("outside", corev1.ProtocolTCP, theOne(), 10*time.Second).server }
	first := ask()
	for range 20 {
		if got := ask(); got != first {
			t.Fatalf("%s after %s", got, first)
		}
	}
	var others []int
	for i := range 3 {
		if fmt.Sprintf("pod-%d", i) != first {
			others = append(others, i)
		}
	}
	if err := w.Update(t.Context(), one(n, corev1.ProtocolTCP, time.Hour, others...)); err != nil {
		t.Fatal(err)
	}
	second := ask()
	if second == first || second == "" {
		t.Fatalf("%q although %s is gone", second, first)
	}
	for range 20 {
		if got := ask(); got != second {
			t.Fatalf("%s after %s", got, second)
		}
	}
	if err := w.Update(t.Context(), one(n, corev1.ProtocolTCP, 0, 0, 1, 2)); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 60 {
		seen[ask()] = true
	}
	if len(seen) != 3 {
		t.Errorf("without affinity, of three endpoints only %v answer", seen)
	}
	if err := w.Update(t.Context(), one(n, corev1.ProtocolTCP, time.Second, 0, 1, 2)); err != nil {
		t.Fatal(err)
	}
	first = ask()
	for deadline := time.Now().Add(30 * time.Second); ask() == first; {
		if time.Now().After(deadline) {
			t.Fatalf("%s long after the affinity has ended", first)
		}
		time.Sleep(1100 * time.Millisecond) // the kernel's time cannot be faked
	}
}

func TestOthers(t *testing.T) {
	n := newNetwork(t, 2)
	w := n.writer(t)
	nettest.Run(t, "", "nft", "add table inet other; add chain inet other c { type filter hook input priority 5; }; add rule inet other c counter")
	other := func() string { return nettest.Run(t, "", "nft", "list", "table", "inet", "other") }
	services := one(n, corev1.ProtocolTCP, 0, 0)
	if err := w.Sync(t.Context(), proxy.Tables{Settings: settings(), Services: services}); err != nil {
		t.Fatal(err)
	}
	intact := func(want bool) {
		t.Helper()
		if got, err := w.Intact(t.Context()); got != want || err != nil {
			t.Errorf("intact: %v, %v; want %v", got, err, want)
		}
	}
	answers := func() {
		t.Helper()
		if got := n.send("outside", corev1.ProtocolTCP, theOne(), 10*time.Second); got.action != proxy.Forward {
			t.Errorf("%+v", got)
		}
	}
	intact(true)
	nettest.Run(t, "", "nft", "add", "rule", "inet", "other", "c", "accept")
	intact(true)
	nettest.Run(t, "", "nft", "add", "rule", "inet", "other", "c", "accept")
	before := other()
	if err := w.Update(t.Context(), one(n, corev1.ProtocolTCP, 0, 0, 1)); err != nil {
		t.Errorf("changes of other tables are in the way: %v", err)
	}
	answers()
	for _, harm := range []string{
		"delete table inet keelson-proxy", "flush chain inet keelson-proxy services-4", "flush map inet keelson-proxy services-4",
		"delete element inet keelson-proxy cluster-ips-4 { 10.96.0.1 }", "add rule inet keelson-proxy services-4 drop",
	} {
		nettest.Run(t, "", append([]string{"nft"}, strings.Fields(harm)...)...)
		intact(false)
		if err := w.Update(t.Context(), one(n, corev1.ProtocolTCP, 0, 1)); err == nil {
			t.Errorf("after %q an update pretends to be right", harm)
		}
		if err := w.Sync(t.Context(), proxy.Tables{Settings: settings(), Services: services}); err != nil {
			t.Fatal(err)
		}
		intact(true)
		answers()
	}
	if after := other(); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if list := nettest.Run(t, "", "nft", "list", "ruleset"); !strings.Contains(list, "keelson-proxy") {
		t.Error("nft does not show the table")
	}
}

// Chains are for a number of endpoints and an affinity, of which a service may have had any.
func TestChainsAreBounded(t *testing.T) {
	n := newNetwork(t, 3)
	w := n.writer(t)
	services := one(n, corev1.ProtocolTCP, 0, 0)
	if err := w.Sync(t.Context(), proxy.Tables{Settings: settings(), Services: services}); err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		services := one(n, corev1.ProtocolTCP, time.Duration(1+i)*time.Second, 0, 1)
		if err := w.Update(t.Context(), services); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(nettest.Run(t, "", "nft", "-t", "list", "table", "inet", "keelson-proxy"), "chain "); got > 900 {
		t.Errorf("%d chains", got)
	}
	if got := n.send("outside", corev1.ProtocolTCP, theOne(), 10*time.Second); got.action != proxy.Forward {
		t.Errorf("%+v", got)
	}
}

// many are so many services with two endpoints each.
func many(count int) proxy.Tables {
	tables := proxy.Tables{Settings: settings(), Services: make(map[proxy.Service][]proxy.Port, count)}
	for i := range count {
		a, b := byte(i>>8), byte(i)
		to := []netip.AddrPort{
			netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 64 + a>>7, a, b}), 8080), netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 70 + a>>7, a, b}), 8080),
		}
		tables.Services[name(fmt.Sprintf("service-%d", i))] = []proxy.Port{{
			Protocol: corev1.ProtocolTCP, ClusterIP: netip.AddrFrom4([4]byte{10, 96, a, b}), Port: 80, Cluster: to, Serving: to, Own: to[:1],
		}}
	}
	return tables
}

func BenchmarkFirstSync(b *testing.B) {
	for _, count := range []int{10_000, 44_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			needs(b)
			nettest.Host(b)
			tables := many(count)
			w := (&network{t: b, host: site{ns: nettest.HostPath()}}).writer(b)
			for b.Loop() {
				if err := w.Sync(b.Context(), tables); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOneChange(b *testing.B) {
	for _, count := range []int{10_000, 44_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			needs(b)
			nettest.Host(b)
			tables := many(count)
			w := (&network{t: b, host: site{ns: nettest.HostPath()}}).writer(b)
			if err := w.Sync(b.Context(), tables); err != nil {
				b.Fatal(err)
			}
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				s := name(fmt.Sprintf("service-%d", i%count))
				ports := slices.Clone(tables.Services[s])
				ports[0].Cluster = []netip.AddrPort{ports[0].Cluster[0], netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 80, byte(i >> 8), byte(i)}), 8080)}
				ports[0].Serving = ports[0].Cluster
				began := time.Now()
				if err := w.Update(b.Context(), map[proxy.Service][]proxy.Port{s: ports}); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
