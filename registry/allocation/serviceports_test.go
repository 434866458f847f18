package allocation_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/registry/allocation"
)

// TestServicePorts: a node port for several protocols counts once; one that appears twice for the same protocol
// counts twice.
func TestServicePorts(t *testing.T) {
	port := func(n int32, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{NodePort: n, Protocol: protocol}
	}
	const tcp, udp = corev1.ProtocolTCP, corev1.ProtocolUDP
	for name, tt := range map[string]struct {
		kind   corev1.ServiceType
		ports  []corev1.ServicePort
		health int32
		want   []int
	}{
		"none of a type that has none": {"ClusterIP", []corev1.ServicePort{port(1, tcp)}, 2, nil},
		"node ports":                   {"NodePort", []corev1.ServicePort{port(1, tcp), port(2, tcp), port(0, tcp), port(0, tcp)}, 0, []int{1, 2}},
		"of a load balancer":           {"LoadBalancer", []corev1.ServicePort{port(1, tcp)}, 0, []int{1}},
		"two protocols":                {"NodePort", []corev1.ServicePort{port(1, tcp), port(1, udp)}, 0, []int{1}},
		"one protocol twice":           {"NodePort", []corev1.ServicePort{port(1, tcp), port(1, udp), port(1, udp)}, 0, []int{1, 1}},
		"health":                       {"LoadBalancer", []corev1.ServicePort{port(1, tcp)}, 3, []int{1, 3}},
		"health of another protocol":   {"LoadBalancer", []corev1.ServicePort{port(1, udp)}, 1, []int{1}},
		"health of the same":           {"LoadBalancer", []corev1.ServicePort{port(1, tcp)}, 1, []int{1, 1}},
	} {
		svc := &corev1.Service{Spec: corev1.ServiceSpec{Type: tt.kind, Ports: tt.ports, HealthCheckNodePort: tt.health}}
		if got := allocation.ServicePorts(svc); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestInvalidPortRanges(t *testing.T) {
	for _, text := range []string{"", "1", "1-", "-1", "a-2", "1-b", "0-1", "2-1", "1-65536"} {
		if r, err := allocation.ParsePortRange(text); err == nil {
			t.Errorf("%q is %v", text, r)
		}
	}
	for text, want := range map[string]allocation.PortRange{"1-1": {First: 1, Size: 1}, "1-65535": {First: 1, Size: 65535}} {
		if r, err := allocation.ParsePortRange(" " + text + "\n"); err != nil || r != want {
			t.Errorf("%q is %v, %v", text, r, err)
		}
	}
}
