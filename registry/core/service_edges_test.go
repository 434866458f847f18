package core_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/storage/memory"
)

// dualKind returns the kind of services of a cluster with two families.
func dualKind(t *testing.T) registry.Kind {
	t.Helper()
	return registrytest.Find(t, core.Kinds(core.Options{Services: core.Services{Networks: prefixes(v4, v6)}}), "services")
}

// TestServiceFamilyChanges: the second family and its address may be added and released; the first stays.
func TestServiceFamilyChanges(t *testing.T) {
	const single, prefer, require = corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
	stored := func(change ...func(*corev1.Service)) *corev1.Service {
		svc := service()
		svc.Spec.Type = corev1.ServiceTypeClusterIP
		for _, f := range change {
			f(svc)
		}
		return svc
	}
	all := func(change ...func(*corev1.Service)) func(*corev1.Service) {
		return func(svc *corev1.Service) {
			for _, f := range change {
				f(svc)
			}
		}
	}
	k := dualKind(t)
	both := stored(clusterIPs("10.96.0.9", "fd00::9"), families(require, "IPv4", "IPv6"))
	registrytest.Update(t, k, "", both, []serviceChange{
		{Name: "the policy alone", To: func(svc *corev1.Service) { svc.Spec.IPFamilyPolicy = new(single) }},
		{Name: "everything at once", To: all(clusterIPs("10.96.0.9"), families(single, "IPv4"))},
		{Name: "an address without the policy", To: clusterIPs("10.96.0.9"), Refused: []string{
			`spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be set to 'SingleStack' when releasing the secondary clusterIP`, `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be 'SingleStack' to release the secondary cluster IP`}},
		{Name: "a family without the policy", To: families(require, "IPv4"), Refused: []string{
			`spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be set to 'SingleStack' when releasing the secondary ipFamily`, `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be 'SingleStack' to release the secondary IP family`}},
		{Name: "both without the policy", To: all(clusterIPs("10.96.0.9"), families(prefer, "IPv4")), Refused: []string{
			`spec.ipFamilyPolicy: Invalid value: "PreferDualStack": must be set to 'SingleStack' when releasing the secondary clusterIP`, `spec.ipFamilyPolicy: Invalid value: "PreferDualStack": must be set to 'SingleStack' when releasing the secondary ipFamily`, `spec.ipFamilyPolicy: Invalid value: "PreferDualStack": must be 'SingleStack' to release the secondary cluster IP`, `spec.ipFamilyPolicy: Invalid value: "PreferDualStack": must be 'SingleStack' to release the secondary IP family`}},
		{Name: "the first of both", To: all(clusterIPs("fd00::9"), families(single, "IPv6")), Refused: []string{
			`spec.clusterIPs[0]: Invalid value: ["fd00::9"]: ` + fixed, `spec.ipFamilies[0]: Invalid value: ["fd00::9"]: ` + fixed}},
		{Name: "the first family", To: families(single, "IPv6"), Refused: []string{
			`spec.ipFamilies[0]: Invalid value: ["10.96.0.9","fd00::9"]: ` + fixed, "spec.clusterIPs[0]: Invalid value: \"10.96.0.9\": expected an IPv6 value as indicated by `ipFamilies[0]`"}},
		{Name: "all addresses without the policy", To: all(func(svc *corev1.Service) { svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "", nil }, families(require, "IPv4")), Refused: []string{
			`spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be set to 'SingleStack' when releasing the secondary ipFamily`, `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be 'SingleStack' to release the secondary IP family`}},
		{Name: "an empty list", To: func(svc *corev1.Service) { svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "", []string{} }},
		{Name: "no families", To: func(svc *corev1.Service) { svc.Spec.IPFamilies = nil }},
		{Name: "no families and one stack", To: func(svc *corev1.Service) { svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy = nil, new(single) }},
		{Name: "another preference", To: families(prefer, "IPv4", "IPv6")},
		{Name: "the order", To: families(require, "IPv6", "IPv4"), Refused: []string{
			`spec.ipFamilies[0]: Invalid value: ["IPv6","IPv4"]: ` + fixed,
			"spec.clusterIPs[0]: Invalid value: \"10.96.0.9\": expected an IPv6 value as indicated by `ipFamilies[0]`",
			"spec.clusterIPs[1]: Invalid value: \"fd00::9\": expected an IPv4 value as indicated by `ipFamilies[1]`"}},
	})
	one := stored(clusterIPs("10.96.0.9"), families(single, "IPv4"))
	registrytest.Update(t, k, "", one, []serviceChange{
		{Name: "one more", To: all(clusterIPs("10.96.0.9", "fd00::9"), families(require, "IPv4", "IPv6"))},
		{Name: "one more that is none", To: clusterIPs("10.96.0.9", "None"), Refused: []string{`spec.clusterIPs[1]: Invalid value: "None": ` + badIP}},
	})
	headless := stored(clusterIPs("None"), families(single, "IPv4"))
	registrytest.Update(t, k, "", headless, []serviceChange{
		{Name: "the other family", To: families(single, "IPv6")},
		{Name: "with an address", To: all(clusterIPs("fd00::9"), families(single, "IPv6")), Refused: []string{
			`spec.clusterIPs[0]: Invalid value: ["fd00::9"]: ` + fixed}},
	})
	six := stored(clusterIPs("fd00::9"), families(single, "IPv6"))
	registrytest.Update(t, k, "", six, []serviceChange{
		{Name: "headless", To: all(clusterIPs("None"), families(single, "IPv4")), Refused: []string{
			`spec.clusterIPs[0]: Invalid value: ["None"]: ` + fixed}},
		{Name: "no name of a type", To: func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeExternalName }, Refused: []string{
			`spec.externalName: Required value`}},
	})
}

