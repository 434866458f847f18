package core_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type serviceChange = registrytest.Change[*corev1.Service]

func service() *corev1.Service {
	return &corev1.Service{ObjectMeta: named(), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 80}},
	}}
}

// balanced returns a service with everything that its type has.
func balanced() *corev1.Service {
	svc := service()
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	svc.Spec.ClusterIP = "10.0.0.1"
	svc.Spec.Ports[0].NodePort = 30000
	svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	svc.Spec.HealthCheckNodePort = 30001
	svc.Spec.LoadBalancerClass = new("example.com/lb")
	return svc
}

const (
	badIP        = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
	badCIDR      = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
	onlyLB       = "Forbidden: may only be used when `type` is 'LoadBalancer'"
	fixed        = "may not change once set"
	notDual      = "this cluster is not configured for dual-stack services"
	badSubdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
	badLabel     = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)

func TestServicePorts(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	changes := []serviceChange{
		{Name: "none", To: func(s *corev1.Service) { s.Spec.Ports = nil }, Refused: []string{`spec.ports: Required value`}},
		{Name: "nameless", To: func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "a", Port: 81}) }, Refused: []string{
			`spec.ports[0].name: Required value`}},
		{Name: "names", To: func(s *corev1.Service) {
			s.Spec.Ports = []corev1.ServicePort{{Name: "A", Port: 80}, {Name: "b", Port: 81}, {Name: "b", Port: 82}}
		}, Refused: []string{`spec.ports[0].name: Invalid value: "A": ` + badLabel, `spec.ports[2].name: Duplicate value: "b"`}},
		{Name: "numbers", To: func(s *corev1.Service) {
			s.Spec.Ports[0] = corev1.ServicePort{Port: 70000, TargetPort: intstr.FromInt32(-1), Protocol: "ICMP", AppProtocol: new("a/b/c")}
		}, Refused: []string{
			`spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive`,
			`spec.ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`,
			`spec.ports[0].targetPort: Invalid value: -1: must be between 1 and 65535, inclusive`,
			`spec.ports[0].appProtocol: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`}},
		{Name: "target name", To: func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("Web") }, Refused: []string{
			`spec.ports[0].targetPort: Invalid value: "Web": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`}},
		{Name: "port twice", To: func(s *corev1.Service) {
			s.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 80}, {Name: "c", Port: 80, Protocol: "UDP"}}
		}, Refused: []string{
			`spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}`}},
		{Name: "node port", To: func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30000 }, Refused: []string{
			"spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"}},
		{Name: "node port twice", To: func(s *corev1.Service) {
			s.Spec.Type = corev1.ServiceTypeNodePort
			s.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 80, NodePort: 30000}, {Name: "b", Port: 81, NodePort: 30000}}
		}, Refused: []string{`spec.ports[1].nodePort: Duplicate value: 30000`}},
	}
	registrytest.Create(t, k, service(), changes)
	registrytest.Update(t, k, "", service(), changes)
}

