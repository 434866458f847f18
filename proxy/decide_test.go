package proxy_test

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/proxy"
)

// tables are a service of each sort.
func tables() proxy.Tables {
	name := func(s string) proxy.Service { return proxy.Service{Namespace: "default", Name: s} }
	ip := netip.MustParseAddr
	ports := func(p proxy.Port) []proxy.Port {
		p.Protocol, p.Port = corev1.ProtocolTCP, 80
		return []proxy.Port{p}
	}
	both := at("10.64.0.1", "10.64.0.2")
	return proxy.Tables{
		Settings: proxy.Settings{
			Pods: []netip.Prefix{netip.MustParsePrefix("10.64.0.0/16")}, Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
		},
		Services: map[proxy.Service][]proxy.Port{
			name("plain"): ports(proxy.Port{ClusterIP: ip("10.96.0.1"), NodePort: 30001, Cluster: both, Own: both[:1], Serving: both, Affinity: time.Hour}),
			name("empty"): ports(proxy.Port{ClusterIP: ip("10.96.0.2"), NodePort: 30002}),
			name("local"): ports(proxy.Port{
				ClusterIP: ip("10.96.0.3"), NodePort: 30003, ExternalLocal: true, Cluster: both, Local: both[:1], Own: both[:1], Serving: both,
				External: []netip.Addr{ip("198.51.100.3")},
			}),
			name("remote"): ports(proxy.Port{
				ClusterIP: ip("10.96.0.4"), NodePort: 30004, ExternalLocal: true, InternalLocal: true, Cluster: both[1:], Serving: both,
			}),
			name("guarded"): ports(proxy.Port{
				ClusterIP: ip("10.96.0.5"), Cluster: both, Serving: both, LoadBalancers: []netip.Addr{ip("198.51.100.5")},
				Sources: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
			}),
			name("thief"): ports(proxy.Port{ClusterIP: ip("10.96.0.6"), External: []netip.Addr{ip("10.96.0.1")}}),
		},
	}
}

func TestDecide(t *testing.T) {
	const pod, outside, host = "10.64.0.1", "203.0.113.1", "192.0.2.1"
	both := at("10.64.0.1", "10.64.0.2")
	forward := func(masquerade bool, endpoints ...netip.AddrPort) proxy.Decision {
		return proxy.Decision{Action: proxy.Forward, Endpoints: endpoints, Masquerade: masquerade}
	}
	for name, row := range map[string]struct {
		from, to string
		want     proxy.Decision
	}{
		"cluster IP from a pod":                 {pod, "10.96.0.1:80", proxy.Decision{Action: proxy.Forward, Endpoints: both, Sticky: true, Hairpin: both[:1]}},
		"cluster IP from outside":               {outside, "10.96.0.1:80", proxy.Decision{Action: proxy.Forward, Endpoints: both, Sticky: true, Masquerade: true}},
		"cluster IP from the host":              {host, "10.96.0.5:80", forward(true, both...)},
		"another port":                          {pod, "10.96.0.1:81", proxy.Decision{Action: proxy.Reject}},
		"an address without service":            {pod, "10.96.0.99:80", proxy.Decision{Action: proxy.Drop}},
		"an address of nobody's":                {pod, "198.51.100.99:80", proxy.Decision{}},
		"no endpoints":                          {pod, "10.96.0.2:80", proxy.Decision{Action: proxy.Reject}},
		"no endpoints, node port":               {outside, host + ":30002", proxy.Decision{Action: proxy.Reject}},
		"node port":                             {outside, host + ":30001", proxy.Decision{Action: proxy.Forward, Endpoints: both, Sticky: true, Masquerade: true}},
		"node port elsewhere":                   {outside, "192.0.2.2:30001", proxy.Decision{}},
		"node port at a loopback address":       {host, "127.0.0.1:30001", proxy.Decision{}},
		"external policy from outside":          {outside, "198.51.100.3:80", forward(false, both[:1]...)},
		"external policy from the host":         {host, "198.51.100.3:80", forward(true, both...)},
		"external policy from a pod":            {"10.64.0.9", "198.51.100.3:80", forward(false, both...)},
		"external policy, nothing here":         {outside, host + ":30004", proxy.Decision{Action: proxy.Drop}},
		"external policy, nothing here, a pod":  {pod, host + ":30004", forward(false, both[1:]...)},
		"internal policy, nothing here":         {pod, "10.96.0.4:80", proxy.Decision{Action: proxy.Drop}},
		"load balancer":                         {outside, "198.51.100.5:80", forward(true, both...)},
		"load balancer, not for everybody":      {"203.0.114.1", "198.51.100.5:80", proxy.Decision{Action: proxy.Drop}},
		"an address that another service lists": {"10.64.0.9", "10.96.0.1:80", proxy.Decision{Action: proxy.Forward, Endpoints: both, Sticky: true}},
	} {
		t.Run(name, func(t *testing.T) {
			to := netip.MustParseAddrPort(row.to)
			tables := tables()
			got := tables.Decide(proxy.Packet{
				From: netip.MustParseAddr(row.from), To: to, Protocol: corev1.ProtocolTCP, FromHost: row.from == host,
				ToHost: to.Addr() == netip.MustParseAddr(host) || to.Addr().IsLoopback(),
			})
			got.Service, got.Port = proxy.Service{}, ""
			if !reflect.DeepEqual(got, row.want) {
				t.Errorf("got %+v\nwant %+v", got, row.want)
			}
		})
	}
}