// TestServiceLosesAddresses: a service that becomes another name loses its addresses, whichever of the two fields a client
// sends unchanged or clears, and keeps those that the client changes, which are refused.
func TestServiceLosesAddresses(t *testing.T) {
	k := dualKind(t)
	stored := service()
	clusterIPs("10.96.0.9")(stored)
	families(corev1.IPFamilyPolicySingleStack, "IPv4")(stored)
	named := func(ip string, ips ...string) func(*corev1.Service) {
		return func(svc *corev1.Service) {
			svc.Spec.Type, svc.Spec.ExternalName, svc.Spec.Ports = corev1.ServiceTypeExternalName, "example.com", nil
			svc.Spec.ClusterIP, svc.Spec.ClusterIPs = ip, ips
		}
	}
	const refused = `spec.clusterIPs: Forbidden: may not be set for ExternalName services`
	registrytest.Update(t, k, "", stored, []serviceChange{
		{Name: "unchanged", To: named("10.96.0.9", "10.96.0.9")},
		{Name: "the first alone", To: named("10.96.0.9")},
		{Name: "the list alone", To: named("", "10.96.0.9")},
		{Name: "neither", To: named("")},
		{Name: "others", To: named("10.96.0.8", "10.96.0.8"), Refused: []string{refused}},
		{Name: "another first", To: named("10.96.0.8", "10.96.0.9"), Refused: []string{refused}},
		{Name: "another list", To: named("10.96.0.9", "10.96.0.8"), Refused: []string{refused}},
	})
}

// TestServiceKeepsNodePortsSetting: whether node ports are allocated may only be set for load balancers, even if it was not
// set before.
func TestServiceKeepsNodePortsSetting(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	const refused = "spec.allocateLoadBalancerNodePorts: " + onlyLB
	becomes := func(allocate *bool) func(*corev1.Service) {
		return func(svc *corev1.Service) {
			svc.Spec.Type, svc.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeNodePort, allocate
		}
	}
	for _, c := range []struct {
		before, now *bool
		want        string
	}{{nil, nil, ""}, {nil, new(true), refused}, {new(true), new(true), ""}, {new(true), new(false), refused}, {new(false), new(false), ""}, {new(true), nil, ""}} {
		old := balanced()
		registrytest.Prepare(k, old)
		old.Spec.AllocateLoadBalancerNodePorts = c.before
		svc := old.DeepCopy()
		becomes(c.now)(svc)
		svc.Spec.HealthCheckNodePort, svc.Spec.LoadBalancerClass = 0, nil
		errs := registrytest.Replace(k, "", svc, old)
		var got []string
		for _, err := range errs {
			got = append(got, err.Error())
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%v becomes %v: %q", c.before, c.now, got)
		}
	}
}

