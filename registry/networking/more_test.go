package networking_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/api/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

const (
	notSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	notWildcard  = `a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	notLabel     = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	notLabelText = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`
)

func TestScopes(t *testing.T) {
	for _, k := range networking.Kinds() {
		if want := k.Plural == "ingresses" || k.Plural == "networkpolicies"; k.Namespaced != want {
			t.Errorf("%s: namespaced %t", k.Plural, k.Namespaced)
		}
	}
}

func toService(name string, port networkingv1.ServiceBackendPort) networkingv1.IngressBackend {
	return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: name, Port: port}}
}

func ingress() *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}, Spec: networkingv1.IngressSpec{
		Rules: []networkingv1.IngressRule{{Host: "example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: toService("web", networkingv1.ServiceBackendPort{Number: 80})}},
		}}}},
	}}
}

func TestIngressPaths(t *testing.T) {
	k := registrytest.Find(t, networking.Kinds(), "ingresses")
	path := func(kind networkingv1.PathType, text string) func(*networkingv1.Ingress) {
		return func(in *networkingv1.Ingress) {
			in.Spec.Rules[0].HTTP.Paths[0].PathType, in.Spec.Rules[0].HTTP.Paths[0].Path = &kind, text
		}
	}
	backend := func(b networkingv1.IngressBackend) func(*networkingv1.Ingress) {
		return func(in *networkingv1.Ingress) { in.Spec.Rules[0].HTTP.Paths[0].Backend = b }
	}
	refused := func(text string, why ...string) []string {
		var out []string
		for _, w := range why {
			out = append(out, `spec.rules[0].http.paths[0].path: Invalid value: "`+text+`": `+w)
		}
		return out
	}
	resource := &corev1.TypedLocalObjectReference{APIGroup: new("example.com"), Kind: "Bucket", Name: "b"}
	const at = `spec.rules[0].http.paths[0].backend`
	const absolute = "must be an absolute path"
	registrytest.Create(t, k, ingress(), []registrytest.Change[*networkingv1.Ingress]{
		{Name: "exact", To: path("Exact", "/a")},
		{Name: "exact, nothing", To: path("Exact", ""), Refused: refused("", absolute)},
		{Name: "prefix", To: path("Prefix", "a"), Refused: refused("a", absolute)},
		{Name: "here", To: path("Prefix", "/a/./b/."), Refused: refused("/a/./b/.", "must not contain '/./'", "cannot end with '/.'")},
		{Name: "up", To: path("Prefix", "/a/../b/.."), Refused: refused("/a/../b/..", "must not contain '/../'", "cannot end with '/..'")},
		{Name: "escaped", To: path("Exact", "/%2f%2F"), Refused: refused("/%2f%2F", "must not contain '%2f'", "must not contain '%2F'")},
		{Name: "its own, nothing", To: path("ImplementationSpecific", "")},
		{Name: "its own", To: path("ImplementationSpecific", "/a/../%2f")},
		{Name: "its own, relative", To: path("ImplementationSpecific", "a"), Refused: refused("a", absolute)},
		{Name: "of no type", To: path("Regex", "a"), Refused: []string{
			`spec.rules[0].http.paths[0].pathType: Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", "Prefix"`}},
		{Name: "no paths", To: func(in *networkingv1.Ingress) { in.Spec.Rules[0].HTTP.Paths = nil }, Refused: []string{
			`spec.rules[0].http.paths: Required value`}},
		{Name: "no HTTP", To: func(in *networkingv1.Ingress) { in.Spec.Rules[0].HTTP = nil }},

		{Name: "to a named port", To: backend(toService("web", networkingv1.ServiceBackendPort{Name: "http"}))},
		{Name: "to a badly named port", To: backend(toService("web", networkingv1.ServiceBackendPort{Name: "1"})), Refused: []string{
			at + `.service.port.name: Invalid value: "1": must contain at least one letter (a-z)`}},
		{Name: "to a port beyond all", To: backend(toService("web", networkingv1.ServiceBackendPort{Number: 65536})), Refused: []string{
			at + `.service.port.number: Invalid value: 65536: must be between 1 and 65535, inclusive`}},
		{Name: "to both", To: backend(toService("web", networkingv1.ServiceBackendPort{Name: "http", Number: 80})), Refused: []string{
			at + `: Invalid value: "": cannot set both port name & port number`}},
		{Name: "to no service", To: backend(toService("", networkingv1.ServiceBackendPort{Number: 80})), Refused: []string{at + `.service.name: Required value`}},
		{Name: "to a bad service", To: backend(toService("a-", networkingv1.ServiceBackendPort{Number: 80})), Refused: []string{
			at + `.service.name: Invalid value: "a-": ` + notLabel}},
		{Name: "to nothing", To: backend(networkingv1.IngressBackend{}), Refused: []string{at + `: Invalid value: "": resource or service backend is required`}},
		{Name: "to a resource", To: backend(networkingv1.IngressBackend{Resource: resource})},
		{Name: "to two", To: backend(networkingv1.IngressBackend{Resource: resource, Service: &networkingv1.IngressServiceBackend{}}), Refused: []string{
			at + `: Invalid value: "": cannot set both resource and service backends`}},
		{Name: "to no resource", To: backend(networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{APIGroup: new("X")}}), Refused: []string{
			at + `.resource.apiGroup: Invalid value: "X": ` + notSubdomain, at + `.resource.kind: Required value`, at + `.resource.name: Required value`}},
		{Name: "to a resource of the core", To: backend(networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: "a/b", Name: ".."}}), Refused: []string{
			at + `.resource.kind: Invalid value: "a/b": may not contain '/'`, at + `.resource.name: Invalid value: "..": may not be '..'`}},
		{Name: "by default to nothing", To: func(in *networkingv1.Ingress) { in.Spec.DefaultBackend = &networkingv1.IngressBackend{} }, Refused: []string{
			`spec.defaultBackend: Invalid value: "": resource or service backend is required`}},
	})
}

