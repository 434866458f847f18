package networking_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestKinds(t *testing.T) { registrytest.Kinds(t, networking.Kinds()) }

func TestIPAddress(t *testing.T) {
	type change = registrytest.Change[*networkingv1.IPAddress]
	k := registrytest.Find(t, networking.Kinds(), "ipaddresses")
	good := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.1"},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "a"}},
	}
	parent := func(f func(p *networkingv1.ParentReference)) func(*networkingv1.IPAddress) {
		return func(ip *networkingv1.IPAddress) { f(ip.Spec.ParentRef) }
	}
	registrytest.Create(t, k, good, []change{
		{Name: "of another group", To: parent(func(p *networkingv1.ParentReference) { p.Group, p.Namespace = "example.com", "" })},
		{Name: "for nothing", To: func(ip *networkingv1.IPAddress) { ip.Spec.ParentRef = nil }, Refused: []string{"spec.parentRef: Required value"}},
		{Name: "for half of something", To: parent(func(p *networkingv1.ParentReference) { p.Name, p.Resource, p.Group = "", "", "X" }), Refused: []string{
			`spec.parentRef.group: Invalid value: "X": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			"spec.parentRef.resource: Required value", "spec.parentRef.name: Required value"}},
		{Name: "for a path", To: parent(func(p *networkingv1.ParentReference) { p.Name, p.Resource, p.Namespace = "a/b", "..", "x%" }), Refused: []string{
			`spec.parentRef.resource: Invalid value: "..": may not be '..'`,
			`spec.parentRef.name: Invalid value: "a/b": may not contain '/'`,
			`spec.parentRef.namespace: Invalid value: "x%": may not contain '%'`}},
	})
	registrytest.Update(t, k, "", good, []change{
		{Name: "labels", To: func(ip *networkingv1.IPAddress) { ip.Labels = map[string]string{"a": "b"} }},
		{Name: "for another", To: parent(func(p *networkingv1.ParentReference) { p.Name = "b" }), Refused: []string{
			`spec.parentRef: Invalid value: null: field is immutable`}},
		{Name: "for nothing", To: func(ip *networkingv1.IPAddress) { ip.Spec.ParentRef = nil }, Refused: []string{
			"spec.parentRef: Required value", `spec.parentRef: Invalid value: null: field is immutable`}},
	})
	for name, want := range map[string][]string{
		"10.0.0.1": nil, "2001:db8::1": nil,
		"10.0.0.01":     {"must not have leading 0s"},
		"2001:db8:0::1": {`must be in canonical form ("2001:db8::1")`},
		"web":           {"must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"},
	} {
		if got := k.Rules.ValidateName(name, false); !slices.Equal(got, want) {
			t.Errorf("name %s: %q, want %q", name, got, want)
		}
	}
	if cells := k.Columns.Cells(good, time.Now()); fmt.Sprint(cells) != "[10.0.0.1 services/ns/a]" {
		t.Errorf("shown as %v", cells)
	}
	gateway := good.DeepCopy()
	gateway.Spec.ParentRef = &networkingv1.ParentReference{Group: "example.com", Resource: "Gateways", Name: "g"}
	if cells := k.Columns.Cells(gateway, time.Now()); fmt.Sprint(cells) != "[10.0.0.1 gateways.example.com/g]" {
		t.Errorf("shown as %v", cells)
	}
}

func TestServiceCIDR(t *testing.T) {
	type change = registrytest.Change[*networkingv1.ServiceCIDR]
	k := registrytest.Find(t, networking.Kinds(), "servicecidrs")
	networks := func(list ...string) func(*networkingv1.ServiceCIDR) {
		return func(c *networkingv1.ServiceCIDR) { c.Spec.CIDRs = list }
	}
	good := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	networks("10.0.0.0/24")(good)
	const sameFamily = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
	registrytest.Create(t, k, good, []change{
		{Name: "two families", To: networks("fd00::/112", "10.0.0.0/24")},
		{Name: "none", To: networks(), Refused: []string{"spec.cidrs: Required value: at least one CIDR required"}},
		{Name: "three", To: networks("a", "b", "c"), Refused: []string{`spec.cidrs: Invalid value: {"CIDRs":["a","b","c"]}: may only hold up to 2 values`}},
		{Name: "one family twice", To: networks("10.0.0.0/24", "10.1.0.0/24"), Refused: []string{
			`spec.cidrs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: ` + sameFamily}},
		{Name: "an address", To: networks("10.0.0.0"), Refused: []string{
			`spec.cidrs[0]: Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`}},
		{Name: "an address in a network", To: networks("10.0.0.1/24"), Refused: []string{
			`spec.cidrs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length`}},
	})
	registrytest.Update(t, k, "", good, []change{
		{Name: "another", To: networks("10.0.1.0/24"), Refused: []string{`spec.cidrs[0]: Invalid value: "10.0.1.0/24": field is immutable`}},
		{Name: "a second one", To: networks("10.0.0.0/24", "fd00::/112")},
		{Name: "a second one of the family", To: networks("10.0.0.0/24", "10.1.0.0/24"), Refused: []string{
			`spec.cidrs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: ` + sameFamily}},
		{Name: "two others", To: networks("10.0.1.0/24", "fd00::/112"), Refused: []string{`spec.cidrs[0]: Invalid value: "10.0.1.0/24": field is immutable`}},
		{Name: "none", To: networks(), Refused: []string{`spec.cidrs: Invalid value: null: field is immutable`}},
	})
	stored, next := good.DeepCopy(), good.DeepCopy()
	next.Status.Conditions = []metav1.Condition{networking.Ready()}
	created := next.DeepCopy()
	if registrytest.Prepare(k, created); len(created.Status.Conditions) > 0 {
		t.Error("created with a status")
	}
	if errs := registrytest.Replace(k, "", next.DeepCopy(), stored); len(errs) > 0 {
		t.Error(errs)
	}
	if registrytest.Replace(k, "", next, stored); len(next.Status.Conditions) > 0 {
		t.Error("the status came by an update")
	}
	networks("10.9.0.0/24")(next)
	next.Labels = map[string]string{"a": "b"}
	next.Status.Conditions = []metav1.Condition{networking.Ready()}
	if errs := registrytest.Replace(k, "status", next, stored); len(errs) > 0 {
		t.Error(errs)
	}
	if next.Spec.CIDRs[0] != "10.0.0.0/24" || next.Labels != nil || len(next.Status.Conditions) != 1 {
		t.Errorf("the status view changed more, or less: %+v", next)
	}
	stored.CreationTimestamp = metav1.NewTime(time.Unix(100, 0))
	if cells := k.Columns.Cells(stored, time.Unix(160, 0)); fmt.Sprint(cells) != "[a 10.0.0.0/24 60s]" {
		t.Errorf("shown as %v", cells)
	}
}

func ExampleDefault() {
	cidr := networking.Default([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00::/112")})
	fmt.Println(cidr.Name, cidr.Spec.CIDRs)
	// Output: kubernetes [10.96.0.0/12 fd00::/112]
}