func TestServiceSpec(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	registrytest.Create(t, k, service(), []serviceChange{
		{Name: "unknown type", To: func(s *corev1.Service) { s.Spec.Type = "Magic" }, Refused: []string{
			`spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`}},
		{Name: "affinity", To: func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }},
		{Name: "unknown affinity", To: func(s *corev1.Service) { s.Spec.SessionAffinity = "Cookie" }, Refused: []string{
			`spec.sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None"`}},
		{Name: "affinity for ever", To: func(s *corev1.Service) {
			s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(86401))}}
		}, Refused: []string{
			`spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400`}},
		{Name: "external IPs", To: func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"1.2.3.4", "x", "127.0.0.1"} }, Refused: []string{
			`spec.externalIPs[1]: Invalid value: "x": ` + badIP,
			`spec.externalIPs[2]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`}},
		{Name: "for load balancers", To: func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", " 1.2.3.0/24 ", "x"}
			s.Spec.AllocateLoadBalancerNodePorts, s.Spec.LoadBalancerClass = new(false), new("a")
		}, Refused: []string{
			"spec.LoadBalancerSourceRanges: " + onlyLB, `spec.LoadBalancerSourceRanges[2]: Invalid value: "x": ` + badCIDR,
			"spec.allocateLoadBalancerNodePorts: " + onlyLB, "spec.loadBalancerClass: " + onlyLB}},
		{Name: "annotated ranges", To: func(s *corev1.Service) {
			s.Spec.Type = corev1.ServiceTypeLoadBalancer
			s.Annotations = map[string]string{corev1.AnnotationLoadBalancerSourceRangesKey: "10.0.0.0/8, x"}
		}, Refused: []string{
			`metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Invalid value: "x": ` + badCIDR}},
		{Name: "traffic", To: func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy, s.Spec.InternalTrafficPolicy = "Local", new(corev1.ServiceInternalTrafficPolicy("Near"))
			s.Spec.TrafficDistribution, s.Spec.HealthCheckNodePort = new("Far"), 30000
		}, Refused: []string{
			`spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services`,
			"spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
			`spec.internalTrafficPolicy: Unsupported value: "Near": supported values: "Cluster", "Local"`,
			`spec.trafficDistribution: Unsupported value: "Far": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"`}},
		{Name: "topology", To: func(s *corev1.Service) {
			s.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto", corev1.DeprecatedAnnotationTopologyAwareHints: "Disabled"}
		}, Refused: []string{
			`metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: "Auto": must match annotations[service.kubernetes.io/topology-aware-hints] when both are specified`}},
		{Name: "another name", To: func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "foo.bar."}
		}},
		{Name: "an invalid other name", To: func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ClusterIP = corev1.ServiceTypeExternalName, "10.0.0.1"
		}, Refused: []string{
			`spec.clusterIPs: Forbidden: may not be set for ExternalName services`, `spec.externalName: Required value`}},
	})
	registrytest.Create(t, k, balanced(), []serviceChange{
		{Name: "bad class", To: func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("") }, Refused: []string{
			`spec.loadBalancerClass: Invalid value: "": name part must be non-empty`,
			`spec.loadBalancerClass: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`}},
		{Name: "headless", To: func(s *corev1.Service) { s.Spec.ClusterIP = "None" }, Refused: []string{
			`spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for LoadBalancer services`}},
		{Name: "health port to come", To: func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 0 }},
	})
}