func TestIngressHosts(t *testing.T) {
	k := registrytest.Find(t, networking.Kinds(), "ingresses")
	host := func(name string) func(*networkingv1.Ingress) {
		return func(in *networkingv1.Ingress) { in.Spec.Rules[0].Host = name }
	}
	registrytest.Create(t, k, ingress(), []registrytest.Change[*networkingv1.Ingress]{
		{Name: "any", To: host("")},
		{Name: "a wildcard", To: host("*.example.com")},
		{Name: "a bad wildcard", To: host("a.*.com"), Refused: []string{`spec.rules[0].host: Invalid value: "a.*.com": ` + notWildcard}},
		{Name: "a bad name", To: host("a_b"), Refused: []string{`spec.rules[0].host: Invalid value: "a_b": ` + notSubdomain}},
		{Name: "TLS", To: func(in *networkingv1.Ingress) {
			in.Spec.TLS = []networkingv1.IngressTLS{{}, {Hosts: []string{"example.com", "a_b"}, SecretName: "S"}}
		}, Refused: []string{
			`spec.tls[1].hosts[1]: Invalid value: "a_b": ` + notSubdomain, `spec.tls[1].secretName: Invalid value: "S": ` + notSubdomain}},
		{Name: "class", To: func(in *networkingv1.Ingress) { in.Spec.IngressClassName = new("C") }, Refused: []string{
			`spec.ingressClassName: Invalid value: "C": ` + notSubdomain}},
		{Name: "class, twice the same", To: func(in *networkingv1.Ingress) {
			in.Annotations, in.Spec.IngressClassName = map[string]string{"kubernetes.io/ingress.class": "b"}, new("b")
		}},
		{Name: "class, by the annotation", To: func(in *networkingv1.Ingress) { in.Annotations = map[string]string{"kubernetes.io/ingress.class": "b"} }},
	})
	point := func(p networkingv1.IngressLoadBalancerIngress) func(*networkingv1.Ingress) {
		return func(in *networkingv1.Ingress) {
			in.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{p}
		}
	}
	const at = `status.loadBalancer.ingress[0]`
	stored := ingress()
	stored.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{Hostname: "x"}, {IP: "010.0.0.1"}}
	registrytest.Update(t, k, "status", stored, []registrytest.Change[*networkingv1.Ingress]{
		{Name: "a name", To: point(networkingv1.IngressLoadBalancerIngress{Hostname: "example.com"})},
		{Name: "a bad name", To: point(networkingv1.IngressLoadBalancerIngress{Hostname: "a_b"}), Refused: []string{at + `.hostname: Invalid value: "a_b": ` + notSubdomain}},
		{Name: "an address for a name", To: point(networkingv1.IngressLoadBalancerIngress{Hostname: "10.0.0.1"}), Refused: []string{
			at + `.hostname: Invalid value: "10.0.0.1": must be a DNS name, not an IP address`}},
		{Name: "an address as before", To: point(networkingv1.IngressLoadBalancerIngress{IP: "010.0.0.1"})},
		{Name: "an address with zeros", To: point(networkingv1.IngressLoadBalancerIngress{IP: "010.0.0.2"}), Refused: []string{
			at + `.ip: Invalid value: "010.0.0.2": must not have leading 0s`}},
	})
}

