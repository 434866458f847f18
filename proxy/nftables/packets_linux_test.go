package nftables_test

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/proxy"
)

func name(s string) proxy.Service { return proxy.Service{Namespace: "default", Name: s} }

// fixture is a service of each sort, in one family. The second pod is taken to be on another node.
func fixture(n *network, is6 bool) map[proxy.Service][]proxy.Port {
	vip := func(v4, v6 string) netip.Addr {
		if is6 {
			return netip.MustParseAddr(v6)
		}
		return netip.MustParseAddr(v4)
	}
	offset := uint16(0)
	if is6 {
		offset = 100
	}
	outside := n.site("outside").address(is6)
	ports := func(p proxy.Port) []proxy.Port {
		p.Port, p.Protocol = 80, corev1.ProtocolTCP
		if p.NodePort != 0 {
			p.NodePort += offset
		}
		u := p
		u.Protocol = corev1.ProtocolUDP
		return []proxy.Port{p, u}
	}
	two := n.both(is6, 0, 1)
	return map[proxy.Service][]proxy.Port{
		name("plain"): ports(proxy.Port{ClusterIP: vip("10.96.0.1", "fd96::1"), NodePort: 30001, Cluster: two, Own: n.both(is6, 0), Serving: n.both(is6, 0, 1, 2)}),
		name("empty"): ports(proxy.Port{ClusterIP: vip("10.96.0.2", "fd96::2"), NodePort: 30002}),
		name("local"): ports(proxy.Port{
			ClusterIP: vip("10.96.0.3", "fd96::3"), NodePort: 30003, ExternalLocal: true, Cluster: two, Local: n.both(is6, 0), Own: n.both(is6, 0), Serving: n.both(is6, 0, 1, 2),
			External: []netip.Addr{vip("198.51.100.3", "2001:db8:1::3")},
		}),
		name("elsewhere"): ports(proxy.Port{
			ClusterIP: vip("10.96.0.4", "fd96::4"), NodePort: 30004, ExternalLocal: true, InternalLocal: true, Cluster: n.both(is6, 1), Serving: n.both(is6, 0, 1, 2),
			LoadBalancers: []netip.Addr{vip("198.51.100.4", "2001:db8:1::4")},
		}),
		name("guarded"): ports(proxy.Port{
			ClusterIP: vip("10.96.0.5", "fd96::5"), NodePort: 30005, Cluster: n.both(is6, 2), Own: n.both(is6, 2), Serving: n.both(is6, 0, 1, 2),
			LoadBalancers: []netip.Addr{vip("198.51.100.5", "2001:db8:1::5")},
			Sources:       []netip.Prefix{netip.PrefixFrom(outside, outside.BitLen()), netip.PrefixFrom(n.site("pod-1").address(is6), outside.BitLen())},
		}),
		name("sticky"): ports(proxy.Port{ClusterIP: vip("10.96.0.6", "fd96::6"), NodePort: 30006, Cluster: n.both(is6, 0, 1, 2), Own: n.both(is6, 0, 2), Serving: n.both(is6, 0, 1, 2), Affinity: time.Hour}),
	}
}

// addressesOf are all that a packet may be sent to for the services.
func addressesOf(n *network, services map[proxy.Service][]proxy.Port) (all []netip.AddrPort) {
	seen := map[netip.AddrPort]bool{}
	add := func(a netip.Addr, port uint16) {
		if to := netip.AddrPortFrom(a, port); port != 0 && !seen[to] {
			seen[to], all = true, append(all, to)
		}
	}
	for _, ports := range services {
		for i := range ports {
			p := &ports[i]
			add(p.ClusterIP, p.Port)
			add(p.ClusterIP, 81)
			for _, a := range p.Addresses() {
				add(a, p.Port)
			}
			add(n.host.address(p.Is6()), p.NodePort)
		}
	}
	return all
}

func TestPackets(t *testing.T) {
	n := newNetwork(t, 3)
	w := n.writer(t)
	tables := proxy.Tables{Settings: settings(), Services: map[proxy.Service][]proxy.Port{}}
	for _, is6 := range []bool{false, true} {
		for s, ports := range fixture(n, is6) {
			tables.Services[s] = append(tables.Services[s], ports...)
		}
	}
	if err := w.Sync(t.Context(), tables); err != nil {
		t.Fatal(err)
	}
	for _, to := range addressesOf(n, tables.Services) {
		for _, from := range []string{"pod-0", "pod-2", "outside", "host"} {
			for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
				n.expect(&tables, from, protocol, to)
			}
		}
	}
}