// TestServicesWithoutFamilies: a registry without networks assigns no addresses, and one with networks assigns them to
// services from that time when they are written.
func TestServicesWithoutFamilies(t *testing.T) {
	store := memory.New(memory.Options{})
	ports, err := allocation.NewPorts(store, allocation.PortRange{First: 30000, Size: 100})
	if err != nil {
		t.Fatal(err)
	}
	r, err := registry.New(store, core.Kinds(core.Options{Services: core.Services{NodePorts: ports}}), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, r)
	s := &server{t: t, registry: r, ports: ports}
	s.services, _ = r.Resource(services())
	for _, name := range []string{"a", "b"} {
		svc, err := s.create(withType(name, corev1.ServiceTypeNodePort), false)
		if err != nil || shape(svc) != "2 ports [IPv4]" {
			t.Fatalf("%v, %v", svc, err)
		}
	}
	s.remove("b")
	later := serve(t, store, v4)
	svc, err := later.update("a", func(svc *corev1.Service) { svc.Labels = map[string]string{"a": "b"} }, false)
	if err != nil || shape(svc) != "v4 2 ports [IPv4]" {
		t.Errorf("%v, %v", svc, err)
	}
	later.consistent()
}

// TestServiceAddressAsWritten: an address stays as the client wrote it.
func TestServiceAddressAsWritten(t *testing.T) {
	s := serve(t, memory.New(memory.Options{}), v6)
	for _, dry := range []bool{true, false} {
		svc, err := s.create(withType("a", corev1.ServiceTypeClusterIP, clusterIPs("FD00:0::9")), dry)
		if err != nil || svc.Spec.ClusterIP != "FD00:0::9" || !slices.Equal(svc.Spec.ClusterIPs, []string{"FD00:0::9"}) {
			t.Errorf("%v, %v", svc, err)
		}
	}
	s.consistent()
}

// TestServiceAbandoned: a client that is gone gets no addresses, and the error says that it is gone.
func TestServiceAbandoned(t *testing.T) {
	s := serve(t, memory.New(memory.Options{}), v4)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	svc := withType("a", corev1.ServiceTypeNodePort)
	s.services.Rules.Default(svc)
	if _, err := s.services.Create(ctx, svc, registry.CreateOptions{}); !errors.Is(err, context.Canceled) || errors.Is(err, registry.ErrInternal) {
		t.Errorf("told %v", err)
	}
	if taken := s.taken(); len(taken) > 0 {
		t.Errorf("taken %v", taken)
	}
}

// portless is a store that refuses to create or to update the record of node ports.
type portless struct {
	*memory.Store
	create, update bool
}

const portsPlace = "/registry/ranges/servicenodeports"

func (p *portless) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if p.create && key == portsPlace {
		return 0, errBroken
	}
	return p.Store.Create(ctx, key, value)
}

func (p *portless) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	if p.update && key == portsPlace {
		return 0, errBroken
	}
	return p.Store.Update(ctx, key, value, expected)
}

// TestServiceWithoutPorts: a service whose node ports cannot be recorded is refused, and gives its address back.
func TestServiceWithoutPorts(t *testing.T) {
	store := &portless{Store: memory.New(memory.Options{}), create: true}
	s := serve(t, store, v4)
	refused := func(when string) {
		t.Helper()
		_, err := s.create(withType("a", corev1.ServiceTypeNodePort), false)
		if got := fields(err); !errors.Is(err, registry.ErrInternal) || !strings.HasPrefix(got, "failed to allocate a nodePort: ") || !strings.Contains(got, errBroken.Error()) {
			t.Errorf("%s: %v", when, err)
		}
		s.consistent()
	}
	refused("no record can be made")
	store.create, store.update = false, true
	refused("the record cannot be changed")
	store.update = false
	if svc, err := s.create(withType("a", corev1.ServiceTypeNodePort), false); err != nil || shape(svc) != "v4 2 ports [IPv4]" {
		t.Errorf("in the end: %v, %v", svc, err)
	}
	s.consistent()
}

// TestServicesWithoutPorts: a registry without node ports assigns none.
func TestServicesWithoutPorts(t *testing.T) {
	r, err := registry.New(memory.New(memory.Options{}), core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, r)
	s := &server{t: t, registry: r}
	s.services, _ = r.Resource(services())
	for _, kind := range []corev1.ServiceType{corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer} {
		if svc, err := s.create(withType(strings.ToLower(string(kind)), kind, local), false); err != nil || shape(svc) != "[IPv4]" {
			t.Errorf("%s: %v, %v", kind, svc, err)
		}
	}
}

