package networkpolicy_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/networkpolicy"
)

// square is a cluster of three namespaces with three pods each, whose addresses tell both: 10.64.1.3 is x/c.
func square() networkpolicy.Cluster {
	var c networkpolicy.Cluster
	for i, namespace := range []string{"x", "y", "z"} {
		c.Namespaces = append(c.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: namespace, Labels: map[string]string{"ns": namespace, corev1.LabelMetadataName: namespace},
		}})
		for j, pod := range []string{"a", "b", "c"} {
			var ports []corev1.ContainerPort
			for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
				low := strings.ToLower(string(protocol))
				ports = append(ports, corev1.ContainerPort{Name: "serve-80-" + low, ContainerPort: 80, Protocol: protocol},
					corev1.ContainerPort{Name: "serve-81-" + low, ContainerPort: 81, Protocol: protocol})
			}
			ip := netip.AddrFrom4([4]byte{10, 64, byte(i + 1), byte(j + 1)}).String()
			c.Pods = append(c.Pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod, Labels: map[string]string{"pod": pod}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Ports: ports}}},
				Status:     corev1.PodStatus{PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}},
			})
		}
	}
	return c
}

// at is the address of a pod of the square.
func at(pod string) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 64, pod[0] - 'x' + 1, pod[2] - 'a' + 1})
}

// policy reads the spec of one in namespace x, or in another before a colon.
func policy(t testing.TB, name, spec string) *networkingv1.NetworkPolicy {
	t.Helper()
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name}}
	if namespace, rest, ok := strings.Cut(spec, "|"); ok {
		p.Namespace, spec = namespace, rest
	}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	return p
}

// flow is a connection between two pods of the square.
type flow struct {
	from, to string
	port     uint16
	protocol corev1.Protocol
}

func (f flow) fromIn(namespaces string) bool { return strings.Contains(namespaces, f.from[:1]) }
func (f flow) toIn(namespaces string) bool   { return strings.Contains(namespaces, f.to[:1]) }

// The cases of upstream's end-to-end tests of network policies with a single state, and more.
func TestSquare(t *testing.T) {
	for name, test := range cases() {
		t.Run(name, func(t *testing.T) {
			c := square()
			for i, spec := range test.policies {
				c.Policies = append(c.Policies, policy(t, string(rune('p'+i)), spec))
			}
			tables, err := networkpolicy.Compile(c, nil)
			if err != nil {
				t.Fatal(err)
			}
			test.each(func(f flow) {
				d := tables.Decide(networkpolicy.Packet{From: at(f.from), To: netip.AddrPortFrom(at(f.to), f.port), Protocol: f.protocol})
				if want := f.from == f.to || test.allows(f); d.Allowed() != want {
					t.Errorf("%+v: %v", f, d)
				}
			})
		})
	}
}

type squareCase struct {
	policies []string
	allows   func(f flow) bool
}

// each calls f for all flows of the square.
func (squareCase) each(f func(flow)) {
	var all []string
	for _, namespace := range []string{"x", "y", "z"} {
		for _, pod := range []string{"a", "b", "c"} {
			all = append(all, namespace+"/"+pod)
		}
	}
	for _, from := range all {
		for _, to := range all {
			for _, port := range []uint16{80, 81} {
				for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
					f(flow{from, to, port, protocol})
				}
			}
		}
	}
}

// toA is the case of a policy for pod a of namespace x with one rule for ingress.
func toA(rule string, allows func(f flow) bool) squareCase {
	return squareCase{[]string{`{podSelector: {matchLabels: {pod: a}}, ingress: [` + rule + `]}`}, func(f flow) bool { return f.to != "x/a" || allows(f) }}
}

// fromA is the same for egress.
func fromA(rule string, allows func(f flow) bool) squareCase {
	return squareCase{
		[]string{`{podSelector: {matchLabels: {pod: a}}, policyTypes: [Egress], egress: [` + rule + `]}`}, func(f flow) bool { return f.from != "x/a" || allows(f) },
	}
}

