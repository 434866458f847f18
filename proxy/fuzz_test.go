package proxy_test

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/memory"
)

// hostile are addresses that may be in objects that somebody else has written.
func hostile() []string {
	return []string{
		"10.64.0.1", "10.64.0.2", "192.0.2.1", "fd64::1", "fd64::2", "::ffff:10.64.0.1", "::10.64.0.1", "fe80::1%eth0", "010.064.000.001", "10.96.0.1", "fd96::1",
		"0.0.0.0", "::", "127.0.0.1", "::1", "255.255.255.255", "ff02::1", "", "None", "example.com", "10.64.0.1/32", "1.2.3", "-1", " 10.64.0.1",
	}
}

// source makes objects out of bytes; when they end, everything is the first of its kind.
type source struct{ rest []byte }

func (s *source) below(n int) int {
	if len(s.rest) == 0 {
		return 0
	}
	b := int(s.rest[0])
	s.rest = s.rest[1:]
	return b % n
}

func choose[T any](s *source, all ...T) T { return all[s.below(len(all))] }

func (s *source) addresses(most int) (all []string) {
	for range s.below(most + 1) {
		all = append(all, choose(s, hostile()...))
	}
	return all
}

func (s *source) truth() *bool { return choose(s, nil, new(true), new(false)) }

func (s *source) service() *corev1.Service {
	v := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	v.Spec = corev1.ServiceSpec{
		Type:       choose(s, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName, "other"),
		ClusterIPs: s.addresses(3), ClusterIP: choose(s, hostile()...), ExternalIPs: s.addresses(3),
		ExternalTrafficPolicy: choose(s, "", corev1.ServiceExternalTrafficPolicyLocal, corev1.ServiceExternalTrafficPolicyCluster),
		InternalTrafficPolicy: choose(s, nil, new(corev1.ServiceInternalTrafficPolicyLocal)), HealthCheckNodePort: choose[int32](s, 0, 32000),
		SessionAffinity: choose(s, corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP),
	}
	for _, a := range s.addresses(3) {
		v.Spec.LoadBalancerSourceRanges = append(v.Spec.LoadBalancerSourceRanges, a+choose(s, "/32", "/0", "/129", "", "/-1"))
		v.Status.LoadBalancer.Ingress = append(v.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: choose(s, hostile()...)})
	}
	for i := range choose(s, 1, 0, 2, 1000) {
		v.Spec.Ports = append(v.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprint(i), Port: int32(1 + i), Protocol: choose(s, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP, ""),
			NodePort: choose[int32](s, 0, 30000),
		})
	}
	return v
}

func (s *source) slice(number int) *discoveryv1.EndpointSlice {
	v := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("a-", number)},
		AddressType: choose(s, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN, "other"),
	}
	for i := range choose(s, 1, 0, 2, 1000) {
		v.Ports = append(v.Ports, discoveryv1.EndpointPort{
			Name: choose(s, new(fmt.Sprint(i)), nil, new("0"), new("")), Port: choose(s, new(int32(8080)), nil, new(int32(0)), new(int32(-1)), new(int32(65536))),
			Protocol: choose(s, new(corev1.ProtocolTCP), nil, new(corev1.ProtocolUDP), new(corev1.Protocol("other"))),
		})
	}
	for range s.below(8) {
		e := discoveryv1.Endpoint{
			Addresses: s.addresses(3), NodeName: choose(s, nil, new("node-1"), new("node-2"), new("")),
			Conditions: discoveryv1.EndpointConditions{Ready: s.truth(), Serving: s.truth(), Terminating: s.truth()},
		}
		if s.below(2) == 1 {
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: choose(s, "east", "west", "")}}}
			for range s.below(2) {
				e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: choose(s, "node-1", "")})
			}
		}
		v.Endpoints = append(v.Endpoints, e)
	}
	return v
}

// FuzzOf decides on objects as no API server stores them, and holds what comes out to what writers rely on.
func FuzzOf(f *testing.F) {
	for _, seed := range []string{"", "\x01\x01\x00\x00\x00", "\x02\x03\x00\x03\x0a\x01\x00\x01\x01\x01\x01\x01\x02\x03\x00\x05\x01"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &source{data}
		service := s.service()
		var all []*discoveryv1.EndpointSlice
		endpoints := 0
		for i := range s.below(6) {
			all = append(all, s.slice(i))
			endpoints += len(all[i].Endpoints) * len(all[i].Ports)
		}
		ports := proxy.Of(service, all, here())
		if len(ports) > 2*len(service.Spec.Ports) {
			t.Fatalf("%d ports of %d", len(ports), len(service.Spec.Ports))
		}
		for i := range ports {
			sound(t, &ports[i], endpoints)
		}
		for _, c := range proxy.ChecksOf(service, all, here()) {
			if c.Endpoints > endpoints || c.Port != 32000 {
				t.Errorf("%+v of %d endpoints", c, endpoints)
			}
		}
		agree(t, ports)
	})
}

// sound holds a port to what its fields promise.
func sound(t *testing.T, p *proxy.Port, most int) {
	t.Helper()
	for name, list := range map[string][]netip.AddrPort{"cluster": p.Cluster, "local": p.Local, "own": p.Own, "serving": p.Serving} {
		if !slices.IsSortedFunc(list, netip.AddrPort.Compare) || len(slices.Compact(slices.Clone(list))) != len(list) || len(list) > most {
			t.Errorf("%s of %s: %v", name, p, list)
		}
		for _, e := range list {
			if e.Addr().Is6() != p.Is6() || e.Addr().Zone() != "" || e.Addr().Is4In6() || e.Port() == 0 {
				t.Errorf("%s of %s has %s", name, p, e)
			}
		}
	}
	for _, e := range p.Own {
		if !slices.Contains(p.Cluster, e) && !slices.Contains(p.Local, e) {
			t.Errorf("own of %s has %s, which nobody is sent to", p, e)
		}
	}
	for _, e := range slices.Concat(p.Cluster, p.Local) {
		if !slices.Contains(p.Serving, e) {
			t.Errorf("%s sends to %s, which does not serve", p, e)
		}
	}
	for _, a := range append(p.Addresses(), p.ClusterIP) {
		if a.Is6() != p.Is6() || a.Zone() != "" {
			t.Errorf("%s is reached by %s", p, a)
		}
	}
	for _, r := range p.Sources {
		if r.Addr().Is6() != p.Is6() || r != r.Masked() || r.Bits() == 0 {
			t.Errorf("%s is reached from %s", p, r)
		}
	}
}

// agree compares what the writer in memory decides with what the tables say.
func agree(t *testing.T, ports []proxy.Port) {
	t.Helper()
	tables := proxy.Tables{Services: map[proxy.Service][]proxy.Port{{Namespace: "default", Name: "a"}: ports}}
	w := memory.New()
	if err := w.Sync(context.Background(), tables); err != nil {
		t.Fatal(err)
	}
	for i := range ports[:min(len(ports), 20)] {
		for _, a := range append(ports[i].Addresses(), ports[i].ClusterIP) {
			p := proxy.Packet{From: netip.MustParseAddr("10.64.0.1"), To: netip.AddrPortFrom(a, ports[i].Port), Protocol: ports[i].Protocol}
			if got, want := w.Decide(p), tables.Decide(p); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: %+v, want %+v", p, got, want)
			}
		}
	}
}
