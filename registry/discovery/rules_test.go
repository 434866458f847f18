package discovery_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/api/discovery/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestKinds(t *testing.T) {
	registrytest.Kinds(t, discovery.Kinds())
	if !registrytest.Find(t, discovery.Kinds(), "endpointslices").Namespaced {
		t.Error("slices are in no namespace")
	}
}

// TestLimits: the maximum is accepted, one more is not.
func TestLimits(t *testing.T) {
	k := registrytest.Find(t, discovery.Kinds(), "endpointslices")
	ports := func(n int) func(*slice) {
		return func(s *slice) {
			s.Ports = make([]discoveryv1.EndpointPort, n)
			for i := range s.Ports {
				s.Ports[i].Name = new(fmt.Sprintf("p%d", i))
			}
		}
	}
	endpoints := func(n int) func(*slice) {
		return func(s *slice) { s.Endpoints = slices.Repeat(s.Endpoints[1:], n) }
	}
	zones := func(n int) func(*slice) {
		return func(s *slice) {
			s.Endpoints[0].Hints.ForZones = nil
			for i := range n {
				s.Endpoints[0].Hints.ForZones = append(s.Endpoints[0].Hints.ForZones, discoveryv1.ForZone{Name: fmt.Sprintf("z%d", i)})
			}
		}
	}
	nodes := func(n int) func(*slice) {
		return func(s *slice) {
			for i := range n {
				s.Endpoints[0].Hints.ForNodes = append(s.Endpoints[0].Hints.ForNodes, discoveryv1.ForNode{Name: fmt.Sprintf("n%d", i)})
			}
		}
	}
	changes := []registrytest.Change[*slice]{
		{Name: "ports", To: ports(20000)},
		{Name: "a port more", To: ports(20001), Refused: []string{`ports: Too many: 20001: must have at most 20000 items`}},
		{Name: "endpoints", To: endpoints(1000)},
		{Name: "an endpoint more", To: endpoints(1001), Refused: []string{`endpoints: Too many: 1001: must have at most 1000 items`}},
		{Name: "addresses", To: addresses(slices.Repeat([]string{"10.0.0.1"}, 100)...)},
		{Name: "an address more", To: addresses(slices.Repeat([]string{"10.0.0.1"}, 101)...), Refused: []string{
			`endpoints[0].addresses: Too many: 101: must have at most 100 items`}},
		{Name: "zones", To: zones(8)},
		{Name: "a zone more", To: zones(9), Refused: []string{`endpoints[0].hints.forZones: Too many: 9: must have at most 8 items`}},
		{Name: "nodes", To: nodes(8)},
		{Name: "a node more", To: nodes(9), Refused: []string{`endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items`}},
	}
	registrytest.Create(t, k, good(), changes)
	registrytest.Update(t, k, "", good(), changes)
}