// TestIngressKeepsInvalidValues: values that an older server accepted may stay, each by itself, but no new ones are
// accepted.
func TestIngressKeepsInvalidValues(t *testing.T) {
	k := registrytest.Find(t, networking.Kinds(), "ingresses")
	secret := func(names ...string) func(*networkingv1.Ingress) {
		return func(in *networkingv1.Ingress) {
			for _, name := range names {
				in.Spec.TLS = append(in.Spec.TLS, networkingv1.IngressTLS{SecretName: name})
			}
		}
	}
	wild := func(in *networkingv1.Ingress) {
		in.Spec.Rules = append([]networkingv1.IngressRule{{Host: "*.example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{}}}}, in.Spec.Rules...)
	}
	tame := func(in *networkingv1.Ingress) {
		in.Spec.Rules = append(in.Spec.Rules, networkingv1.IngressRule{Host: "*.example.org"})
	}
	pathless := func(in *networkingv1.Ingress) { in.Spec.Rules[0].HTTP.Paths = nil }
	const badSecret = `spec.tls[0].secretName: Invalid value: "S": ` + notSubdomain
	for name, tt := range map[string]struct {
		old, next []func(*networkingv1.Ingress)
		want      []string
	}{
		"a new secret":        {nil, []func(*networkingv1.Ingress){secret("S")}, []string{badSecret}},
		"an old secret":       {[]func(*networkingv1.Ingress){secret("S")}, []func(*networkingv1.Ingress){secret("S")}, nil},
		"another bad secret":  {[]func(*networkingv1.Ingress){secret("T", "t")}, []func(*networkingv1.Ingress){secret("S")}, nil},
		"a good secret":       {[]func(*networkingv1.Ingress){secret("s", "")}, []func(*networkingv1.Ingress){secret("S")}, []string{badSecret}},
		"a new wildcard":      {nil, []func(*networkingv1.Ingress){wild}, []string{`spec.rules[0].http.paths: Required value`}},
		"an old wildcard":     {[]func(*networkingv1.Ingress){wild}, []func(*networkingv1.Ingress){wild}, nil},
		"an old one, and one": {[]func(*networkingv1.Ingress){wild, tame}, []func(*networkingv1.Ingress){wild}, nil},
		"a good wildcard":     {[]func(*networkingv1.Ingress){tame}, []func(*networkingv1.Ingress){wild}, []string{`spec.rules[0].http.paths: Required value`}},
		"not an old wildcard": {[]func(*networkingv1.Ingress){pathless}, []func(*networkingv1.Ingress){wild}, []string{`spec.rules[0].http.paths: Required value`}},
		"not of a wildcard":   {[]func(*networkingv1.Ingress){pathless}, []func(*networkingv1.Ingress){pathless}, []string{`spec.rules[0].http.paths: Required value`}},
		"of another secret":   {[]func(*networkingv1.Ingress){secret("S")}, []func(*networkingv1.Ingress){wild}, []string{`spec.rules[0].http.paths: Required value`}},
	} {
		old, next := ingress(), ingress()
		for _, change := range tt.old {
			change(old)
		}
		for _, change := range tt.next {
			change(next)
		}
		var got []string
		for _, err := range registrytest.Replace(k, "", next, old) {
			got = append(got, err.Error())
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestIngressClassRules(t *testing.T) {
	k := registrytest.Find(t, networking.Kinds(), "ingressclasses")
	good := &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       networkingv1.IngressClassSpec{Controller: "example.com/c", Parameters: &networkingv1.IngressClassParametersReference{Kind: "K", Name: "n"}},
	}
	parameters := func(f func(p *networkingv1.IngressClassParametersReference)) func(*networkingv1.IngressClass) {
		return func(class *networkingv1.IngressClass) { f(class.Spec.Parameters) }
	}
	type reference = networkingv1.IngressClassParametersReference
	changes := []registrytest.Change[*networkingv1.IngressClass]{
		{Name: "maximum length", To: func(class *networkingv1.IngressClass) {}},
		{Name: "of a namespace", To: parameters(func(p *reference) { p.Scope, p.Namespace = new("Namespace"), new("ns") })},
		{Name: "of a bad namespace", To: parameters(func(p *reference) { p.Scope, p.Namespace = new("Namespace"), new("a-") }), Refused: []string{
			`spec.parameters.namespace: Invalid value: "a-": ` + notLabel}},
		{Name: "of the cluster and a namespace", To: parameters(func(p *reference) { p.Namespace = new("ns") }), Refused: []string{
			"spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"}},
		{Name: "of nowhere", To: parameters(func(p *reference) { p.Scope, p.Namespace = new("Moon"), new("ns") }), Refused: []string{
			`spec.parameters.scope: Unsupported value: "Moon": supported values: "Cluster", "Namespace"`}},
		{Name: "half said", To: parameters(func(p *reference) { *p = reference{APIGroup: new("X"), Name: "a/b", Scope: new("Cluster")} }), Refused: []string{
			`spec.parameters.apiGroup: Invalid value: "X": ` + notSubdomain, `spec.parameters.name: Invalid value: "a/b": may not contain '/'`, `spec.parameters.kind: Required value`}},
	}
	registrytest.Create(t, k, good, append(changes, registrytest.Change[*networkingv1.IngressClass]{
		Name: "the longest controller", To: func(class *networkingv1.IngressClass) { class.Spec.Controller = "a/" + strings.Repeat("x", 248) }}))
	registrytest.Update(t, k, "", good, changes)
	if errs := k.Rules.Validate(good); len(errs) != 1 || errs[0].Error() != "spec.parameters.scope: Required value" {
		t.Errorf("without a scope: %v", errs)
	}
	next := good.DeepCopy()
	next.Labels = map[string]string{"a": "b"}
	k.Rules.Default(good)
	if registrytest.Replace(k, "", next, good); next.Generation != good.Generation {
		t.Errorf("a label: generation %d", next.Generation)
	}
	next.Spec.Parameters.Name = "m"
	if registrytest.Replace(k, "", next, good); next.Generation != good.Generation+1 {
		t.Errorf("parameters: generation %d", next.Generation)
	}
}

func TestNetworkPolicyRules(t *testing.T) {
	k := registrytest.Find(t, networking.Kinds(), "networkpolicies")
	block := func(cidr string, except ...string) []networkingv1.NetworkPolicyPeer {
		return []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}}
	}
	labels := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{value}}}}
	}
	good := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}, Spec: networkingv1.NetworkPolicySpec{
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: block("10.0.0.0/8")}},
		Egress:  []networkingv1.NetworkPolicyEgressRule{{To: block("10.0.0.0/8")}},
	}}
	peers := func(p ...networkingv1.NetworkPolicyPeer) func(*networkingv1.NetworkPolicy) {
		return func(policy *networkingv1.NetworkPolicy) { policy.Spec.Ingress[0].From, policy.Spec.Egress[0].To = p, p }
	}
	ports := func(p ...networkingv1.NetworkPolicyPort) func(*networkingv1.NetworkPolicy) {
		return func(policy *networkingv1.NetworkPolicy) {
			policy.Spec.Ingress[0].Ports, policy.Spec.Egress[0].Ports = p, p
		}
	}
	both := func(field, text string) []string {
		to := strings.Replace(field, "from", "to", 1)
		return []string{"spec.ingress[0]." + field + ": " + text, "spec.egress[0]." + to + ": " + text}
	}
	number, name := new(intstr.FromInt32(80)), new(intstr.FromString("http"))
	changes := []registrytest.Change[*networkingv1.NetworkPolicy]{
		{Name: "selectors", To: peers(networkingv1.NetworkPolicyPeer{PodSelector: labels("b"), NamespaceSelector: labels("c")})},
		{Name: "a bad selector of pods", To: peers(networkingv1.NetworkPolicyPeer{PodSelector: labels("b c")}),
			Refused: both(`from[0].podSelector.matchExpressions[0].values[0]`, `Invalid value: "b c": `+notLabelText)},
		{Name: "a bad selector of namespaces", To: peers(networkingv1.NetworkPolicyPeer{NamespaceSelector: labels("b c")}),
			Refused: both(`from[0].namespaceSelector.matchExpressions[0].values[0]`, `Invalid value: "b c": `+notLabelText)},
		{Name: "pods and a network", To: peers(networkingv1.NetworkPolicyPeer{PodSelector: labels("b"), IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}),
			Refused: both(`from[0]`, `Forbidden: may not specify both ipBlock and another peer`)},
		{Name: "namespaces and a network", To: peers(networkingv1.NetworkPolicyPeer{NamespaceSelector: labels("b"), IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}),
			Refused: both(`from[0]`, `Forbidden: may not specify both ipBlock and another peer`)},
		{Name: "no network", To: peers(block("")...), Refused: both(`from[0].ipBlock.cidr`, `Required value`)},
		{Name: "a bad network", To: peers(block("x", "10.0.0.0/8")...), Refused: both(`from[0].ipBlock.cidr`, `Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`)},
		{Name: "a bad exception", To: peers(block("10.0.0.0/8", "x", "10.1.0.0/16")...), Refused: both(`from[0].ipBlock.except[0]`, `Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`)},
		{Name: "all but all", To: peers(block("10.0.0.0/8", "10.0.0.0/8")...), Refused: both(`from[0].ipBlock.except[0]`, "Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`")},
		{Name: "ports", To: ports(networkingv1.NetworkPolicyPort{}, networkingv1.NetworkPolicyPort{Port: number, EndPort: new(int32(80))}, networkingv1.NetworkPolicyPort{Port: name, Protocol: new(corev1.ProtocolSCTP)},
			networkingv1.NetworkPolicyPort{Port: number, EndPort: new(int32(65535)), Protocol: new(corev1.ProtocolUDP)})},
		{Name: "a bad protocol", To: ports(networkingv1.NetworkPolicyPort{Protocol: new(corev1.Protocol("ICMP"))}),
			Refused: both(`ports[0].protocol`, `Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"`)},
		{Name: "an end without a port", To: ports(networkingv1.NetworkPolicyPort{EndPort: new(int32(9))}),
			Refused: both(`ports[0].endPort`, "Invalid value: 9: may not be specified when `port` is not specified")},
		{Name: "an end after a name", To: ports(networkingv1.NetworkPolicyPort{Port: name, EndPort: new(int32(9))}),
			Refused: both(`ports[0].endPort`, "Invalid value: 9: may not be specified when `port` is non-numeric")},
		{Name: "an end beyond all", To: ports(networkingv1.NetworkPolicyPort{Port: number, EndPort: new(int32(65536))}),
			Refused: both(`ports[0].endPort`, "Invalid value: 65536: must be between 1 and 65535, inclusive")},
		{Name: "a port beyond all", To: ports(networkingv1.NetworkPolicyPort{Port: new(intstr.FromInt32(65536))}),
			Refused: both(`ports[0].port`, "Invalid value: 65536: must be between 1 and 65535, inclusive")},
		{Name: "a bad name", To: ports(networkingv1.NetworkPolicyPort{Port: new(intstr.FromString("1"))}),
			Refused: both(`ports[0].port`, `Invalid value: "1": must contain at least one letter (a-z)`)},
		{Name: "three types", To: func(policy *networkingv1.NetworkPolicy) {
			policy.Spec.PolicyTypes = []networkingv1.PolicyType{"Ingress", "Egress", "Ingress"}
		}, Refused: []string{`spec.policyTypes: Invalid value: ["Ingress","Egress","Ingress"]: may not specify more than two policyTypes`}},
	}
	registrytest.Create(t, k, good, changes)
	registrytest.Update(t, k, "", good, changes)
	// Values that were once accepted stay valid, wherever they move.
	old := good.DeepCopy()
	old.Spec.Egress[0].To = block("010.1.0.0/16", "010.1.2.0/24")
	old.Spec.PodSelector = *labels("b c")
	registrytest.Update(t, k, "", old, []registrytest.Change[*networkingv1.NetworkPolicy]{
		{Name: "a network moves", To: func(policy *networkingv1.NetworkPolicy) {
			policy.Spec.Ingress[0].From = block("010.1.0.0/16", "010.1.2.0/24")
		}},
		{Name: "another selector", To: func(policy *networkingv1.NetworkPolicy) { policy.Spec.PodSelector = *labels("d e") }},
		{Name: "another network", To: peers(block("010.2.0.0/16")...), Refused: both(`from[0].ipBlock.cidr`, `Invalid value: "010.2.0.0/16": must not have leading 0s in IP or prefix length`)},
	})
	for name, tt := range map[string]struct {
		spec networkingv1.NetworkPolicySpec
		want []networkingv1.PolicyType
	}{
		"nothing": {networkingv1.NetworkPolicySpec{}, []networkingv1.PolicyType{"Ingress"}},
		"said":    {networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Egress"}}, []networkingv1.PolicyType{"Egress"}},
		"both": {networkingv1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{{}, {Protocol: new(corev1.ProtocolUDP)}}}}},
			[]networkingv1.PolicyType{"Ingress", "Egress"}},
	} {
		policy := &networkingv1.NetworkPolicy{Spec: tt.spec}
		if k.Rules.Default(policy); !reflect.DeepEqual(policy.Spec.PolicyTypes, tt.want) {
			t.Errorf("%s: types %v", name, policy.Spec.PolicyTypes)
		}
		if name == "both" && (*tt.spec.Egress[0].Ports[0].Protocol != corev1.ProtocolTCP || *tt.spec.Egress[0].Ports[1].Protocol != corev1.ProtocolUDP) {
			t.Errorf("ports %+v", tt.spec.Egress[0].Ports)
		}
	}
}