// TestServiceFamiliesByHand: a headless service may name a family that the cluster does not have if its endpoints are managed
// by hand, also beside the one that it had, and gets no address for it.
func TestServiceFamiliesByHand(t *testing.T) {
	s := serve(t, memory.New(memory.Options{}), v4)
	byHand := func(svc *corev1.Service) { svc.Spec.Selector = nil }
	const single, require = corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyRequireDualStack
	svc, err := s.create(withType("a", corev1.ServiceTypeClusterIP, clusterIPs("None"), byHand, families(single, "IPv4")), false)
	if err != nil || shape(svc) != "None [IPv4]" {
		t.Fatalf("%v, %v", svc, err)
	}
	if svc, err = s.update("a", families(require, "IPv4", "IPv6"), false); err != nil || shape(svc) != "None [IPv4 IPv6]" {
		t.Errorf("%v, %v", svc, err)
	}
	if svc, err = s.update("a", families(single, "IPv6"), false); err != nil || shape(svc) != "None [IPv6]" {
		t.Errorf("%v, %v", svc, err)
	}
	if _, err = s.create(withType("b", corev1.ServiceTypeClusterIP), false); err != nil {
		t.Fatal(err)
	}
	if _, err = s.update("b", func(svc *corev1.Service) {
		byHand(svc)
		clusterIPs("None")(svc)
		families(require, "IPv4", "IPv6")(svc)
	}, false); !errors.Is(err, registry.ErrInvalid) {
		t.Errorf("told %v", err)
	}
	s.consistent()
}

// TestServiceOddAddresses: addresses and networks in a form that is no longer accepted stay valid where they were before.
func TestServiceOddAddresses(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	const annotation = corev1.AnnotationLoadBalancerSourceRangesKey
	stored := balanced()
	stored.Spec.ExternalIPs, stored.Spec.LoadBalancerSourceRanges = []string{"010.0.0.1"}, []string{" 010.0.0.0/8 "}
	registrytest.Prepare(k, stored)
	const ip, network = `: Invalid value: "010.0.0.2": must not have leading 0s`, `: Invalid value: "011.0.0.0/8": must not have leading 0s in IP or prefix length`
	registrytest.Update(t, k, "", stored, []serviceChange{
		{Name: "moved", To: func(svc *corev1.Service) {
			svc.Spec.ExternalIPs, svc.Spec.LoadBalancerSourceRanges = []string{"1.2.3.4", "010.0.0.1"}, []string{"1.2.3.0/24", "010.0.0.0/8"}
		}},
		{Name: "others", To: func(svc *corev1.Service) {
			svc.Spec.ExternalIPs, svc.Spec.LoadBalancerSourceRanges = []string{"010.0.0.2"}, []string{"011.0.0.0/8"}
		}, Refused: []string{"spec.externalIPs[0]" + ip, "spec.LoadBalancerSourceRanges[0]" + network}},
	})
	annotated := balanced()
	annotated.Annotations = map[string]string{annotation: "x"}
	registrytest.Prepare(k, annotated)
	const bad = "metadata.annotations[" + annotation + `]: Invalid value: "y": ` + badCIDR
	registrytest.Update(t, k, "", annotated, []serviceChange{
		{Name: "another bad annotation", To: func(svc *corev1.Service) { svc.Annotations = map[string]string{annotation: "y"} }, Refused: []string{bad}},
		{Name: "an empty annotation", To: func(svc *corev1.Service) { svc.Annotations = map[string]string{annotation: " "} }},
		{Name: "several in the annotation", To: func(svc *corev1.Service) {
			svc.Annotations = map[string]string{annotation: " 1.2.3.0/24 , y,10.0.0.0/8"}
		}, Refused: []string{bad}},
		{Name: "ranges before the annotation", To: func(svc *corev1.Service) {
			svc.Annotations, svc.Spec.LoadBalancerSourceRanges = map[string]string{annotation: "y"}, []string{"1.2.3.0/24"}
		}},
	})
	registrytest.Create(t, k, service(), []serviceChange{
		{Name: "annotation of no load balancer", To: func(svc *corev1.Service) { svc.Annotations = map[string]string{annotation: ""} }, Refused: []string{
			"metadata.annotations[" + annotation + "]: " + onlyLB}},
		{Name: "both of no load balancer", To: func(svc *corev1.Service) {
			svc.Annotations, svc.Spec.LoadBalancerSourceRanges = map[string]string{annotation: ""}, []string{"1.2.3.0/24"}
		}, Refused: []string{"spec.LoadBalancerSourceRanges: " + onlyLB}},
		{Name: "one mode of topology", To: func(svc *corev1.Service) { svc.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"} }},
		{Name: "another mode of topology", To: func(svc *corev1.Service) {
			svc.Annotations = map[string]string{corev1.DeprecatedAnnotationTopologyAwareHints: "Auto"}
		}},
		{Name: "both modes of topology", To: func(svc *corev1.Service) {
			svc.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto", corev1.DeprecatedAnnotationTopologyAwareHints: "Auto"}
		}},
		{Name: "a name of dots", To: func(svc *corev1.Service) {
			svc.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: ".", IPFamilies: []corev1.IPFamily{"IPv4"}, IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack)}
		}, Refused: []string{
			"spec.ipFamilies: Forbidden: may not be set for ExternalName services", "spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services",
			"spec.externalName: Required value"}},
		{Name: "headless without ports", To: func(svc *corev1.Service) { svc.Spec.Ports, svc.Spec.ClusterIP = nil, "None" }},
		{Name: "headless of nodes", To: func(svc *corev1.Service) { svc.Spec.Type, svc.Spec.ClusterIP = corev1.ServiceTypeNodePort, "None" }, Refused: []string{
			`spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services`}},
		{Name: "one port twice, of two protocols", To: func(svc *corev1.Service) {
			svc.Spec.Type = corev1.ServiceTypeNodePort
			svc.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 80, NodePort: 30000}, {Name: "b", Port: 80, NodePort: 30000, Protocol: corev1.ProtocolUDP}}
		}},
	})
}