func TestHintsAndPorts(t *testing.T) {
	k := registrytest.Find(t, discovery.Kinds(), "endpointslices")
	hints := func(h *discoveryv1.EndpointHints) func(*slice) {
		return func(s *slice) { s.Endpoints[0].Hints = h }
	}
	changes := []registrytest.Change[*slice]{
		{Name: "no hints", To: hints(nil)},
		{Name: "node twice", To: hints(&discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: "a"}, {Name: "b"}, {Name: "a"}}}), Refused: []string{
			`endpoints[0].hints.forNodes[2].name: Duplicate value: "a"`}},
		{Name: "a node with a zone's name", To: hints(&discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}}, ForNodes: []discoveryv1.ForNode{{Name: "a"}}})},
		{Name: "no zone", To: hints(&discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "-"}}, ForNodes: []discoveryv1.ForNode{{Name: "-"}}}), Refused: []string{
			`endpoints[0].hints.forZones[0].name: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
			`endpoints[0].hints.forNodes[0].name: Invalid value: "-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
		{Name: "hints, host and node", To: func(s *slice) { s.Endpoints[1].Hostname, s.Endpoints[1].NodeName = new("a"), new("a.b") }},
		{Name: "application's protocol", To: func(s *slice) { s.Ports[0].AppProtocol = new("kubernetes.io/h2c") }},
		{Name: "invalid application protocol", To: func(s *slice) { s.Ports[0].AppProtocol = new("/h2c") }, Refused: []string{
			`ports[0].appProtocol: Invalid value: "/h2c": prefix part must be non-empty`}},
		{Name: "two ports without a name", To: func(s *slice) { s.Ports = []discoveryv1.EndpointPort{{}, {}} }, Refused: []string{
			`ports[1].name: Duplicate value: ""`}},
		{Name: "IPv4 mapped", To: addresses("::ffff:10.0.0.1"), Refused: []string{
			`endpoints[0].addresses[0]: Invalid value: "::ffff:10.0.0.1": must not be an IPv4-mapped IPv6 address`}},
	}
	registrytest.Create(t, k, good(), changes)
	registrytest.Update(t, k, "", good(), changes)
	six := good()
	six.AddressType, six.Endpoints[0].Addresses, six.Endpoints[1].Addresses = discoveryv1.AddressTypeIPv6, []string{"fd00::1"}, []string{"fd00::2"}
	changes = []registrytest.Change[*slice]{
		{Name: "IPv6", To: addresses("fd00::3")},
		{Name: "not an address", To: addresses("fd00:"), Refused: []string{`endpoints[0].addresses[0]: Invalid value: "fd00:": ` + notIP}},
		{Name: "link-local", To: addresses("fe80::1"), Refused: []string{
			`endpoints[0].addresses[0]: Invalid value: "fe80::1": may not be in the link-local range (169.254.0.0/16, fe80::/10)`}},
		{Name: "the other family", To: addresses("10.0.0.1"), Refused: []string{`endpoints[0].addresses: Invalid value: "10.0.0.1": must be an IPv6 address`}},
	}
	registrytest.Create(t, k, six, changes)
	registrytest.Update(t, k, "", six, changes)
	// Only old objects have this field of the version. One that a user writes is dropped before validation.
	labels := map[string]string{corev1.LabelTopologyZone: "z"}
	for i := range 16 {
		labels[fmt.Sprintf("l%d", i)] = "x"
	}
	for name, tt := range map[string]struct {
		topology map[string]string
		want     []string
	}{
		"good":    {map[string]string{"a": "b"}, nil},
		"bad":     {map[string]string{"a": "b c"}, []string{`endpoints[0].deprecatedTopology: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		"zone":    {map[string]string{corev1.LabelTopologyZone: "z"}, []string{`endpoints[0].deprecatedTopology[topology.kubernetes.io/zone]: Internal error: reserved key was not removed in conversion`}},
		"sixteen": {without(labels, corev1.LabelTopologyZone), nil},
		"many": {labels, []string{`endpoints[0].deprecatedTopology: Too many: 17: must have at most 16 items`,
			`endpoints[0].deprecatedTopology[topology.kubernetes.io/zone]: Internal error: reserved key was not removed in conversion`}},
	} {
		s := good()
		k.Rules.Default(s)
		s.Endpoints[0].DeprecatedTopology = tt.topology
		var got []string
		for _, err := range k.Rules.Validate(s) {
			got = append(got, err.Error())
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func without(m map[string]string, key string) map[string]string {
	m = maps.Clone(m)
	delete(m, key)
	return m
}

// TestTypeInUpdates: the address type is immutable; removing it reports both errors.
func TestTypeInUpdates(t *testing.T) {
	k := registrytest.Find(t, discovery.Kinds(), "endpointslices")
	typed := func(name discoveryv1.AddressType) *slice {
		return &slice{AddressType: name, Ports: []discoveryv1.EndpointPort{{Name: new("A")}}}
	}
	const bad = `ports[0].name: Invalid value: "A": ` + notLabel
	for _, tt := range []struct {
		old, next discoveryv1.AddressType
		want      []string
	}{
		{"IPv4", "IPv4", []string{bad}},
		{"IPv4", "", []string{bad, `addressType: Required value`, `addressType: Invalid value: null: field is immutable`}},
		{"", "", []string{`addressType: Required value`, bad}},
		{"", "IPv4", []string{bad, `addressType: Invalid value: null: field is immutable`}},
		{"IPv4", "X25", []string{`addressType: Unsupported value: "X25": supported values: "FQDN", "IPv4", "IPv6"`, bad, `addressType: Invalid value: null: field is immutable`}},
	} {
		var got []string
		for _, err := range registrytest.Replace(k, "", typed(tt.next), typed(tt.old)) {
			got = append(got, err.Error())
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q to %q:\n\t%s\nwant\n\t%s", tt.old, tt.next, strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
		}
	}
}

// TestMissingProtocol: a port gets its default before validation; one without it is refused.
func TestMissingProtocol(t *testing.T) {
	k := registrytest.Find(t, discovery.Kinds(), "endpointslices")
	s := good()
	s.Ports = []discoveryv1.EndpointPort{{Port: new(int32(80))}}
	if errs := k.Rules.Validate(s); len(errs) != 1 || errs[0].Error() != "ports[0].protocol: Required value" {
		t.Error(errs)
	}
	s.Ports = []discoveryv1.EndpointPort{{Name: new("u"), Protocol: new(corev1.ProtocolUDP)}}
	k.Rules.Default(s)
	if *s.Ports[0].Protocol != corev1.ProtocolUDP || *s.Ports[0].Name != "u" {
		t.Errorf("a port became %+v", s.Ports[0])
	}
}

// TestTopologyBecomesNode: of the old field, only a stored, valid node name is taken over, and never over
// another.
func TestTopologyBecomesNode(t *testing.T) {
	k := registrytest.Find(t, discovery.Kinds(), "endpointslices")
	host := func(name string) map[string]string { return map[string]string{corev1.LabelHostname: name, "x": "y"} }
	for name, tt := range map[string]struct {
		stored, written map[string]string
		node            *string
		want            string
	}{
		"stored":          {host("a"), host("a"), nil, "a"},
		"new":             {host("a"), host("b"), nil, ""},
		"no name":         {host("A_b"), host("A_b"), nil, ""},
		"no whole name":   {host("a-"), host("a-"), nil, ""},
		"empty":           {host(""), host(""), nil, ""},
		"beside a node":   {host("a"), host("a"), new("n"), "n"},
		"nothing stored":  {nil, host("a"), nil, ""},
		"nothing written": {host("a"), nil, nil, ""},
	} {
		old := good()
		old.Endpoints[1].DeprecatedTopology = tt.stored
		next := old.DeepCopy()
		next.Endpoints[1].DeprecatedTopology, next.Endpoints[1].NodeName, next.Endpoints[1].Conditions.Ready = tt.written, tt.node, new(true)
		registrytest.Replace(k, "", next, old)
		got := ""
		if e := next.Endpoints[1]; e.NodeName != nil {
			got = *e.NodeName
		}
		if got != tt.want || next.Endpoints[1].DeprecatedTopology != nil {
			t.Errorf("%s: node %q, topology %v", name, got, next.Endpoints[1].DeprecatedTopology)
		}
	}
	// An untouched endpoint keeps its stored fields.
	old := good()
	old.Endpoints[1].DeprecatedTopology = host("a")
	next := old.DeepCopy()
	next.Labels["new"] = "label"
	if registrytest.Replace(k, "", next, old); next.Endpoints[1].NodeName != nil || next.Endpoints[1].DeprecatedTopology == nil {
		t.Errorf("an endpoint that was left alone became %+v", next.Endpoints[1])
	}
	typed := good()
	k.Rules.Default(typed)
	other := typed.DeepCopy()
	other.AddressType = discoveryv1.AddressTypeIPv6
	if registrytest.Replace(k, "", other, typed); other.Generation != typed.Generation+1 {
		t.Errorf("generation %d after a change of the type", other.Generation)
	}
}

func TestCells(t *testing.T) {
	k := registrytest.Find(t, discovery.Kinds(), "endpointslices")
	now := time.Now()
	port := func(n int32) discoveryv1.EndpointPort { return discoveryv1.EndpointPort{Port: &n} }
	at := func(addresses ...string) discoveryv1.Endpoint { return discoveryv1.Endpoint{Addresses: addresses} }
	for name, tt := range map[string]struct {
		ports           []discoveryv1.EndpointPort
		endpoints       []discoveryv1.Endpoint
		ported, pointed string
	}{
		"nothing": {nil, nil, "<unset>", "<unset>"},
		"one":     {[]discoveryv1.EndpointPort{port(80)}, []discoveryv1.Endpoint{at("a")}, "80", "a"},
		"three": {[]discoveryv1.EndpointPort{port(80), {Name: new("web")}, {}}, []discoveryv1.Endpoint{at("a", "b"), at("c")},
			"80,web,*", "a,b,c"},
		"four": {[]discoveryv1.EndpointPort{port(80), {Name: new("web"), Port: new(int32(81))}, {}, port(9)}, []discoveryv1.Endpoint{at("a", "b"), at("c", "d")},
			"80,81,* + 1 more...", "a,b,c + 1 more..."},
		"five": {slices.Repeat([]discoveryv1.EndpointPort{port(80)}, 5), slices.Repeat([]discoveryv1.Endpoint{at("a")}, 5),
			"80,80,80 + 2 more...", "a,a,a + 2 more..."},
	} {
		s := &slice{
			ObjectMeta:  metav1.ObjectMeta{Name: "s", CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
			AddressType: "IPv4", Ports: tt.ports, Endpoints: tt.endpoints,
		}
		want := []any{"s", "IPv4", tt.ported, tt.pointed, "60s"}
		if got := k.Columns.Cells(s, now); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestFromV1beta1: zone and node in the topology become fields in v1; the rest stays unchanged.
func TestFromV1beta1(t *testing.T) {
	older := registrytest.Find(t, discovery.Kinds(), "endpointslices").Older[0]
	if older.GroupVersion != v1beta1.SchemeGroupVersion {
		t.Fatalf("older version %s", older.GroupVersion)
	}
	tcp, http := corev1.ProtocolTCP, "http"
	old := older.New().(*v1beta1.EndpointSlice)
	old.Name, old.AddressType = "s", v1beta1.AddressTypeIPv4
	old.Ports = []v1beta1.EndpointPort{{Name: &http, Protocol: &tcp, Port: new(int32(80)), AppProtocol: &http}}
	ref := &corev1.ObjectReference{Name: "p"}
	want := &slice{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: &http, Protocol: &tcp, Port: new(int32(80)), AppProtocol: &http}},
	}
	for _, tt := range []struct {
		topology  map[string]string
		node      *string
		zone      *string
		remaining map[string]string
	}{
		{nil, nil, nil, nil},
		{map[string]string{}, nil, nil, nil},
		{map[string]string{corev1.LabelTopologyZone: "z"}, nil, new("z"), nil},
		{map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelHostname: "n", "x": "y"}, new("n"), new("z"), map[string]string{"x": "y"}},
		{map[string]string{corev1.LabelHostname: "n"}, new("n"), nil, nil},
		{map[string]string{corev1.LabelHostname: "m"}, new("n"), nil, map[string]string{corev1.LabelHostname: "m"}},
		{map[string]string{corev1.LabelHostname: "m"}, nil, nil, map[string]string{corev1.LabelHostname: "m"}},
		{map[string]string{"x": "y"}, new(""), nil, map[string]string{"x": "y"}},
	} {
		old.Endpoints = append(old.Endpoints, v1beta1.Endpoint{
			Addresses: []string{"10.0.0.1"}, Conditions: v1beta1.EndpointConditions{Ready: new(true)}, Hostname: new("h"), TargetRef: ref,
			Topology: tt.topology, NodeName: tt.node,
			Hints: &v1beta1.EndpointHints{ForZones: []v1beta1.ForZone{{Name: "z"}}, ForNodes: []v1beta1.ForNode{{Name: "n"}}},
		})
		want.Endpoints = append(want.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}, Hostname: new("h"), TargetRef: ref,
			DeprecatedTopology: tt.remaining, NodeName: tt.node, Zone: tt.zone,
			Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z"}}, ForNodes: []discoveryv1.ForNode{{Name: "n"}}},
		})
	}
	old.Endpoints = append(old.Endpoints, v1beta1.Endpoint{})
	want.Endpoints = append(want.Endpoints, discoveryv1.Endpoint{})
	was := old.DeepCopy()
	if got := older.ToStored(old); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if !reflect.DeepEqual(old, was) {
		t.Errorf("the argument became %+v", old)
	}
}
