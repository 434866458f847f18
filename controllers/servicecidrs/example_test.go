package servicecidrs_test

import (
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/servicecidrs"
)

// Whether a network of cluster IPs may go is a function of the others and of the addresses in use.
func ExampleRemovable() {
	old := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/24"}}}
	larger := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "larger"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}}
	used := []*networkingv1.IPAddress{{ObjectMeta: metav1.ObjectMeta{
		Name: "10.96.0.1", Labels: map[string]string{networkingv1.LabelManagedBy: "ipallocator.k8s.io"},
	}}}
	fmt.Println(servicecidrs.Removable(old, []*networkingv1.ServiceCIDR{old}, used))
	fmt.Println(servicecidrs.Removable(old, []*networkingv1.ServiceCIDR{old, larger}, used))
	// Output:
	// false
	// true
}