func TestServiceAddresses(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	ips := func(ip string, list ...string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = ip, list }
	}
	policy := func(p corev1.IPFamilyPolicy, families ...corev1.IPFamily) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &p, families }
	}
	registrytest.Create(t, k, service(), []serviceChange{
		{Name: "one", To: ips("10.0.0.1")},
		{Name: "headless", To: ips("None")},
		{Name: "plural only", To: ips("", "10.0.0.1"), Refused: []string{
			"spec.clusterIPs: Invalid value: [\"10.0.0.1\"]: must be empty when `clusterIP` is not specified"}},
		{Name: "different", To: ips("10.0.0.1", "10.0.0.2"), Refused: []string{
			"spec.clusterIPs: Invalid value: [\"10.0.0.2\"]: first value must match `clusterIP`"}},
		{Name: "none and one", To: ips("None", "None", "10.0.0.1"), Refused: []string{
			`spec.clusterIPs: Invalid value: ["None","10.0.0.1"]: 'None' must be the first and only value`}},
		{Name: "no IP", To: ips("x"), Refused: []string{`spec.clusterIPs[0]: Invalid value: "x": ` + badIP}},
		{Name: "three", To: ips("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3"), Refused: []string{
			`spec.clusterIPs: Invalid value: ["10.0.0.1","10.0.0.2","10.0.0.3"]: may only hold up to 2 values`,
			`spec.clusterIPs: Invalid value: ["10.0.0.1","10.0.0.2","10.0.0.3"]: may specify no more than one IP for each IP family`}},
		{Name: "IPv6", To: ips("fd00::1"), Refused: []string{
			`spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster`}},
		{Name: "two of one", To: ips("10.0.0.1", "10.0.0.1", "fd00::1"), Refused: []string{
			`spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified`,
			`spec.clusterIPs[1]: Invalid value: ["10.0.0.1","fd00::1"]: IPv6 is not configured on this cluster`}},
		{Name: "prefers two", To: policy("PreferDualStack")},
		{Name: "requires two", To: policy("RequireDualStack"), Refused: []string{
			`spec.ipFamilyPolicy: Invalid value: "RequireDualStack": ` + notDual}},
		{Name: "unknown policy and family", To: policy("Any", "IPv5"), Refused: []string{
			`spec.ipFamilies[0]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6"`,
			`spec.ipFamilyPolicy: Unsupported value: "Any": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"`}},
		{Name: "family twice", To: policy("PreferDualStack", "IPv4", "IPv4"), Refused: []string{
			`spec.ipFamilies[1]: Duplicate value: "IPv4"`}},
		{Name: "the other family", To: policy("SingleStack", "IPv6"), Refused: []string{
			`spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`}},
		{Name: "IP of the other family", To: func(s *corev1.Service) { policy("SingleStack", "IPv6")(s); ips("10.0.0.1")(s) }, Refused: []string{
			"spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`"}},
	})
	stored := service()
	ips("10.0.0.1", "10.0.0.1")(stored)
	policy("SingleStack", "IPv4")(stored)
	registrytest.Update(t, k, "", stored, []serviceChange{
		{Name: "none again", To: ips("")},
		{Name: "singular only", To: ips("10.0.0.1")},
		{Name: "another", To: ips("10.0.0.2", "10.0.0.1"), Refused: []string{
			`spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: ` + fixed}},
		{Name: "another that is two", To: ips("10.0.0.2", "10.0.0.3"), Refused: []string{
			`spec.clusterIPs[0]: Invalid value: ["10.0.0.3"]: ` + fixed,
			"spec.clusterIPs: Invalid value: [\"10.0.0.3\"]: first value must match `clusterIP`"}},
		{Name: "another in both", To: ips("10.0.0.2", "10.0.0.2"), Refused: []string{
			`spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: ` + fixed}},
		{Name: "another family", To: policy("SingleStack", "IPv6"), Refused: []string{
			`spec.ipFamilies[0]: Invalid value: ["IPv6"]: ` + fixed,
			"spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`"}},
	})
}

func TestServiceUpdate(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	stored := balanced()
	registrytest.Prepare(k, stored)
	registrytest.Update(t, k, "", stored, []serviceChange{
		{Name: "class", To: func(s *corev1.Service) { s.Spec.LoadBalancerClass = nil }, Refused: []string{
			`spec.loadBalancerClass: Invalid value: null: ` + fixed}},
		{Name: "health port", To: func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 30005 }, Refused: []string{
			`spec.healthCheckNodePort: Forbidden: field is immutable`}},
		{Name: "type with new node port", To: func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 30009 }, Refused: []string{
			"spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"}},
		{Name: "manifest without allocations", To: func(s *corev1.Service) { s.Spec = *balanced().Spec.DeepCopy(); s.Spec.Ports[0].NodePort = 0 }},
	})
	next := stored.DeepCopy()
	next.Spec.Ports[0].NodePort, next.Spec.HealthCheckNodePort, next.Spec.ClusterIP, next.Spec.ClusterIPs = 0, 0, "", nil
	registrytest.Replace(k, "", next, stored)
	if s := next.Spec; s.Ports[0].NodePort != 30000 || s.HealthCheckNodePort != 30001 || s.ClusterIP != "10.0.0.1" || !slices.Equal(s.ClusterIPs, []string{"10.0.0.1"}) {
		t.Errorf("allocations are gone: %+v", s)
	}
	next = stored.DeepCopy()
	next.Spec.Type = corev1.ServiceTypeClusterIP
	errs := registrytest.Replace(k, "", next, stored)
	if s := next.Spec; s.Ports[0].NodePort != 0 || s.HealthCheckNodePort != 0 || s.LoadBalancerClass != nil || s.ExternalTrafficPolicy != "" ||
		s.AllocateLoadBalancerNodePorts != nil || s.ClusterIP != "10.0.0.1" || len(errs) > 0 {
		t.Errorf("as ClusterIP: %+v, %v", s, errs)
	}
	next = stored.DeepCopy()
	next.Spec.Type, next.Spec.ExternalName = corev1.ServiceTypeExternalName, "foo.bar"
	errs = registrytest.Replace(k, "", next, stored)
	if s := next.Spec; s.ClusterIP != "" || s.ClusterIPs != nil || s.IPFamilies != nil || s.IPFamilyPolicy != nil || len(errs) > 0 {
		t.Errorf("as ExternalName: %+v, %v", s, errs)
	}
}

