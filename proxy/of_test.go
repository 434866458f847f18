package proxy_test

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/proxy"
)

func service(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

// endpoint is ready, on node-1 or, with a number from 10, on node-2.
func endpoint(address string, change func(*discoveryv1.Endpoint)) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{address}, NodeName: new("node-1")}
	if netip.MustParseAddr(address).AsSlice()[3] >= 10 {
		e.NodeName = new("node-2")
	}
	if change != nil {
		change(&e)
	}
	return e
}

func conditions(ready, serving, terminating bool) func(*discoveryv1.Endpoint) {
	return func(e *discoveryv1.Endpoint) {
		e.Conditions = discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
	}
}

func slice(name string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "a"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
}

func at(addresses ...string) (all []netip.AddrPort) {
	for _, a := range addresses {
		all = append(all, netip.AddrPortFrom(netip.MustParseAddr(a), 8080))
	}
	return all
}

func here() proxy.Node {
	return proxy.Node{Names: []string{"node-1"}, Zone: "east", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
}

// the ports without what a row says
func plain() proxy.Port {
	return proxy.Port{Name: "http", Protocol: corev1.ProtocolTCP, ClusterIP: netip.MustParseAddr("10.96.0.1"), Port: 80}
}

func TestServices(t *testing.T) {
	none := func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None"} }
	for name, row := range map[string]struct {
		service func(*corev1.Service)
		want    func(*proxy.Port)
	}{
		"headless":        {service: none},
		"without address": {service: func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil }},
		"external name":   {service: func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }},
		"plain":           {want: func(*proxy.Port) {}},
		"node port": {
			service: func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080 },
			want:    func(p *proxy.Port) { p.NodePort = 30080 },
		},
		"external addresses": {
			service: func(s *corev1.Service) {
				s.Spec.ExternalIPs = []string{"198.51.100.9", "2001:db8::1", "198.051.100.002", "198.51.100.9", "nonsense"}
			},
			want: func(p *proxy.Port) {
				p.External = []netip.Addr{netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("198.51.100.9")}
			},
		},
		"load balancers": {
			service: func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeLoadBalancer
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
					{IP: "198.51.100.3"}, {IP: "198.51.100.4", IPMode: new(corev1.LoadBalancerIPModeProxy)},
					{IP: "198.51.100.2", IPMode: new(corev1.LoadBalancerIPModeVIP)}, {Hostname: "balancer"}, {IP: "2001:db8::1"},
				}
				s.Spec.LoadBalancerSourceRanges = []string{" 203.0.113.0/24 ", "2001:db8::/32"}
			},
			want: func(p *proxy.Port) {
				p.LoadBalancers = []netip.Addr{netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("198.51.100.3")}
				p.Sources = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
			},
		},
		"everybody may come": {
			service: func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.3"}}
				s.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24", "0.0.0.0/0"}
			},
			want: func(p *proxy.Port) { p.LoadBalancers = []netip.Addr{netip.MustParseAddr("198.51.100.3")} },
		},
		"the node may come": {
			service: func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.3"}}
				s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
			},
			want: func(p *proxy.Port) {
				p.LoadBalancers = []netip.Addr{netip.MustParseAddr("198.51.100.3")}
				p.Sources = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.3/32")}
			},
		},
		"source ranges without load balancer": {
			service: func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24"} },
			want:    func(*proxy.Port) {},
		},
		"affinity": {
			service: func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(90))}}
			},
			want: func(p *proxy.Port) { p.Affinity = 90 * time.Second },
		},
		"affinity by default": {
			service: func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
			want:    func(p *proxy.Port) { p.Affinity = 3 * time.Hour },
		},
		"external policy without external addresses": {
			service: func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
			want:    func(*proxy.Port) {},
		},
		"external policy": {
			service: func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
			},
			want: func(p *proxy.Port) { p.ExternalLocal = true },
		},
		"internal policy": {
			service: func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal) },
			want:    func(p *proxy.Port) { p.InternalLocal = true },
		},
	} {
		t.Run(name, func(t *testing.T) {
			var want []proxy.Port
			if row.want != nil {
				want = []proxy.Port{plain()}
				row.want(&want[0])
			}
			if got := proxy.Of(service(row.service), nil, here()); !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestFamilies(t *testing.T) {
	s := service(func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"fd96::1", "10.96.0.1"} })
	six := slice("b", endpoint("10.0.0.1", nil))
	six.AddressType, six.Endpoints[0].Addresses = discoveryv1.AddressTypeIPv6, []string{"fd00::1"}
	names := slice("c", endpoint("10.0.0.3", nil))
	names.AddressType = discoveryv1.AddressTypeFQDN
	got := proxy.Of(s, []*discoveryv1.EndpointSlice{slice("a", endpoint("10.0.0.1", nil)), six, names}, here())
	if len(got) != 2 || !got[0].Is6() || got[1].Is6() {
		t.Fatalf("%+v", got)
	}
	if !reflect.DeepEqual(got[0].Cluster, at("fd00::1")) || !reflect.DeepEqual(got[1].Cluster, at("10.0.0.1")) {
		t.Errorf("%+v", got)
	}
}

// choice is what becomes of endpoints.
type choice struct {
	cluster, local, own []netip.AddrPort
	served              bool
}

func TestEndpoints(t *testing.T) {
	external := func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal, 30080
	}
	internal := func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal) }
	zones := func(names ...string) func(*discoveryv1.Endpoint) {
		return func(e *discoveryv1.Endpoint) {
			e.Hints = &discoveryv1.EndpointHints{}
			for _, n := range names {
				e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: n})
			}
		}
	}
	nodes := func(name string, zone ...string) func(*discoveryv1.Endpoint) {
		return func(e *discoveryv1.Endpoint) {
			zones(zone...)(e)
			e.Hints.ForNodes = []discoveryv1.ForNode{{Name: name}}
		}
	}
	lingering, waiting := conditions(false, true, true), conditions(false, false, false)
	for name, row := range map[string]struct {
		service   func(*corev1.Service)
		endpoints []discoveryv1.Endpoint
		want      choice
	}{
		"none":      {},
		"ready":     {nil, []discoveryv1.Endpoint{endpoint("10.0.0.11", nil), endpoint("10.0.0.1", nil)}, choice{at("10.0.0.1", "10.0.0.11"), nil, at("10.0.0.1"), true}},
		"not ready": {nil, []discoveryv1.Endpoint{endpoint("10.0.0.1", waiting)}, choice{}},
		"published although not ready": {
			nil, []discoveryv1.Endpoint{endpoint("10.0.0.1", conditions(true, false, false))}, choice{at("10.0.0.1"), nil, at("10.0.0.1"), true},
		},
		"terminating ones do not count": {
			nil, []discoveryv1.Endpoint{endpoint("10.0.0.1", lingering), endpoint("10.0.0.2", nil)}, choice{at("10.0.0.2"), nil, at("10.0.0.2"), true},
		},
		"unless there are no others": {
			nil, []discoveryv1.Endpoint{endpoint("10.0.0.1", lingering), endpoint("10.0.0.2", conditions(false, false, true))},
			choice{at("10.0.0.1"), nil, at("10.0.0.1"), true},
		},
		"one address twice": {
			nil, []discoveryv1.Endpoint{endpoint("10.0.0.1", nil), endpoint("10.0.0.1", lingering)}, choice{at("10.0.0.1"), nil, at("10.0.0.1"), true},
		},
		"one address twice, the other order": {
			nil, []discoveryv1.Endpoint{endpoint("10.0.0.1", lingering), endpoint("10.0.0.1", nil)}, choice{at("10.0.0.1"), nil, at("10.0.0.1"), true},
		},
		"without address": {nil, []discoveryv1.Endpoint{{}, endpoint("10.0.0.1", nil)}, choice{at("10.0.0.1"), nil, at("10.0.0.1"), true}},
		"external policy": {
			external, []discoveryv1.Endpoint{endpoint("10.0.0.1", nil), endpoint("10.0.0.11", nil)},
			choice{at("10.0.0.1", "10.0.0.11"), at("10.0.0.1"), at("10.0.0.1"), true},
		},
		"external policy, all elsewhere": {external, []discoveryv1.Endpoint{endpoint("10.0.0.11", nil)}, choice{at("10.0.0.11"), nil, nil, true}},
		"external policy, terminating here": {
			external, []discoveryv1.Endpoint{endpoint("10.0.0.1", lingering), endpoint("10.0.0.11", nil)},
			choice{at("10.0.0.11"), at("10.0.0.1"), at("10.0.0.1"), true},
		},
		"internal policy": {
			internal, []discoveryv1.Endpoint{endpoint("10.0.0.1", nil), endpoint("10.0.0.11", nil)}, choice{nil, at("10.0.0.1"), at("10.0.0.1"), true},
		},
		"internal policy, all elsewhere": {internal, []discoveryv1.Endpoint{endpoint("10.0.0.11", nil)}, choice{nil, nil, nil, true}},
		"zones": {
			nil, []discoveryv1.Endpoint{endpoint("10.0.0.1", zones("west")), endpoint("10.0.0.2", zones("west", "east"))},
			choice{at("10.0.0.2"), nil, at("10.0.0.2"), true},
		},
		"zones, none for this one": {
			nil, []discoveryv1.Endpoint{endpoint("10.0.0.1", zones("west"))}, choice{at("10.0.0.1"), nil, at("10.0.0.1"), true},
		},
		"zones, one without hint": {
			nil, []discoveryv1.Endpoint{endpoint("10.0.0.1", zones("west")), endpoint("10.0.0.2", zones("east")), endpoint("10.0.0.3", nil)},
			choice{at("10.0.0.1", "10.0.0.2", "10.0.0.3"), nil, at("10.0.0.1", "10.0.0.2", "10.0.0.3"), true},
		},
		"zones, one without hint is not ready": {
			nil, []discoveryv1.Endpoint{endpoint("10.0.0.1", zones("west")), endpoint("10.0.0.2", zones("east")), endpoint("10.0.0.3", waiting)},
			choice{at("10.0.0.2"), nil, at("10.0.0.2"), true},
		},
		"nodes come before zones": {
			nil, []discoveryv1.Endpoint{endpoint("10.0.0.1", nodes("node-1", "east")), endpoint("10.0.0.11", nodes("node-2", "east"))},
			choice{at("10.0.0.1"), nil, at("10.0.0.1"), true},
		},
		"nodes, none for this one": {
			nil, []discoveryv1.Endpoint{endpoint("10.0.0.11", nodes("node-2", "west")), endpoint("10.0.0.12", nodes("node-3", "east"))},
			choice{at("10.0.0.12"), nil, nil, true},
		},
		"hints do not bind the local policy": {
			external, []discoveryv1.Endpoint{endpoint("10.0.0.1", zones("west")), endpoint("10.0.0.11", zones("east"))},
			choice{at("10.0.0.11"), at("10.0.0.1"), at("10.0.0.1"), true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := proxy.Of(service(row.service), []*discoveryv1.EndpointSlice{slice("a", row.endpoints...)}, here())[0]
			if have := (choice{got.Cluster, got.Local, got.Own, len(got.Serving) > 0}); !reflect.DeepEqual(have, row.want) {
				t.Errorf("got %v\nwant %v", have, row.want)
			}
		})
	}
}

func TestSlices(t *testing.T) {
	other, invalid, unnamed := slice("b", endpoint("10.0.0.2", nil)), slice("c", endpoint("10.0.0.3", nil)), slice("d", endpoint("10.0.0.4", nil))
	other.Ports[0].Name, invalid.Ports[0].Port, unnamed.Ports[0].Name = new("https"), nil, nil
	udp := slice("e", endpoint("10.0.0.5", nil))
	udp.Ports[0].Protocol = new(corev1.ProtocolUDP)
	second := slice("f", endpoint("10.0.0.6", nil), endpoint("10.0.0.1", nil))
	got := proxy.Of(service(nil), []*discoveryv1.EndpointSlice{second, other, invalid, unnamed, udp, slice("a", endpoint("10.0.0.1", nil))}, here())[0]
	if want := at("10.0.0.1", "10.0.0.6"); !reflect.DeepEqual(got.Cluster, want) {
		t.Errorf("got %v, want %v", got.Cluster, want)
	}
}
