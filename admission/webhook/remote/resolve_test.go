package remote_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission/webhook/remote"
	"github.com/keelson-dev/keelson/informer"
)

var (
	_ remote.Services = (*informer.Informer[*corev1.Service])(nil)
	_ remote.Slices   = (*informer.Informer[*discoveryv1.EndpointSlice])(nil)
)

type services map[string]corev1.ServiceSpec

func (s services) Get(namespace, name string) (*corev1.Service, bool) {
	spec, ok := s[namespace+"/"+name]
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}, ok
}

type slicesOf []*discoveryv1.EndpointSlice

func (s slicesOf) List(namespace string) []*discoveryv1.EndpointSlice {
	if namespace != "ns" {
		return nil
	}
	return s
}

// cached returns services of all types. Their port 443 has no name, their port 8443 the name admin.
func cached() services {
	ports := []corev1.ServicePort{{Port: 443}, {Name: "admin", Port: 8443}}
	return services{
		"ns/cluster":  {Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.1", Ports: ports, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
		"ns/balancer": {Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "fd00::1", Ports: ports, IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol}},
		"ns/nodeport": {Type: corev1.ServiceTypeNodePort, ClusterIP: "10.0.0.2", Ports: ports},
		"ns/headless": {Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, Ports: ports},
		"ns/external": {Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"},
		"ns/odd":      {Type: "Odd", Ports: ports},
		"ns/idle":     {Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.3", Ports: ports},
	}
}

type resolution struct {
	service      string
	port         int32
	want, failed string
}

func resolves(t *testing.T, r remote.Resolver, all []resolution) {
	t.Helper()
	for _, test := range all {
		for range 20 { // whatever chance says
			got, err := r.Resolve(t.Context(), "ns", test.service, test.port)
			if got != test.want || (err == nil) != (test.failed == "") || err != nil && err.Error() != test.failed {
				t.Errorf("%s:%d: %q, %v", test.service, test.port, got, err)
				break
			}
		}
	}
}

func TestClusterIP(t *testing.T) {
	resolves(t, remote.ClusterIP(cached()), []resolution{
		{"cluster", 443, "10.0.0.1:443", ""},
		{"cluster", 8443, "10.0.0.1:8443", ""},
		{"cluster", 80, "", `no service port 80 found for service "cluster"`},
		{"balancer", 443, "[fd00::1]:443", ""},
		{"nodeport", 443, "10.0.0.2:443", ""},
		{"headless", 443, "", `cannot route to service with ClusterIP "None"`},
		{"external", 7443, "example.com:7443", ""},
		{"odd", 443, "", `unsupported service type "Odd"`},
		{"gone", 443, "", `service "gone" not found`},
	})
}

func TestEndpoints(t *testing.T) {
	slice := func(service string, family discoveryv1.AddressType, port *string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			AddressType: family, Endpoints: endpoints,
			Ports: []discoveryv1.EndpointPort{{Name: nil, Port: new(int32(1))}, {Name: port}, {Name: port, Port: new(int32(9443))}},
		}
	}
	at := func(address string, ready *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
	}
	none, admin := new(""), new("admin")
	all := slicesOf{
		slice("other", discoveryv1.AddressTypeIPv4, none, at("10.9.9.9", nil)),
		slice("cluster", discoveryv1.AddressTypeIPv6, none, at("fd00::9", nil)),
		slice("cluster", discoveryv1.AddressTypeIPv4, none, at("10.1.0.1", new(false)), discoveryv1.Endpoint{}, at("10.1.0.2", new(true))),
		slice("cluster", discoveryv1.AddressTypeIPv4, admin, at("10.1.0.3", nil)),
		slice("balancer", discoveryv1.AddressTypeIPv4, none, at("10.1.0.4", nil)),
		slice("balancer", discoveryv1.AddressTypeIPv6, none, at("fd00::4", new(false))),
		slice("nodeport", discoveryv1.AddressTypeIPv6, none, at("fd00::5", nil)),
		slice("headless", discoveryv1.AddressTypeIPv4, none, at("10.1.0.6", nil)),
	}
	all[len(all)-1].Ports = all[len(all)-1].Ports[2:]
	resolves(t, remote.Endpoints(cached(), all), []resolution{
		{"cluster", 443, "10.1.0.2:9443", ""},
		{"cluster", 8443, "10.1.0.3:9443", ""},
		{"cluster", 80, "", `no service port 80 found for service "cluster"`},
		{"balancer", 443, "10.1.0.4:9443", ""}, // of the other family
		{"nodeport", 443, "[fd00::5]:9443", ""},
		{"headless", 443, "10.1.0.6:9443", ""},
		{"external", 443, "", `unsupported service type "ExternalName"`},
		{"idle", 443, "", `no endpoints available for service "idle"`},
		{"gone", 443, "", `service "gone" not found`},
	})
	// All ready endpoints get requests.
	both := slicesOf{slice("cluster", discoveryv1.AddressTypeIPv4, none, at("10.1.0.1", nil)), slice("cluster", discoveryv1.AddressTypeIPv4, none, at("10.1.0.2", nil))}
	seen := map[string]bool{}
	for range 200 {
		address, err := remote.Endpoints(cached(), both).Resolve(t.Context(), "ns", "cluster", 443)
		if err != nil {
			t.Fatal(err)
		}
		seen[address] = true
	}
	if len(seen) != 2 {
		t.Errorf("resolved to %v", seen)
	}
}

// cache is a cache with one service.
type cache struct{}

func (cache) Get(namespace, name string) (*corev1.Service, bool) {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Port: 443}},
	}}, true
}

func ExampleClusterIP() {
	resolver := remote.ClusterIP(cache{}) // in a server, an informer of services
	fmt.Println(resolver.Resolve(context.Background(), "ns", "hook", 443))
	// Output: 10.0.0.1:443 <nil>
}
