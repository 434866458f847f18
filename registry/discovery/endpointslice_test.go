package discovery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type slice = discoveryv1.EndpointSlice

func good() *slice {
	return &slice{
		ObjectMeta:  metav1.ObjectMeta{Name: "s", Namespace: "ns", Labels: map[string]string{"a": "b"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80))}, {Port: new(int32(81))}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, NodeName: new("n"), Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z"}}}},
			{Addresses: []string{"10.0.0.2"}},
		},
	}
}

const (
	notIP    = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
	notLabel = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)

func addresses(list ...string) func(*slice) {
	return func(s *slice) { s.Endpoints[0].Addresses = list }
}

func TestEndpoints(t *testing.T) {
	k := registrytest.Find(t, discovery.Kinds(), "endpointslices")
	changes := []registrytest.Change[*slice]{
		{Name: "no endpoints, no ports", To: func(s *slice) { s.Endpoints, s.Ports = nil, nil }},
		{Name: "no address", To: addresses(), Refused: []string{`endpoints[0].addresses: Required value`}},
		{Name: "many addresses", To: addresses(slices.Repeat([]string{"10.0.0.1"}, 101)...), Refused: []string{
			`endpoints[0].addresses: Too many: 101: must have at most 100 items`}},
		{Name: "not an address", To: addresses("x"), Refused: []string{`endpoints[0].addresses[0]: Invalid value: "x": ` + notIP}},
		{Name: "leading zeros", To: addresses("010.0.0.1"), Refused: []string{
			`endpoints[0].addresses[0]: Invalid value: "010.0.0.1": must not have leading 0s`}},
		{Name: "the other family", To: addresses("fd00::1"), Refused: []string{
			`endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address`}},
		{Name: "loopback", To: addresses("127.0.0.1"), Refused: []string{
			`endpoints[0].addresses[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`}},
		{Name: "unspecified", To: addresses("0.0.0.0"), Refused: []string{
			`endpoints[0].addresses[0]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)`}},
		{Name: "link-local", To: addresses("169.254.0.1", "224.0.0.1"), Refused: []string{
			`endpoints[0].addresses[0]: Invalid value: "169.254.0.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)`,
			`endpoints[0].addresses[1]: Invalid value: "224.0.0.1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)`}},
		{Name: "bad node and host", To: func(s *slice) { s.Endpoints[1].NodeName, s.Endpoints[1].Hostname = new("-"), new("A.B") }, Refused: []string{
			`endpoints[1].nodeName: Invalid value: "-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			`endpoints[1].hostname: Invalid value: "A.B": ` + notLabel}},
		{Name: "zone twice", To: func(s *slice) { s.Endpoints[0].Hints.ForZones = slices.Repeat(s.Endpoints[0].Hints.ForZones, 2) }, Refused: []string{
			`endpoints[0].hints.forZones[1].name: Duplicate value: "z"`}},
		{Name: "many nodes hinted", To: func(s *slice) {
			s.Endpoints[0].Hints.ForNodes = make([]discoveryv1.ForNode, 9)
		}, Refused: []string{`endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items`}},
		{Name: "many endpoints", To: func(s *slice) { s.Endpoints = slices.Repeat(s.Endpoints[1:], 1001) }, Refused: []string{
			`endpoints: Too many: 1001: must have at most 1000 items`}},
	}
	registrytest.Create(t, k, good(), changes)
	registrytest.Update(t, k, "", good(), changes)
}

func TestPortsAndType(t *testing.T) {
	k := registrytest.Find(t, discovery.Kinds(), "endpointslices")
	ports := []registrytest.Change[*slice]{
		{Name: "name twice", To: func(s *slice) { s.Ports[1].Name = new("http") }, Refused: []string{
			`ports[1].name: Duplicate value: "http"`}},
		{Name: "bad name", To: func(s *slice) { s.Ports[0].Name = new("A") }, Refused: []string{
			`ports[0].name: Invalid value: "A": ` + notLabel}},
		{Name: "bad protocol", To: func(s *slice) { s.Ports[0].Protocol = new(corev1.Protocol("ICMP")) }, Refused: []string{
			`ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`}},
		{Name: "many", To: func(s *slice) { s.Ports = make([]discoveryv1.EndpointPort, 20001) }, Refused: []string{
			`ports: Too many: 20001: must have at most 20000 items`}},
	}
	registrytest.Create(t, k, good(), append(ports, []registrytest.Change[*slice]{
		{Name: "no type", To: func(s *slice) { s.AddressType = "" }, Refused: []string{`addressType: Required value`}},
		{Name: "unknown type", To: func(s *slice) { s.AddressType = "X25" }, Refused: []string{
			`addressType: Unsupported value: "X25": supported values: "FQDN", "IPv4", "IPv6"`}},
		{Name: "IPv6", To: func(s *slice) {
			s.AddressType, s.Endpoints[0].Addresses, s.Endpoints[1].Addresses = discoveryv1.AddressTypeIPv6, []string{"fd00::1"}, []string{"10.0.0.1"}
		}, Refused: []string{`endpoints[1].addresses: Invalid value: "10.0.0.1": must be an IPv6 address`}},
		{Name: "names", To: func(s *slice) {
			s.AddressType, s.Endpoints[0].Addresses, s.Endpoints[1].Addresses = discoveryv1.AddressTypeFQDN, []string{"foo.bar"}, []string{"foo"}
		}, Refused: []string{
			`endpoints[1].addresses[0]: Invalid value: "foo": should be a domain with at least two segments separated by dots`}},
	}...))
	registrytest.Update(t, k, "", good(), append(ports, []registrytest.Change[*slice]{
		{Name: "type cleared", To: func(s *slice) { s.AddressType = "" }, Refused: []string{
			`addressType: Required value`, `addressType: Invalid value: null: field is immutable`}},
		{Name: "type to unknown", To: func(s *slice) { s.AddressType = "X25" }, Refused: []string{
			`addressType: Unsupported value: "X25": supported values: "FQDN", "IPv4", "IPv6"`, `addressType: Invalid value: null: field is immutable`}},
	}...))
}

func TestOldEndpointsStay(t *testing.T) {
	k := registrytest.Find(t, discovery.Kinds(), "endpointslices")
	old := good()
	old.Endpoints[0].Addresses = []string{"127.0.0.1"}
	obj := old.DeepCopy()
	obj.Labels["new"] = "label"
	if errs := registrytest.Replace(k, "", obj, old); len(errs) > 0 {
		t.Error(errs)
	}
}

func TestPrepare(t *testing.T) {
	k := registrytest.Find(t, discovery.Kinds(), "endpointslices")
	obj := good()
	obj.Endpoints[1].DeprecatedTopology = map[string]string{corev1.LabelHostname: "elsewhere"}
	registrytest.Prepare(k, obj)
	if obj.Generation != 1 || *obj.Ports[0].Protocol != corev1.ProtocolTCP || *obj.Ports[1].Name != "" {
		t.Errorf("created as %+v", obj)
	}
	if e := obj.Endpoints[1]; e.DeprecatedTopology != nil || e.NodeName != nil {
		t.Errorf("topology was kept: %+v", e)
	}
	for name, change := range map[string]func(*slice){
		"":           func(*slice) {},
		"annotation": func(s *slice) { s.Annotations = map[string]string{"a": "b"} },
		"1 label":    func(s *slice) { s.Labels["x"] = "y" },
		"1 port":     func(s *slice) { s.Ports[0].Port = new(int32(8080)) },
		"1 endpoint": func(s *slice) { s.Endpoints = s.Endpoints[:1] },
	} {
		next := obj.DeepCopy()
		change(next)
		registrytest.Replace(k, "", next, obj)
		if raised := next.Generation == 2; raised != strings.HasPrefix(name, "1 ") {
			t.Errorf("%q: generation %d", name, next.Generation)
		}
	}
	// A node name that was only in the old field moves to the new one.
	old := obj.DeepCopy()
	old.Endpoints[1].DeprecatedTopology = map[string]string{corev1.LabelHostname: "there"}
	next := old.DeepCopy()
	next.Endpoints[1].Conditions.Ready = new(true)
	registrytest.Replace(k, "", next, old)
	if e := next.Endpoints[1]; e.NodeName == nil || *e.NodeName != "there" || e.DeprecatedTopology != nil {
		t.Errorf("moved to %+v", e)
	}
}

func ExampleKinds() {
	for _, k := range discovery.Kinds() {
		fmt.Println(k.GroupVersion, k.Plural)
	}
	// Output: discovery.k8s.io/v1 endpointslices
}