func TestDecideOfSettings(t *testing.T) {
	all := tables()
	ask := func(from, to string) proxy.Decision {
		return all.Decide(proxy.Packet{From: netip.MustParseAddr(from), To: netip.MustParseAddrPort(to), Protocol: corev1.ProtocolTCP, ToHost: to[:3] == "192"})
	}
	all.Settings.PodsOnly = true
	for _, to := range []string{"10.96.0.1:80", "10.96.0.1:81", "10.96.0.99:80"} {
		if got := ask("10.65.0.1", to); got.Action != proxy.Pass {
			t.Errorf("%s from another cluster's pod: %+v", to, got)
		}
	}
	if got := ask("10.64.0.9", "10.96.0.5:80"); got.Action != proxy.Forward {
		t.Errorf("from a pod: %+v", got)
	}
	all = tables()
	all.Settings.MasqueradeAll = true
	if got := ask("10.64.0.9", "10.96.0.5:80"); !got.Masquerade {
		t.Errorf("masquerading all: %+v", got)
	}
	all = tables()
	all.Settings.Pods = nil
	if got := ask("203.0.113.1", "10.96.0.5:80"); got.Masquerade {
		t.Errorf("without knowing pods: %+v", got)
	}
	all = tables()
	all.Settings.NodePorts = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/30")}
	if got := ask("203.0.113.1", "192.0.2.1:30001"); got.Action != proxy.Forward {
		t.Errorf("a node port's address: %+v", got)
	}
	if got := ask("203.0.113.1", "192.0.2.9:30001"); got.Action != proxy.Pass {
		t.Errorf("not a node port's address: %+v", got)
	}
}

// A cluster IP is one, also if another service lists it as an external address and has the port.
func TestDecideOfListedClusterIPs(t *testing.T) {
	all := tables()
	thief := &all.Services[proxy.Service{Namespace: "default", Name: "thief"}][0]
	thief.Port, thief.Cluster, thief.Local, thief.ExternalLocal = 81, at("10.64.0.1", "10.64.0.2"), at("10.64.0.1"), true
	ask := func(from string) proxy.Decision {
		return all.Decide(proxy.Packet{From: netip.MustParseAddr(from), To: netip.MustParseAddrPort("10.96.0.1:81"), Protocol: corev1.ProtocolTCP})
	}
	if got := ask("203.0.113.1"); got.Action != proxy.Forward || !got.Masquerade || len(got.Endpoints) != 1 {
		t.Errorf("from outside: %+v", got)
	}
	if got := ask("10.64.0.9"); got.Action != proxy.Forward || got.Masquerade || len(got.Endpoints) != 2 {
		t.Errorf("from a pod: %+v", got)
	}
	thief.Local = nil
	if got := ask("203.0.113.1"); got.Action == proxy.Forward || got.Masquerade {
		t.Errorf("without endpoints: %+v", got)
	}
}