// TestServiceTraffic: which policies a service has by default, by its type and by whether it is reachable from outside.
func TestServiceTraffic(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	outside := func(svc *corev1.Service) { svc.Spec.ExternalIPs = []string{"1.2.3.4"} }
	for name, c := range map[string]struct {
		svc                *corev1.Service
		external, internal string
		allocates          bool
	}{
		"ClusterIP":               {withType("a", corev1.ServiceTypeClusterIP), "", "Cluster", false},
		"ClusterIP from outside":  {withType("a", corev1.ServiceTypeClusterIP, outside), "Cluster", "Cluster", false},
		"NodePort":                {withType("a", corev1.ServiceTypeNodePort), "Cluster", "Cluster", false},
		"LoadBalancer":            {withType("a", corev1.ServiceTypeLoadBalancer), "Cluster", "Cluster", true},
		"ExternalName":            {withType("a", corev1.ServiceTypeExternalName), "", "", false},
		"ExternalName of outside": {withType("a", corev1.ServiceTypeExternalName, outside), "", "", false},
		"Local":                   {withType("a", corev1.ServiceTypeNodePort, local), "Local", "Cluster", false},
	} {
		registrytest.Prepare(k, c.svc)
		s, internal := c.svc.Spec, ""
		if s.InternalTrafficPolicy != nil {
			internal = string(*s.InternalTrafficPolicy)
		}
		if string(s.ExternalTrafficPolicy) != c.external || internal != c.internal || (s.AllocateLoadBalancerNodePorts != nil && *s.AllocateLoadBalancerNodePorts) != c.allocates {
			t.Errorf("%s: %q %q %v", name, s.ExternalTrafficPolicy, internal, s.AllocateLoadBalancerNodePorts)
		}
		if errs := k.Rules.Validate(c.svc); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
	svc := withType("a", corev1.ServiceTypeNodePort)
	registrytest.Prepare(k, svc)
	svc.Spec.ExternalTrafficPolicy, svc.Spec.HealthCheckNodePort = "", 70000
	want := []string{"spec.externalTrafficPolicy: Required value", "spec.healthCheckNodePort: Invalid value: 70000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"}
	if got := texts(k.Rules.Validate(svc)); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	svc = withType("a", corev1.ServiceTypeLoadBalancer, local)
	registrytest.Prepare(k, svc)
	svc.Spec.HealthCheckNodePort = 70000
	if got := texts(k.Rules.Validate(svc)); !slices.Equal(got, []string{"spec.healthCheckNodePort: Invalid value: 70000: must be between 1 and 65535, inclusive"}) {
		t.Errorf("got %q", got)
	}
}

// TestServiceKeepsTypedFields: what the old type had goes with it if the client leaves it unchanged, and is refused otherwise.
func TestServiceKeepsTypedFields(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	stored := balanced()
	registrytest.Prepare(k, stored)
	becomes := func(kind corev1.ServiceType, change func(*corev1.Service)) func(*corev1.Service) {
		return func(svc *corev1.Service) {
			svc.Spec.Type = kind
			change(svc)
		}
	}
	const node, cluster = corev1.ServiceTypeNodePort, corev1.ServiceTypeClusterIP
	registrytest.Update(t, k, "", stored, []serviceChange{
		{Name: "nothing else", To: becomes(node, func(*corev1.Service) {})},
		{Name: "another class", To: becomes(node, func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = new("a") }), Refused: []string{"spec.loadBalancerClass: " + onlyLB}},
		{Name: "no class", To: becomes(node, func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = nil })},
		{Name: "another health port", To: becomes(node, func(svc *corev1.Service) { svc.Spec.HealthCheckNodePort = 30005 }), Refused: []string{
			"spec.healthCheckNodePort: Invalid value: 30005: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"}},
		{Name: "another policy", To: becomes(cluster, func(svc *corev1.Service) { svc.Spec.ExternalTrafficPolicy = "Cluster" }), Refused: []string{
			`spec.externalTrafficPolicy: Invalid value: "Cluster": may only be set for externally-accessible services`}},
		{Name: "a new node port beside the old", To: becomes(cluster, func(svc *corev1.Service) {
			svc.Spec.Ports[0].Name = "a"
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "b", Port: 81, NodePort: 30009})
		}), Refused: []string{
			"spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'", "spec.ports[1].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"}},
		{Name: "no longer local", To: func(svc *corev1.Service) { svc.Spec.ExternalTrafficPolicy = "Cluster" }},
		{Name: "no longer local, another health port", To: func(svc *corev1.Service) {
			svc.Spec.ExternalTrafficPolicy, svc.Spec.HealthCheckNodePort = "Cluster", 30005
		}, Refused: []string{
			"spec.healthCheckNodePort: Invalid value: 30005: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"}},
	})
	plain := service()
	registrytest.Prepare(k, plain)
	registrytest.Update(t, k, "", plain, []serviceChange{
		{Name: "balanced, with a class", To: becomes(corev1.ServiceTypeLoadBalancer, func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = new("a/b") })},
	})
}

