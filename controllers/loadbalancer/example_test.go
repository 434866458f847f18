package loadbalancer_test

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers/loadbalancer"
)

// Which address a service gets is a function of the ranges and of what is taken.
func ExampleAssign() {
	taken := netip.MustParseAddr("192.0.2.1")
	addresses, err := loadbalancer.Assign(&corev1.Service{}, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		func(ip netip.Addr) bool { return ip == taken })
	fmt.Println(addresses, err)
	// Output: [192.0.2.2] <nil>
}