func TestCells(t *testing.T) {
	now := time.Now()
	made := metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}
	hosts := func(names ...string) []networkingv1.IngressRule {
		var out []networkingv1.IngressRule
		for _, name := range names {
			out = append(out, networkingv1.IngressRule{Host: name})
		}
		return out
	}
	points := networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: []networkingv1.IngressLoadBalancerIngress{
		{Hostname: "z"}, {IP: "10.0.0.1", Hostname: "y"}, {}, {Hostname: "z"}}}}
	isDefault := *made.DeepCopy()
	isDefault.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	for _, tt := range []struct {
		plural string
		obj    registry.Object
		want   []any
	}{
		{"ingresses", &networkingv1.Ingress{ObjectMeta: made}, []any{"a", "<none>", "*", "", "80", "60m"}},
		{"ingresses", &networkingv1.Ingress{ObjectMeta: made, Status: points, Spec: networkingv1.IngressSpec{IngressClassName: new("c"), TLS: make([]networkingv1.IngressTLS, 1), Rules: hosts("x", "", "y")}},
			[]any{"a", "c", "x,y", "10.0.0.1,z", "80, 443", "60m"}},
		{"ingresses", &networkingv1.Ingress{ObjectMeta: made, Spec: networkingv1.IngressSpec{Rules: hosts("x", "y", "z")}}, []any{"a", "<none>", "x,y,z", "", "80", "60m"}},
		{"ingresses", &networkingv1.Ingress{ObjectMeta: made, Spec: networkingv1.IngressSpec{Rules: hosts("x", "y", "z", "", "v")}}, []any{"a", "<none>", "x,y,z + 2 more...", "", "80", "60m"}},
		{"ingressclasses", &networkingv1.IngressClass{ObjectMeta: made, Spec: networkingv1.IngressClassSpec{Controller: "c"}}, []any{"a", "c", "<none>", "60m"}},
		{"ingressclasses", &networkingv1.IngressClass{ObjectMeta: isDefault, Spec: networkingv1.IngressClassSpec{Controller: "c", Parameters: &networkingv1.IngressClassParametersReference{APIGroup: new("g"), Kind: "K", Name: "n"}}},
			[]any{"a (default)", "c", "K.g/n", "60m"}},
		{"ingressclasses", &networkingv1.IngressClass{ObjectMeta: made, Spec: networkingv1.IngressClassSpec{Parameters: &networkingv1.IngressClassParametersReference{Kind: "K", Name: "n"}}}, []any{"a", "", "K/n", "60m"}},
		{"networkpolicies", &networkingv1.NetworkPolicy{ObjectMeta: made, Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}, []any{"a", "a=b", "60m"}},
		{"ipaddresses", &networkingv1.IPAddress{ObjectMeta: made}, []any{"a", "<none>"}},
	} {
		if got := registrytest.Find(t, networking.Kinds(), tt.plural).Columns.Cells(tt.obj, now); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.plural, got, tt.want)
		}
	}
}