// TestServicePortsAreKept: ports keep the node ports of their names if the client leaves them out, unless it has given these to
// others.
func TestServicePortsAreKept(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	port := func(name string, node int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: 80 + int32(name[0]), NodePort: node}
	}
	stored := withType("a", corev1.ServiceTypeNodePort)
	stored.Spec.Ports = []corev1.ServicePort{port("p", 30000), port("q", 30001)}
	registrytest.Prepare(k, stored)
	for name, c := range map[string]struct{ given, want []corev1.ServicePort }{
		"none given":   {[]corev1.ServicePort{port("p", 0), port("q", 0)}, []corev1.ServicePort{port("p", 30000), port("q", 30001)}},
		"other order":  {[]corev1.ServicePort{port("q", 0), port("p", 0)}, []corev1.ServicePort{port("q", 30001), port("p", 30000)}},
		"one given":    {[]corev1.ServicePort{port("p", 30005), port("q", 0)}, []corev1.ServicePort{port("p", 30005), port("q", 30001)}},
		"another's":    {[]corev1.ServicePort{port("p", 0), port("q", 30000)}, []corev1.ServicePort{port("p", 0), port("q", 30000)}},
		"another name": {[]corev1.ServicePort{port("r", 0), port("q", 0)}, []corev1.ServicePort{port("r", 0), port("q", 30001)}},
	} {
		svc := stored.DeepCopy()
		svc.Spec.Ports = c.given
		registrytest.Replace(k, "", svc, stored)
		for i, p := range svc.Spec.Ports {
			if p.Name != c.want[i].Name || p.NodePort != c.want[i].NodePort {
				t.Errorf("%s: %d of %s", name, p.NodePort, p.Name)
			}
		}
	}
	svc := stored.DeepCopy()
	svc.Spec.Type, svc.Spec.Ports = corev1.ServiceTypeLoadBalancer, []corev1.ServicePort{port("p", 0)}
	svc.Spec.AllocateLoadBalancerNodePorts = new(false)
	if registrytest.Replace(k, "", svc, stored); svc.Spec.Ports[0].NodePort != 0 {
		t.Errorf("without node ports: %d", svc.Spec.Ports[0].NodePort)
	}
}

func texts(errs field.ErrorList) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}
