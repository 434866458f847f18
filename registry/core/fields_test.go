package core_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// TestEventFieldsStay: nothing of an event but its series changes.
func TestEventFieldsStay(t *testing.T) {
	const fixed = ": field is immutable"
	registrytest.Update(t, strict(t), "", newEvent(), []eventChange{
		{Name: "type", To: func(e *corev1.Event) { e.Type = corev1.EventTypeWarning }, Refused: []string{`type: Invalid value: "Warning"` + fixed}},
		{Name: "first time", To: func(e *corev1.Event) { e.FirstTimestamp = metav1.NewTime(time.Unix(7, 0).UTC()) }, Refused: []string{
			`firstTimestamp: Invalid value: "1970-01-01T00:00:07Z"` + fixed}},
		{Name: "last time", To: func(e *corev1.Event) { e.LastTimestamp = metav1.NewTime(time.Unix(7, 0).UTC()) }, Refused: []string{
			`lastTimestamp: Invalid value: "1970-01-01T00:00:07Z"` + fixed}},
		{Name: "count", To: func(e *corev1.Event) { e.Count = 3 }, Refused: []string{`count: Invalid value: 3` + fixed}},
		{Name: "controller", To: func(e *corev1.Event) { e.ReportingController = "example.com/d" }, Refused: []string{`reportingController: Invalid value: "example.com/d"` + fixed}},
		{Name: "instance", To: func(e *corev1.Event) { e.ReportingInstance = "c-2" }, Refused: []string{`reportingInstance: Invalid value: "c-2"` + fixed}},
		{Name: "action", To: func(e *corev1.Event) { e.Action = "Push" }, Refused: []string{`action: Invalid value: "Push"` + fixed}},
		{Name: "a microsecond", To: func(e *corev1.Event) { e.EventTime = metav1.NewMicroTime(time.Unix(1000, 1000).UTC()) }, Refused: []string{
			`eventTime: Invalid value: "1970-01-01T00:16:40.000001Z"` + fixed}},
	})
}

// TestNotReadyAddresses: addresses that are not ready are held to the same rules as others, each where it is.
func TestNotReadyAddresses(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "endpoints")
	good := &corev1.Endpoints{ObjectMeta: named(), Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}}}}}
	registrytest.Create(t, k, good, []registrytest.Change[*corev1.Endpoints]{
		{Name: "both", To: func(e *corev1.Endpoints) {
			e.Subsets[0].NotReadyAddresses = []corev1.EndpointAddress{{IP: "10.0.0.2"}, {IP: "127.0.0.1"}}
		}, Refused: []string{`subsets[0].notReadyAddresses[1].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`}},
		{Name: "alone", To: func(e *corev1.Endpoints) {
			e.Subsets[0].Addresses, e.Subsets[0].NotReadyAddresses = nil, []corev1.EndpointAddress{{IP: "224.0.0.1"}}
		}, Refused: []string{`subsets[0].notReadyAddresses[0].ip: Invalid value: "224.0.0.1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)`}},
		{Name: "another subset", To: func(e *corev1.Endpoints) { e.Subsets = append(e.Subsets, corev1.EndpointSubset{}) }, Refused: []string{
			"subsets[1]: Required value: must specify `addresses` or `notReadyAddresses`"}},
	})
}

// TestConfigSourceOfVersion: a node's spec names a configuration of no certain version.
func TestConfigSourceOfVersion(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "nodes")
	stored := node()
	stored.Spec.ConfigSource = &corev1.NodeConfigSource{ConfigMap: &corev1.ConfigMapNodeConfigSource{Namespace: "ns", Name: "x", KubeletConfigKey: "k"}}
	const at = "spec.configSource.configMap."
	registrytest.Update(t, k, "", stored, []registrytest.Change[*corev1.Node]{
		{Name: "a version", To: func(n *corev1.Node) { n.Spec.ConfigSource.ConfigMap.ResourceVersion = "1" }, Refused: []string{
			at + `resourceVersion: Forbidden: resourceVersion must not be set in spec`}},
		{Name: "no parts", To: func(n *corev1.Node) { n.Spec.ConfigSource.ConfigMap = &corev1.ConfigMapNodeConfigSource{} }, Refused: []string{
			at + "namespace: Required value", at + "name: Required value", at + "kubeletConfigKey: Required value"}},
	})
}

// TestPodIsNotGated: only a reason of scheduling that is gated shows as the pod's state.
func TestPodIsNotGated(t *testing.T) {
	pod := printedPod(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Reason: "Unschedulable"}, {Type: corev1.PodReady, Reason: "SchedulingGated"}}
	})
	if got := cellsOf(t, "pods", pod)[2]; got != "Pending" {
		t.Errorf("shown as %v", got)
	}
}