func cases() map[string]squareCase {
	tcp, udp, sctp := corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP
	never := func(flow) bool { return false }
	always := func(flow) bool { return true }
	return map[string]squareCase{
		"no policy":                     {nil, always},
		"deny all ingress":              {[]string{`{podSelector: {}}`}, func(f flow) bool { return !f.toIn("x") }},
		"deny all ingress by type":      {[]string{`{podSelector: {}, policyTypes: [Ingress], egress: [{}]}`}, func(f flow) bool { return !f.toIn("x") }},
		"deny all":                      {[]string{`{podSelector: {}, policyTypes: [Ingress, Egress]}`}, func(f flow) bool { return !f.toIn("x") && !f.fromIn("x") }},
		"deny all egress":               {[]string{`{podSelector: {}, policyTypes: [Egress]}`}, func(f flow) bool { return !f.fromIn("x") }},
		"egress by its rules":           {[]string{`{podSelector: {}, egress: [{}]}`}, func(f flow) bool { return !f.toIn("x") }},
		"allow all ingress":             {[]string{`{podSelector: {}, ingress: [{}]}`}, always},
		"one pod denies egress":         fromA(``, never),
		"pods of the namespace":         toA(`{from: [{podSelector: {matchLabels: {pod: b}}}]}`, func(f flow) bool { return f.from == "x/b" }),
		"any pod of the namespace":      toA(`{from: [{podSelector: {}}]}`, func(f flow) bool { return f.fromIn("x") }),
		"all namespaces":                toA(`{from: [{namespaceSelector: {}}]}`, always),
		"another namespace":             toA(`{from: [{namespaceSelector: {matchLabels: {ns: "y"}}}]}`, func(f flow) bool { return f.fromIn("y") }),
		"namespace by its default name": toA(`{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "y"}}}]}`, func(f flow) bool { return f.fromIn("y") }),
		"pods by expressions":           toA(`{from: [{podSelector: {matchExpressions: [{key: pod, operator: In, values: [c]}]}}]}`, func(f flow) bool { return f.from == "x/c" }),
		"namespaces by expressions":     toA(`{from: [{namespaceSelector: {matchExpressions: [{key: ns, operator: NotIn, values: [x, z]}]}}]}`, func(f flow) bool { return f.fromIn("y") }),
		"pods or namespaces":            toA(`{from: [{namespaceSelector: {matchLabels: {ns: "y"}}}, {podSelector: {matchLabels: {pod: b}}}]}`, func(f flow) bool { return f.fromIn("y") || f.from == "x/b" }),
		"pods of namespaces":            toA(`{from: [{namespaceSelector: {matchLabels: {ns: "y"}}, podSelector: {matchLabels: {pod: b}}}]}`, func(f flow) bool { return f.from == "y/b" }),
		"several of both": toA(`{from: [{namespaceSelector: {matchExpressions: [{key: ns, operator: NotIn, values: [x]}]}, podSelector: {matchExpressions: [{key: pod, operator: In, values: [b, c]}]}}]}`,
			func(f flow) bool { return f.fromIn("yz") && f.from[2] != 'a' }),
		"port":                        toA(`{ports: [{port: 81}]}`, func(f flow) bool { return f.port == 81 && f.protocol == tcp }),
		"port of a namespace":         toA(`{from: [{namespaceSelector: {matchLabels: {ns: "y"}}}], ports: [{port: 81}]}`, func(f flow) bool { return f.fromIn("y") && f.port == 81 && f.protocol == tcp }),
		"named port":                  toA(`{ports: [{port: serve-81-tcp}]}`, func(f flow) bool { return f.port == 81 && f.protocol == tcp }),
		"named port of the wrong one": toA(`{ports: [{port: serve-81-udp}]}`, never),
		"unknown named port":          toA(`{ports: [{port: elsewhere}]}`, never),
		"named port for a namespace":  toA(`{from: [{namespaceSelector: {matchLabels: {ns: "y"}}}], ports: [{protocol: UDP, port: serve-80-udp}]}`, func(f flow) bool { return f.fromIn("y") && f.port == 80 && f.protocol == udp }),
		"named port for egress":       fromA(`{ports: [{port: serve-80-tcp}]}`, func(f flow) bool { return f.port == 80 && f.protocol == tcp }),
		"a protocol":                  toA(`{ports: [{protocol: UDP}]}`, func(f flow) bool { return f.protocol == udp }),
		"only SCTP":                   toA(`{ports: [{protocol: SCTP, port: 80}]}`, func(f flow) bool { return f.protocol == sctp && f.port == 80 }),
		"a range of ports":            toA(`{ports: [{port: 70, endPort: 80}, {protocol: UDP, port: 81, endPort: 81}]}`, func(f flow) bool { return f.port == 80 && f.protocol == tcp || f.port == 81 && f.protocol == udp }),
		"egress to a pod of another": fromA(`{to: [{namespaceSelector: {matchLabels: {ns: "y"}}, podSelector: {matchLabels: {pod: a}}}]}`,
			func(f flow) bool { return f.to == "y/a" }),
		"egress to a block":      fromA(`{to: [{ipBlock: {cidr: 10.64.2.3/32}}]}`, func(f flow) bool { return f.to == "y/c" }),
		"egress, but for except": fromA(`{to: [{ipBlock: {cidr: 10.64.2.0/24, except: [10.64.2.2/32]}}]}`, func(f flow) bool { return f.to == "y/a" || f.to == "y/c" }),
		"except elsewhere allowed": {[]string{
			`{podSelector: {matchLabels: {pod: a}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.64.1.0/24, except: [10.64.1.2/32]}}]}]}`,
			`{podSelector: {matchLabels: {pod: a}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.64.1.2/32}}]}]}`,
		}, func(f flow) bool { return f.from != "x/a" || f.toIn("x") }},
		"stacked policies": {[]string{
			`{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: "y"}}}], ports: [{port: 80}]}]}`,
			`{podSelector: {matchExpressions: [{key: pod, operator: In, values: [a, b]}]}, ingress: [{ports: [{port: 81}]}]}`,
		}, func(f flow) bool {
			high := f.port == 81 && f.protocol == tcp
			return f.to != "x/a" && f.to != "x/b" || high || f.to == "x/a" && f.fromIn("y") && f.port == 80 && f.protocol == tcp
		}},
		"allowing wins for ingress": {[]string{`{podSelector: {}}`, `{podSelector: {}, ingress: [{}]}`}, always},
		"allowing wins for egress":  {[]string{`{podSelector: {}, policyTypes: [Egress]}`, `{podSelector: {}, policyTypes: [Egress], egress: [{}]}`}, always},
		"both directions": {[]string{`{podSelector: {matchLabels: {pod: a}}, policyTypes: [Ingress, Egress], ingress: [{ports: [{port: 80}]}], egress: [{ports: [{port: 81}]}]}`},
			func(f flow) bool {
				in := f.to != "x/a" || f.port == 80 && f.protocol == tcp
				return in && (f.from != "x/a" || f.port == 81 && f.protocol == tcp)
			}},
		"the client's side denies what the server's allows": {[]string{
			`{podSelector: {matchLabels: {pod: a}}, policyTypes: [Egress]}`, `y|{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}`,
		}, func(f flow) bool { return f.from != "x/a" }},
	}
}

