package proxy_test

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/proxy"
)

// Where do packets to a service go?
func Example() {
	port, name := int32(8080), ""
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.10", Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-1"},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.64.0.7"}}},
	}
	tables := proxy.Tables{Services: map[proxy.Service][]proxy.Port{
		{Namespace: "default", Name: "web"}: proxy.Of(service, []*discoveryv1.EndpointSlice{slice}, proxy.Node{}),
	}}
	decision := tables.Decide(proxy.Packet{
		From: netip.MustParseAddr("10.64.0.3"), To: netip.MustParseAddrPort("10.96.0.10:80"), Protocol: corev1.ProtocolTCP,
	})
	fmt.Println(decision.Action, decision.Endpoints)
	// Output: forward [10.64.0.7:8080]
}