func TestServiceDefaults(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	svc := service()
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "1.2.3.4"}}
	registrytest.Prepare(k, svc)
	s := svc.Spec
	if s.Type != corev1.ServiceTypeClusterIP || s.SessionAffinity != corev1.ServiceAffinityNone || s.Ports[0].Protocol != corev1.ProtocolTCP ||
		s.Ports[0].TargetPort != intstr.FromInt32(80) || *s.InternalTrafficPolicy != corev1.ServiceInternalTrafficPolicyCluster ||
		*s.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack || !slices.Equal(s.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol}) ||
		s.ClusterIP != "" || len(svc.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("%+v", svc)
	}
	byHand := service()
	byHand.Spec.Selector, byHand.Spec.ClusterIP = nil, corev1.ClusterIPNone
	registrytest.Prepare(k, byHand)
	if s := byHand.Spec; *s.IPFamilyPolicy != corev1.IPFamilyPolicyRequireDualStack || len(s.IPFamilies) != 2 || s.ClusterIPs[0] != "None" {
		t.Errorf("headless without selector: %+v", s)
	}
	f := k.Fields(byHand)
	if f.Get("spec.clusterIP") != "None" || f.Get("spec.type") != "ClusterIP" {
		t.Errorf("fields %v", f)
	}
}

func TestServiceStatus(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	ingress := func(in corev1.LoadBalancerIngress) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{in} }
	}
	registrytest.Update(t, k, "status", balanced(), []serviceChange{
		{Name: "address", To: ingress(corev1.LoadBalancerIngress{IP: "1.2.3.4"})},
		{Name: "name", To: ingress(corev1.LoadBalancerIngress{Hostname: "foo.bar"})},
		{Name: "the spec stays", To: func(s *corev1.Service) { s.Spec.Ports = nil }},
		{Name: "bad address", To: ingress(corev1.LoadBalancerIngress{IP: "x"}), Refused: []string{
			`status.loadBalancer.ingress[0].ip: Invalid value: "x": ` + badIP}},
		{Name: "mode without address", To: ingress(corev1.LoadBalancerIngress{IPMode: new(corev1.LoadBalancerIPModeVIP)}), Refused: []string{
			"status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set"}},
		{Name: "unknown mode", To: ingress(corev1.LoadBalancerIngress{IP: "1.2.3.4", IPMode: new(corev1.LoadBalancerIPMode("x"))}), Refused: []string{
			`status.loadBalancer.ingress[0].ipMode: Unsupported value: "x": supported values: "Proxy", "VIP"`}},
		{Name: "address as name", To: ingress(corev1.LoadBalancerIngress{Hostname: "1.2.3.4"}), Refused: []string{
			`status.loadBalancer.ingress[0].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address`}},
	})
	registrytest.Update(t, k, "status", service(), []serviceChange{
		{Name: "not balanced", To: ingress(corev1.LoadBalancerIngress{IP: "1.2.3.4"}), Refused: []string{
			"status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"}},
	})
}

