package overlay_test

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/overlay"
)

// Where one host sends the packets to pods of two others: one is beside it, one behind a router.
func ExampleDecide() {
	of := func(name, network, address string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: []string{network}},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
		}
	}
	nodes := []*corev1.Node{of("a", "10.64.0.0/24", "192.0.2.1"), of("b", "10.64.1.0/24", "192.0.2.2"), of("c", "10.64.2.0/24", "198.51.100.3")}
	table, _ := overlay.Decide("a", nodes, overlay.Underlay{
		Device: "eth0", MTU: 1500, Address: netip.MustParseAddr("192.0.2.1"), Segments: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	}, overlay.Settings{Networks: []netip.Prefix{netip.MustParsePrefix("10.64.0.0/10")}})
	for _, r := range table.Routes {
		fmt.Println(r.Network, "by", r.Address, "in VXLAN:", r.Encapsulated)
	}
	fmt.Println("packets of pods have at most", overlay.MTU(table.Underlay), "bytes")
	// Output:
	// 10.64.1.0/24 by 192.0.2.2 in VXLAN: false
	// 10.64.2.0/24 by 198.51.100.3 in VXLAN: true
	// packets of pods have at most 1450 bytes
}