// What is not a matter of policies, and who is not.
func TestExempt(t *testing.T) {
	c := square()
	c.Policies = append(c.Policies, policy(t, "deny", `{podSelector: {}, policyTypes: [Ingress, Egress]}`))
	c.Pods[0].Spec.HostNetwork = true            // x/a
	c.Pods[1].Status.Phase = corev1.PodSucceeded // x/b
	tables, err := networkpolicy.Compile(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		from, to string
		host     bool
		allowed  bool
	}{
		{"y/a", "x/a", false, true}, {"y/a", "x/b", false, true}, {"y/a", "x/c", false, false}, {"x/c", "y/a", false, false},
		{"y/a", "x/c", true, true}, {"x/c", "y/a", true, true}, {"x/c", "x/c", false, true},
	} {
		d := tables.Decide(networkpolicy.Packet{From: at(test.from), To: netip.AddrPortFrom(at(test.to), 80), Protocol: corev1.ProtocolTCP, Host: test.host})
		if d.Allowed() != test.allowed {
			t.Errorf("%+v: %v", test, d)
		}
	}
}

// Peers that are on the network of their node, or done, are not selected; their addresses are.
func TestPeersWithoutAnAddress(t *testing.T) {
	c := square()
	c.Policies = append(c.Policies, policy(t, "all", `{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}`))
	c.Pods[3].Spec.HostNetwork, c.Pods[4].Status.Phase = true, corev1.PodFailed // y/a, y/b
	tables, err := networkpolicy.Compile(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for from, allowed := range map[string]bool{"y/a": false, "y/b": false, "y/c": true} {
		if d := tables.Decide(networkpolicy.Packet{From: at(from), To: netip.AddrPortFrom(at("x/a"), 80), Protocol: corev1.ProtocolTCP}); d.Allowed() != allowed {
			t.Errorf("%s: %v", from, d)
		}
	}
}

func TestExplanations(t *testing.T) {
	c := square()
	c.Policies = append(c.Policies,
		policy(t, "deny", `{podSelector: {}, policyTypes: [Ingress, Egress]}`),
		policy(t, "allow", `{podSelector: {matchLabels: {pod: a}}, ingress: [{ports: [{port: 80}]}, {from: [{podSelector: {}}]}]}`))
	tables, err := networkpolicy.Compile(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		from, to string
		port     uint16
		want     string
	}{
		{"y/a", "z/a", 80, "allowed: egress allowed by default, as no policy isolates it; ingress allowed by default, as no policy isolates it"},
		{"y/a", "x/a", 80, "allowed: egress allowed by default, as no policy isolates it; ingress allowed by x/allow, ingress[0]"},
		{"y/a", "x/a", 81, "denied: egress allowed by default, as no policy isolates it; ingress denied: isolated by x/allow, x/deny, and no rule allows it"},
		{"x/b", "x/a", 81, "denied: egress denied: isolated by x/deny, and no rule allows it; ingress allowed by x/allow, ingress[1]"},
		{"x/b", "x/b", 81, "allowed: egress always allowed; ingress always allowed"},
	} {
		d := tables.Decide(networkpolicy.Packet{From: at(test.from), To: netip.AddrPortFrom(at(test.to), test.port), Protocol: corev1.ProtocolTCP})
		if d.String() != test.want {
			t.Errorf("%+v: %v", test, d)
		}
	}
}

// Only the pods of local nodes are policed; those of others are peers.
func TestLocal(t *testing.T) {
	c := square()
	for i, p := range c.Pods {
		p.Spec.NodeName = []string{"here", "there"}[i%2]
	}
	c.Policies = append(c.Policies,
		policy(t, "some", `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}]}]}`),
		policy(t, "elsewhere", `{podSelector: {matchLabels: {pod: b}}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}`))
	tables, err := networkpolicy.Compile(c, func(node string) bool { return node == "here" })
	if err != nil {
		t.Fatal(err)
	}
	for to, denied := range map[string]bool{"x/a": true, "x/b": false} {
		d := tables.Decide(networkpolicy.Packet{From: netip.MustParseAddr("192.0.2.1"), To: netip.AddrPortFrom(at(to), 80), Protocol: corev1.ProtocolTCP})
		if d.Allowed() == denied {
			t.Errorf("%s: %v", to, d)
		}
	}
	if d := tables.Decide(networkpolicy.Packet{From: at("x/b"), To: netip.AddrPortFrom(at("x/a"), 80), Protocol: corev1.ProtocolTCP}); !d.Allowed() {
		t.Errorf("a pod of another node: %v", d)
	}
	if len(tables.Policies) != 1 {
		t.Errorf("policies that isolate no local pod: %v", tables.Policies)
	}
}

func TestPodOf(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	port := func(name string, number int32, protocol corev1.Protocol) corev1.Container {
		return corev1.Container{Ports: []corev1.ContainerPort{{Name: name, ContainerPort: number, Protocol: protocol}}}
	}
	sidecar := port("side", 3, corev1.ProtocolUDP)
	sidecar.RestartPolicy = &always
	got, ok := networkpolicy.PodOf(&corev1.Pod{
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{port("http", 1, ""), port("", 2, ""), port("none", 0, ""), port("last", 65535, corev1.ProtocolSCTP)},
			InitContainers: []corev1.Container{sidecar, port("init", 4, "")},
		},
		Status: corev1.PodStatus{PodIP: "::ffff:10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}, {IP: "x"}}},
	})
	want := []networkpolicy.NamedPort{
		{PortName: networkpolicy.PortName{Name: "http", Protocol: corev1.ProtocolTCP}, Number: 1},
		{PortName: networkpolicy.PortName{Name: "last", Protocol: corev1.ProtocolSCTP}, Number: 65535},
		{PortName: networkpolicy.PortName{Name: "side", Protocol: corev1.ProtocolUDP}, Number: 3},
	}
	if !ok || !slices.Equal(got.Ports, want) || !slices.Equal(got.Addresses, []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}) {
		t.Errorf("%+v", got)
	}
	if got, ok := networkpolicy.PodOf(&corev1.Pod{Status: corev1.PodStatus{PodIP: "10.0.0.2"}}); !ok || len(got.Addresses) != 1 {
		t.Errorf("of an older server: %+v", got)
	}
	if got, ok := networkpolicy.PodOf(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}); ok {
		t.Errorf("without an address: %+v", got)
	}
}