// TestFromV1beta1: an old ingress keeps its meaning in v1, where a path has a type and a backend is a service
// or a resource.
func TestFromV1beta1(t *testing.T) {
	resource := &corev1.TypedLocalObjectReference{Kind: "Bucket", Name: "b"}
	exact := v1beta1.PathTypeExact
	paths := func(list ...v1beta1.HTTPIngressPath) v1beta1.IngressRuleValue {
		return v1beta1.IngressRuleValue{HTTP: &v1beta1.HTTPIngressRuleValue{Paths: list}}
	}
	old := &v1beta1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: v1beta1.IngressSpec{
			IngressClassName: new("c"), Backend: &v1beta1.IngressBackend{Resource: resource}, TLS: []v1beta1.IngressTLS{{Hosts: []string{"h"}, SecretName: "s"}},
			Rules: []v1beta1.IngressRule{{Host: "none"}, {Host: "some", IngressRuleValue: paths(
				v1beta1.HTTPIngressPath{Path: "/a", PathType: &exact, Backend: v1beta1.IngressBackend{ServiceName: "s", ServicePort: intstr.FromString("web")}},
				v1beta1.HTTPIngressPath{Path: "/b", Backend: v1beta1.IngressBackend{ServicePort: intstr.FromInt32(80)}},
				v1beta1.HTTPIngressPath{Path: "/c", Backend: v1beta1.IngressBackend{ServiceName: "s"}},
			)}},
		},
		Status: v1beta1.IngressStatus{LoadBalancer: v1beta1.IngressLoadBalancerStatus{Ingress: []v1beta1.IngressLoadBalancerIngress{
			{IP: "10.0.0.1", Hostname: "h", Ports: []v1beta1.IngressPortStatus{{Port: 80, Protocol: corev1.ProtocolTCP, Error: new("e")}}}}}},
	}
	own := networkingv1.PathTypeImplementationSpecific
	want := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: networkingv1.IngressSpec{
			IngressClassName: new("c"), DefaultBackend: &networkingv1.IngressBackend{Resource: resource}, TLS: []networkingv1.IngressTLS{{Hosts: []string{"h"}, SecretName: "s"}},
			Rules: []networkingv1.IngressRule{{Host: "none"}, {Host: "some", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{
				{Path: "/a", PathType: new(networkingv1.PathTypeExact), Backend: toService("s", networkingv1.ServiceBackendPort{Name: "web"})},
				{Path: "/b", PathType: &own, Backend: toService("", networkingv1.ServiceBackendPort{Number: 80})},
				{Path: "/c", PathType: &own, Backend: toService("s", networkingv1.ServiceBackendPort{})},
			}}}}},
		},
		Status: networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: []networkingv1.IngressLoadBalancerIngress{
			{IP: "10.0.0.1", Hostname: "h", Ports: []networkingv1.IngressPortStatus{{Port: 80, Protocol: corev1.ProtocolTCP, Error: new("e")}}}}}},
	}
	older := registrytest.Find(t, networking.Kinds(), "ingresses").Older
	var versions []string
	for _, o := range older {
		versions = append(versions, o.GroupVersion.String())
		if _, ok := o.New().(*v1beta1.Ingress); !ok {
			t.Errorf("%s: New makes a %T", o.GroupVersion, o.New())
		}
		if got := o.ToStored(old.DeepCopy()); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v\nwant %+v", o.GroupVersion, got, want)
		}
	}
	if got := strings.Join(versions, " "); got != "networking.k8s.io/v1beta1 extensions/v1beta1" {
		t.Errorf("older versions %s", got)
	}
	bare := older[0].ToStored(&v1beta1.Ingress{Spec: v1beta1.IngressSpec{Rules: []v1beta1.IngressRule{{IngressRuleValue: paths(v1beta1.HTTPIngressPath{})}}}}).(*networkingv1.Ingress)
	if bare.Spec.DefaultBackend != nil || bare.Spec.Rules[0].HTTP.Paths[0].Backend.Service != nil {
		t.Errorf("from nothing came %+v", bare.Spec)
	}
}