// TestDataSourcesThatAreKept: the field dataSource takes claims and snapshots, and drops everything else that is new.
func TestDataSourcesThatAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		source *corev1.TypedLocalObjectReference
		kept   bool
	}{
		"none":                       {nil, false},
		"a claim":                    {&corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "a"}, true},
		"a claim of the core group":  {&corev1.TypedLocalObjectReference{APIGroup: new(""), Kind: "PersistentVolumeClaim", Name: "a"}, true},
		"a claim of another group":   {&corev1.TypedLocalObjectReference{APIGroup: new("x.example"), Kind: "PersistentVolumeClaim", Name: "a"}, false},
		"a snapshot":                 {&corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: "a"}, true},
		"a snapshot of no group":     {&corev1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: "a"}, false},
		"a snapshot of another":      {&corev1.TypedLocalObjectReference{APIGroup: new("x.example"), Kind: "VolumeSnapshot", Name: "a"}, false},
		"another kind of that group": {&corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeGroup", Name: "a"}, false},
		"another kind":               {&corev1.TypedLocalObjectReference{APIGroup: new("x.example"), Kind: "Populator", Name: "a"}, false},
	} {
		made := claim()
		made.Spec.DataSource = c.source
		registrytest.Prepare(claimKind(t), made)
		if spec := made.Spec; (spec.DataSource != nil) != c.kept || (spec.DataSourceRef != nil) != c.kept {
			t.Errorf("%s: %+v and %+v", name, spec.DataSource, spec.DataSourceRef)
		} else if c.kept && (spec.DataSourceRef.Kind != c.source.Kind || spec.DataSourceRef.Name != "a") {
			t.Errorf("%s: %+v", name, spec.DataSourceRef)
		}
	}
}

// TestScopeSelectors: the scopes of a quota's selector are known, do not contradict each other, and fit what the quota limits.
func TestScopeSelectors(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "resourcequotas")
	of := func(scopes ...corev1.ResourceQuotaScope) func(*corev1.ResourceQuota) {
		return func(q *corev1.ResourceQuota) {
			q.Spec.ScopeSelector = &corev1.ScopeSelector{}
			for _, scope := range scopes {
				q.Spec.ScopeSelector.MatchExpressions = append(q.Spec.ScopeSelector.MatchExpressions,
					corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
			}
		}
	}
	quota := &corev1.ResourceQuota{ObjectMeta: named(), Spec: corev1.ResourceQuotaSpec{Hard: resources("pods", "1")}}
	for name, c := range map[string]struct {
		scopes []corev1.ResourceQuotaScope
		errs   int
	}{
		"nothing":             {nil, 0},
		"one":                 {[]corev1.ResourceQuotaScope{"Terminating"}, 0},
		"two":                 {[]corev1.ResourceQuotaScope{"Terminating", "BestEffort"}, 0},
		"a contradiction":     {[]corev1.ResourceQuotaScope{"Terminating", "NotTerminating"}, 1},
		"another":             {[]corev1.ResourceQuotaScope{"NotBestEffort", "BestEffort"}, 1},
		"unknown":             {[]corev1.ResourceQuotaScope{"Monday"}, 1},
		"unknown and one":     {[]corev1.ResourceQuotaScope{"Monday", "BestEffort"}, 1},
		"what does not fit":   {[]corev1.ResourceQuotaScope{"VolumeAttributesClass"}, 1},
		"one that does not":   {[]corev1.ResourceQuotaScope{"BestEffort", "VolumeAttributesClass"}, 1},
		"two that do not fit": {[]corev1.ResourceQuotaScope{"VolumeAttributesClass", "Monday"}, 2},
	} {
		q := quota.DeepCopy()
		of(c.scopes...)(q)
		if errs := k.Rules.Validate(q); len(errs) != c.errs {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// TestServicePortDefaults: ports lead to themselves unless they say where else, and load balancers to addresses.
func TestServicePortDefaults(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	svc := balanced()
	svc.Spec.ExternalTrafficPolicy = ""
	svc.Spec.Ports = []corev1.ServicePort{
		{Name: "none", Port: 80},
		{Name: "empty", Port: 81, TargetPort: intstr.FromString("")},
		{Name: "number", Port: 82, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolUDP},
		{Name: "name", Port: 83, TargetPort: intstr.FromString("web")},
	}
	proxy := corev1.LoadBalancerIPModeProxy
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "1.2.3.4"}, {Hostname: "a.b"}, {IP: "1.2.3.5", IPMode: &proxy}}
	k.Rules.Default(svc)
	for n, want := range []intstr.IntOrString{intstr.FromInt32(80), intstr.FromInt32(81), intstr.FromInt32(8080), intstr.FromString("web")} {
		if p := svc.Spec.Ports[n]; p.TargetPort != want || (p.Protocol == corev1.ProtocolUDP) != (n == 2) || p.Protocol == "" {
			t.Errorf("%s: %+v", p.Name, p)
		}
	}
	for n, want := range []corev1.LoadBalancerIPMode{corev1.LoadBalancerIPModeVIP, "", proxy} {
		if in := svc.Status.LoadBalancer.Ingress[n]; want == "" && in.IPMode != nil || want != "" && (in.IPMode == nil || *in.IPMode != want) {
			t.Errorf("ingress %d: %+v", n, in)
		}
	}
	if !*svc.Spec.AllocateLoadBalancerNodePorts || svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyCluster {
		t.Errorf("%+v", svc.Spec)
	}
	kept := balanced()
	kept.Spec.AllocateLoadBalancerNodePorts, kept.Spec.ExternalTrafficPolicy = new(false), corev1.ServiceExternalTrafficPolicyLocal
	kept.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	k.Rules.Default(kept)
	if s := kept.Spec; *s.AllocateLoadBalancerNodePorts || s.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal || *s.InternalTrafficPolicy != corev1.ServiceInternalTrafficPolicyLocal {
		t.Errorf("%+v", s)
	}
	plain := service()
	plain.Spec.Type, plain.Status.LoadBalancer.Ingress = corev1.ServiceTypeNodePort, []corev1.LoadBalancerIngress{{IP: "1.2.3.4"}}
	k.Rules.Default(plain)
	if plain.Spec.AllocateLoadBalancerNodePorts != nil || plain.Status.LoadBalancer.Ingress[0].IPMode != nil {
		t.Errorf("a service without a load balancer: %+v", plain)
	}
}