// Ranges that overlap or touch become one, which the kernel's sets need.
func TestRangesAreMerged(t *testing.T) {
	p, err := networkpolicy.Of(policy(t, "p", `{ingress: [{
		ports: [{port: 90}, {port: 80, endPort: 85}, {port: 82, endPort: 89}, {port: 80, protocol: UDP}, {port: 92}, {port: 70, endPort: 65535, protocol: UDP}],
		from: [{ipBlock: {cidr: 10.0.1.0/24}}, {ipBlock: {cidr: 10.0.0.0/24}}, {ipBlock: {cidr: "::/0"}}, {ipBlock: {cidr: 10.0.3.0/24}}, {ipBlock: {cidr: 10.0.0.0/25}}, {ipBlock: {cidr: "fd00::/8"}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	ports := []networkpolicy.PortRange{{Protocol: corev1.ProtocolTCP, First: 80, Last: 90}, {Protocol: corev1.ProtocolTCP, First: 92, Last: 92}, {Protocol: corev1.ProtocolUDP, First: 70, Last: 65535}}
	if got := p.Ingress[0].Ports; !slices.Equal(got, ports) {
		t.Errorf("ports %v", got)
	}
	blocks := []string{"10.0.0.0-10.0.1.255", "10.0.3.0-10.0.3.255", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}
	var got []string
	for _, b := range p.Ingress[0].Blocks {
		got = append(got, b.First.String()+"-"+b.Last.String())
	}
	if !slices.Equal(got, blocks) {
		t.Errorf("blocks %v", got)
	}
}

// What the API's validation refuses allows nothing, and is named.
func TestUnreadable(t *testing.T) {
	for spec, want := range map[string]string{
		`{podSelector: {matchExpressions: [{key: a, operator: Near}]}}`:                              `podSelector: "Near" is not a valid label selector operator`,
		`{ingress: [{from: [{}]}]}`:                                                                  "ingress[0].from[0]: neither an ipBlock nor selectors",
		`{egress: [{}, {to: [{ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}]}]}`:                     "egress[1].to[0]: both an ipBlock and selectors",
		`{ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/33}}]}]}`:                                      "ingress[0].from[0]: ipBlock.cidr: invalid CIDR address: 10.0.0.0/33",
		`{ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: ["::/0", x]}}]}]}`:                  "ingress[0].from[0]: ipBlock.except[1]: invalid CIDR address: x",
		`{ingress: [{ports: [{protocol: ICMP}]}]}`:                                                   `ingress[0].ports[0]: protocol "ICMP" is none of TCP, UDP and SCTP`,
		`{ingress: [{ports: [{port: 80}, {endPort: 80}]}]}`:                                          "ingress[0].ports[1]: an endPort without a port",
		`{ingress: [{ports: [{port: http, endPort: 80}]}]}`:                                          "ingress[0].ports[0]: an endPort with a named port",
		`{ingress: [{ports: [{port: 80, endPort: 79}]}]}`:                                            "ingress[0].ports[0]: ports from 80 to 79",
		`{ingress: [{ports: [{port: 0}]}]}`:                                                          "ingress[0].ports[0]: ports from 0 to 0",
		`{ingress: [{ports: [{port: 65535, endPort: 65536}]}]}`:                                      "ingress[0].ports[0]: ports from 65535 to 65536",
		`{ingress: [{from: [{podSelector: {matchLabels: {"": a}}}]}]}`:                               "ingress[0].from[0]: podSelector: key: Invalid value",
		`{ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}}]}]}`: `ingress[0].from[0]: namespaceSelector: "Near" is not a valid label selector operator`,
	} {
		p, err := networkpolicy.Of(policy(t, "p", spec))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
		for _, r := range append(p.Ingress, p.Egress...) {
			if !r.Everyone && len(r.Pods)+len(r.Blocks) > 0 {
				t.Errorf("%s: allows %+v", spec, r)
			}
		}
	}
}

// Blocks of the forms that the API has stored over time.
func TestBlocks(t *testing.T) {
	for cidr, within := range map[string]string{
		"10.64.0.9/24": "10.64.0.1", "010.064.000.000/24": "10.64.0.1", "::ffff:10.64.0.0/120": "10.64.0.255", "fd64::1/64": "fd64::ffff", "0.0.0.0/0": "255.255.255.255", "::/0": "fd64::1",
	} {
		c := square()
		c.Policies = append(c.Policies, policy(t, "p", `{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: "`+cidr+`"}}]}]}`))
		tables, err := networkpolicy.Compile(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		for from, want := range map[string]bool{within: true, "::ffff:" + within: !strings.Contains(within, ":"), "192.0.2.1": cidr == "0.0.0.0/0"} {
			a, err := netip.ParseAddr(from)
			if err != nil {
				continue
			}
			if d := tables.Decide(networkpolicy.Packet{From: a, To: netip.AddrPortFrom(at("x/a"), 80), Protocol: corev1.ProtocolTCP}); d.Allowed() != want {
				t.Errorf("%s from %s: %v", cidr, from, d)
			}
		}
	}
}
