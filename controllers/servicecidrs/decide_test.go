package servicecidrs_test

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/servicecidrs"
)

// cidr is a ServiceCIDR of networks that commas separate.
func cidr(name, networks string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: strings.Split(networks, ",")}}
}

// address is the address of a service.
func address(ip string) *networkingv1.IPAddress {
	family := "IPv4"
	if strings.Contains(ip, ":") {
		family = "IPv6"
	}
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": family}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "s"}},
	}
}

func TestRemovable(t *testing.T) {
	for name, test := range map[string]struct {
		networks  string            // of the one that is to go
		others    map[string]string // and their networks
		addresses []string
		want      bool
	}{
		"unused":                       {networks: "10.0.0.0/24", want: true},
		"used":                         {networks: "10.0.0.0/24", addresses: []string{"10.0.0.1"}},
		"used, of two families":        {networks: "10.0.0.0/24,fd00::/112", addresses: []string{"fd00::1"}},
		"others are used":              {networks: "10.0.0.0/24", addresses: []string{"10.0.1.1", "fd00::1"}, want: true},
		"another is used":              {networks: "10.0.0.0/24", others: map[string]string{"b": "10.1.0.0/24"}, addresses: []string{"10.1.0.1"}, want: true},
		"in a larger one":              {networks: "10.0.0.0/24", others: map[string]string{"b": "10.0.0.0/16"}, addresses: []string{"10.0.0.1"}, want: true},
		"another is the same":          {networks: "10.0.0.0/24", others: map[string]string{"b": "10.0.0.0/24"}, addresses: []string{"10.0.0.1"}, want: true},
		"another is smaller":           {networks: "10.0.0.0/24", others: map[string]string{"b": "10.0.0.0/28"}, addresses: []string{"10.0.0.17"}},
		"a smaller one has the user":   {networks: "10.0.0.0/24", others: map[string]string{"b": "10.0.0.0/28"}, addresses: []string{"10.0.0.1"}, want: true},
		"the last of the smaller":      {networks: "10.0.0.0/24", others: map[string]string{"b": "10.0.0.0/28"}, addresses: []string{"10.0.0.15"}},
		"the first of the smaller":     {networks: "10.0.0.0/24", others: map[string]string{"b": "10.0.0.16/28"}, addresses: []string{"10.0.0.16"}},
		"the last of one of IPv6":      {networks: "fd00::/112", others: map[string]string{"b": "fd00::/124"}, addresses: []string{"fd00::f"}, want: true},
		"one family is in another":     {networks: "10.0.0.0/24,fd00::/112", others: map[string]string{"b": "10.0.0.0/16"}, addresses: []string{"fd00::1"}},
		"both families are in others":  {networks: "10.0.0.0/24,fd00::/112", others: map[string]string{"b": "10.0.0.0/16", "c": "fd00::/64"}, addresses: []string{"fd00::1"}, want: true},
		"neighbours do not help":       {networks: "10.0.0.0/24", others: map[string]string{"b": "10.0.1.0/24"}, addresses: []string{"10.0.0.1"}},
		"its first address is no user": {networks: "10.0.0.0/24", addresses: []string{"10.0.0.0"}, want: true},
		"its last address is no user":  {networks: "10.0.0.0/24", addresses: []string{"10.0.0.255"}, want: true},
		"not of services":              {networks: "10.0.0.0/24", addresses: []string{"foreign 10.0.0.1"}, want: true},
		"the whole of IPv4":            {networks: "0.0.0.0/0", addresses: []string{"1.2.3.4"}},
	} {
		t.Run(name, func(t *testing.T) {
			gone := cidr("a", test.networks)
			all := []*networkingv1.ServiceCIDR{gone}
			for name, networks := range test.others {
				all = append(all, cidr(name, networks))
			}
			var addresses []*networkingv1.IPAddress
			for _, text := range test.addresses {
				ip, foreign := strings.CutPrefix(text, "foreign ")
				a := address(ip)
				if foreign {
					a.Labels["ipaddress.kubernetes.io/managed-by"] = "example.com"
				}
				addresses = append(addresses, a)
			}
			if got := servicecidrs.Removable(gone, all, addresses); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
