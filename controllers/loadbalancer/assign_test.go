package loadbalancer_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers/loadbalancer"
)

func TestAssign(t *testing.T) {
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	for name, test := range map[string]struct {
		ranges   string
		families []corev1.IPFamily
		asked    string // the spec's address
		has      string
		taken    string
		want     string
		err      error
	}{
		"the first that is usable":      {ranges: "10.0.0.0/24", want: "10.0.0.1"},
		"the next":                      {ranges: "10.0.0.0/24", taken: "10.0.0.1", want: "10.0.0.2"},
		"the next range":                {ranges: "10.0.0.1/32,10.0.1.0/24", taken: "10.0.0.1", want: "10.0.1.1"},
		"not the last":                  {ranges: "10.0.0.0/30", taken: "10.0.0.1,10.0.0.2", err: loadbalancer.ErrExhausted},
		"both of a pair":                {ranges: "10.0.0.0/31", taken: "10.0.0.0", want: "10.0.0.1"},
		"from any address of a range":   {ranges: "10.0.0.7/24", want: "10.0.0.1"},
		"what it has":                   {ranges: "10.0.0.0/24", has: "10.0.0.9", want: "10.0.0.9"},
		"what it has of another family": {ranges: "fd00::/64,10.0.0.0/24", has: "fd00::5", want: "10.0.0.1"},
		"what it has is taken":          {ranges: "10.0.0.0/24", has: "10.0.0.9", taken: "10.0.0.9", want: "10.0.0.1"},
		"what it has is in no range":    {ranges: "10.0.0.0/24", has: "10.1.0.9", want: "10.0.0.1"},
		"what it asks for":              {ranges: "10.0.0.0/24", asked: "10.0.0.9", has: "10.0.0.1", want: "10.0.0.9"},
		"that is taken":                 {ranges: "10.0.0.0/24", asked: "10.0.0.9", taken: "10.0.0.9", err: loadbalancer.ErrUnavailable},
		"that is in no range":           {ranges: "10.0.0.0/24", asked: "10.1.0.9", err: loadbalancer.ErrUnavailable},
		"that is no address":            {ranges: "10.0.0.0/24", asked: "x", err: loadbalancer.ErrUnavailable},
		"both families":                 {ranges: "fd00::/120,10.0.0.0/24", families: []corev1.IPFamily{v4, v6}, want: "10.0.0.1,fd00::"},
		"the order of families":         {ranges: "fd00::/120,10.0.0.0/24", families: []corev1.IPFamily{v6, v4}, want: "fd00::,10.0.0.1"},
		"a family without a range":      {ranges: "10.0.0.0/24", families: []corev1.IPFamily{v6, v4}, want: "10.0.0.1"},
		"no range at all":               {ranges: "10.0.0.0/24", families: []corev1.IPFamily{v6}, err: loadbalancer.ErrNoRange},
		"one of two is exhausted":       {ranges: "fd00::1/128,10.0.0.0/24", families: []corev1.IPFamily{v4, v6}, taken: "fd00::1", err: loadbalancer.ErrExhausted},
		"the end of all addresses":      {ranges: "255.255.255.255/32", taken: "255.255.255.255", err: loadbalancer.ErrExhausted},
		"a wide range of IPv6":          {ranges: "fd00::/16", families: []corev1.IPFamily{v6}, want: "fd00::"},
		"more addresses than are tried": {ranges: "fd00::/64", families: []corev1.IPFamily{v6}, want: "fd00::"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Service{}
			s.Spec.IPFamilies, s.Spec.LoadBalancerIP = test.families, test.asked
			if test.has != "" {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "x"}, {IP: test.has}}
			}
			var ranges []netip.Prefix
			for text := range strings.SplitSeq(test.ranges, ",") {
				ranges = append(ranges, netip.MustParsePrefix(text))
			}
			got, err := loadbalancer.Assign(s, ranges, func(ip netip.Addr) bool {
				return slices.Contains(strings.Split(test.taken, ","), ip.String())
			})
			var texts []string
			for _, ip := range got {
				texts = append(texts, ip.String())
			}
			if strings.Join(texts, ",") != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %v, %v", texts, err)
			}
		})
	}
}