// TestServiceUnprepared: what the defaults fill in is required.
func TestServiceUnprepared(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	svc := balanced()
	var got []string
	for _, err := range k.Rules.Validate(svc) {
		if err.Type == field.ErrorTypeRequired {
			got = append(got, err.Error())
		}
	}
	want := []string{"spec.clusterIPs: Required value", "spec.ports[0].protocol: Required value", "spec.sessionAffinity: Required value", "allocateLoadBalancerNodePorts: Required value", "spec.internalTrafficPolicy: Required value"}
	if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("got %q, want %q", got, want)
	}
	old := svc.DeepCopy()
	registrytest.Prepare(k, old)
	registrytest.Prepare(k, svc)
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.Spec.IPFamilies = "", nil, nil
	got = nil
	for _, err := range k.Rules.ValidateUpdate(svc, old) {
		got = append(got, err.Error())
	}
	want = []string{"spec.clusterIPs[0]: Invalid value: null: primary clusterIP can not be unset", "spec.ipFamilies[0]: Invalid value: null: primary ipFamily can not be unset"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestServiceIngress: where a load balancer is. What it was before needs no better form.
func TestServiceIngress(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	is := func(in ...corev1.LoadBalancerIngress) func(*corev1.Service) {
		return func(svc *corev1.Service) { svc.Status.LoadBalancer.Ingress = in }
	}
	vip := new(corev1.LoadBalancerIPModeVIP)
	stored := balanced()
	registrytest.Prepare(k, stored)
	is(corev1.LoadBalancerIngress{IP: "010.0.0.1", IPMode: vip}, corev1.LoadBalancerIngress{Hostname: "a.b"})(stored)
	const at = "status.loadBalancer.ingress[0]."
	registrytest.Update(t, k, "status", stored, []serviceChange{
		{Name: "the same", To: is(corev1.LoadBalancerIngress{IP: "010.0.0.1", IPMode: vip})},
		{Name: "a new odd one", To: is(corev1.LoadBalancerIngress{IP: "010.0.0.2", IPMode: vip}), Refused: []string{
			at + `ip: Invalid value: "010.0.0.2": must not have leading 0s`}},
		{Name: "bad host and mode", To: is(corev1.LoadBalancerIngress{Hostname: "A"}, corev1.LoadBalancerIngress{IP: "10.0.0.1", IPMode: new(corev1.LoadBalancerIPMode("x"))}), Refused: []string{
			at + `hostname: Invalid value: "A": ` + badSubdomain,
			`status.loadBalancer.ingress[1].ipMode: Unsupported value: "x": supported values: "Proxy", "VIP"`}},
		{Name: "no name", To: is(corev1.LoadBalancerIngress{Hostname: "10.0.0.1"}), Refused: []string{
			at + `hostname: Invalid value: "10.0.0.1": must be a DNS name, not an IP address`}},
		{Name: "mode of nothing", To: is(corev1.LoadBalancerIngress{IPMode: vip, Hostname: "a"}), Refused: []string{
			at + "ipMode: Forbidden: may not be specified when `ip` is not set"}},
	})
	bare := stored.DeepCopy()
	is(corev1.LoadBalancerIngress{IP: "10.0.0.1"})(bare)
	registrytest.Update(t, k, "status", bare, nil)
	errs := k.Sub.Views["status"].ValidateUpdate(bare, stored)
	if len(errs) != 1 || errs[0].Error() != at+"ipMode: Required value: must be specified when `ip` is set" {
		t.Errorf("without a mode: %v", errs)
	}
	plain := service()
	registrytest.Prepare(k, plain)
	registrytest.Update(t, k, "status", plain, []serviceChange{{Name: "not balanced", To: is(corev1.LoadBalancerIngress{IP: "10.0.0.1", IPMode: vip}), Refused: []string{
		"status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"}}})
}
