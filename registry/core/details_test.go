package core_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestBindingWithoutKind: a binding's target is a node if its kind is left out.
func TestBindingWithoutKind(t *testing.T) {
	for kind, good := range map[string]bool{"": true, "Node": true, "Pod": false} {
		r := running(t)
		create(t, r, pod("web"))
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Target: corev1.ObjectReference{Kind: kind, Name: "node-1"}}
		if _, err := act(t, r, "binding", "web", b, false); (err == nil) != good {
			t.Errorf("to %q: %v", kind, err)
		}
	}
}

// TestFirstSidecar: a sidecar may be the first init container.
func TestFirstSidecar(t *testing.T) {
	p := printedPod(func(p *corev1.Pod) {
		p.Spec.InitContainers = p.Spec.InitContainers[1:]
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "s", Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	})
	if cells := cellsOf(t, "pods", p); cells[1] != "1/3" || cells[2] != "Pending" {
		t.Errorf("%q", cells)
	}
}

// TestEventStays: of an event of events.k8s.io only the series may change.
func TestEventStays(t *testing.T) {
	old := newEvent()
	at := metav1.NewTime(time.Unix(2000, 0).UTC())
	registrytest.Update(t, strict(t), "", old, []eventChange{
		{Name: "times and counts", To: func(e *corev1.Event) { e.FirstTimestamp, e.LastTimestamp, e.Count = at, at, 2 }, Refused: []string{
			`firstTimestamp: Invalid value: "1970-01-01T00:33:20Z": field is immutable`, `lastTimestamp: Invalid value: "1970-01-01T00:33:20Z": field is immutable`,
			`count: Invalid value: 2: field is immutable`}},
		{Name: "who", To: func(e *corev1.Event) {
			e.ReportingController, e.ReportingInstance, e.Type = "example.com/d", "d-1", corev1.EventTypeWarning
		}, Refused: []string{
			`type: Invalid value: "Warning": field is immutable`, `reportingController: Invalid value: "example.com/d": field is immutable`,
			`reportingInstance: Invalid value: "d-1": field is immutable`}},
	})
}

// undeletable is an Access that deletes nothing.
type undeletable struct{ registry.Access }

func (undeletable) Delete(context.Context, registry.ObjectKey, metav1.DeleteOptions) error {
	return errBroken
}

// TestEvictionWithoutDeletion: that a pod cannot be deleted is told.
func TestEvictionWithoutDeletion(t *testing.T) {
	r := running(t)
	podIn(t, r, corev1.PodRunning, true)
	evict := registrytest.Find(t, core.Kinds(core.Options{}), "pods").Sub.Actions["eviction"].Run
	for _, dry := range []bool{true, false} {
		if _, err := evict(t.Context(), undeletable{r.Access()}, podKey("web"), evictionOf("web"), dry); !errors.Is(err, errBroken) {
			t.Errorf("dry run %t: %v", dry, err)
		}
	}
	e := evictionOf("web")
	e.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: new("")}}
	if _, err := act(t, r, "eviction", "web", e, false); err != nil {
		t.Errorf("an empty version, which is any: %v", err)
	}
}

// TestLimitsCompared: amounts are compared where both are given, and resources are looked at in the order of their names.
func TestLimitsCompared(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "limitranges")
	type item = corev1.LimitRangeItem
	type change = registrytest.Change[*corev1.LimitRange]
	only := func(i item) func(*corev1.LimitRange) {
		return func(r *corev1.LimitRange) { r.Spec.Limits = []item{i} }
	}
	const ratio = "spec.limits[0].maxLimitRequestRatio"
	registrytest.Create(t, k, limitRange(), []change{
		{Name: "a request alone", To: only(item{Type: "Container", DefaultRequest: amounts("example.com/gpu", "1")})},
		{Name: "a negative maximum", To: only(item{Type: "Pod", Max: amounts("cpu", "-1")})},
		{Name: "a negative minimum", To: only(item{Type: "Pod", Min: amounts("cpu", "-1")})},
		{Name: "several resources", To: only(item{Type: "Pod", Max: amounts("memory", "1"), MaxLimitRequestRatio: amounts("cpu", "500m", "memory", "600m")}), Refused: []string{
			ratio + `[cpu]: Invalid value: "500m": ratio 500m is less than 1`, ratio + `[memory]: Invalid value: "600m": ratio 600m is less than 1`}},
	})
}

// TestNodeAmounts: which amounts of a node must be positive, or integers.
func TestNodeAmounts(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "nodes")
	type change = registrytest.Change[*corev1.Node]
	has := func(list corev1.ResourceList) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Capacity, n.Status.Allocatable = list, list }
	}
	swap := func(capacity *int64) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.NodeInfo.Swap = &corev1.NodeSwapStatus{Capacity: capacity} }
	}
	good := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	changes := []change{
		{Name: "none", To: has(amounts("cpu", "0", "pods", "0", "example.com/gpu", "0"))},
		{Name: "negative", To: has(amounts("cpu", "-1m")), Refused: []string{
			`status.capacity.cpu: Invalid value: "-1m": must be greater than or equal to 0`, `status.allocatable.cpu: Invalid value: "-1m": must be greater than or equal to 0`}},
		{Name: "halves", To: has(amounts("cpu", "500m", "x", "500m", "kubernetes.io/x", "500m", "requests.example.com/x", "500m"))},
		{Name: "halves of what is counted", To: has(amounts("example.com/gpu", "500m", "pods", "500m")), Refused: []string{
			`status.capacity.example.com/gpu: Invalid value: "500m": must be an integer`, `status.capacity.pods: Invalid value: "500m": must be an integer`,
			`status.allocatable.example.com/gpu: Invalid value: "500m": must be an integer`, `status.allocatable.pods: Invalid value: "500m": must be an integer`}},
	}
	registrytest.Create(t, k, good, append(slices.Clone(changes), change{Name: "unknown swap", To: swap(nil)}, change{Name: "swap", To: swap(new(int64(1)))},
		change{Name: "no swap", To: swap(new(int64(0))), Refused: []string{`metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero`}}))
	registrytest.Update(t, k, "status", good, append(slices.Clone(changes), change{Name: "features", To: func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"a"} }, Refused: []string{
		`status.declaredFeatures[0]: Invalid value: "a": invalid feature name "a": must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes`}}))
}

// TestPersistentVolumePhaseTime: a change of the phase has a time even if the client leaves it out.
func TestPersistentVolumePhaseTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := registrytest.Find(t, core.Kinds(core.Options{}), "persistentvolumes")
		old := &corev1.PersistentVolume{Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable, LastPhaseTransitionTime: new(metav1.Now())}}
		time.Sleep(time.Minute)
		for phase, want := range map[corev1.PersistentVolumePhase]time.Time{corev1.VolumeAvailable: old.Status.LastPhaseTransitionTime.Time, corev1.VolumeBound: time.Now()} {
			pv := old.DeepCopy()
			pv.Status.Phase, pv.Status.LastPhaseTransitionTime = phase, nil
			registrytest.Replace(k, "status", pv, old)
			if got := pv.Status.LastPhaseTransitionTime; got == nil || !got.Time.Equal(want) {
				t.Errorf("%s: %v, want %v", phase, got, want)
			}
		}
	})
}

// TestTwoDataSources: a data source that may not be copied stays if the other field is set, too, for validation to compare them.
func TestTwoDataSources(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "persistentvolumeclaims")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: named()}
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new("x.io"), Kind: "Book", Name: "a"}
	claim.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new("x.io"), Kind: "Book", Name: "b"}
	want := claim.Spec.DeepCopy()
	registrytest.Prepare(k, claim)
	if !reflect.DeepEqual(claim.Spec.DataSource, want.DataSource) || !reflect.DeepEqual(claim.Spec.DataSourceRef, want.DataSourceRef) {
		t.Errorf("created with %v %v", claim.Spec.DataSource, claim.Spec.DataSourceRef)
	}
}

// TestPodGeneration: a client sets neither the generation nor, in a create, the status.
func TestPodGeneration(t *testing.T) {
	rules := registrytest.Find(t, core.Kinds(core.Options{}), "pods").Rules
	p := pod("web")
	p.Generation, p.Status = 9, corev1.PodStatus{Phase: corev1.PodRunning, Message: "m", PodIP: "10.0.0.1"}
	rules.PrepareCreate(t.Context(), p)
	if p.Generation != 1 || p.Status.Phase != corev1.PodPending || p.Status.Message != "" || p.Status.PodIP != "" {
		t.Errorf("created as %d %+v", p.Generation, p.Status)
	}
	old := p.DeepCopy()
	old.Generation = 3
	for image, want := range map[string]int64{old.Spec.Containers[0].Image: 3, "other": 4} {
		p := old.DeepCopy()
		p.Generation, p.Spec.Containers[0].Image = 9, image
		if rules.PrepareUpdate(t.Context(), p, old); p.Generation != want {
			t.Errorf("%s: generation %d", image, p.Generation)
		}
	}
}

// TestTemplateDrops: fields of features that are off are dropped from templates, unless these have them.
func TestTemplateDrops(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "podtemplates")
	with := func(stop bool) *corev1.PodTemplate {
		p := &corev1.PodTemplate{ObjectMeta: named(), Template: corev1.PodTemplateSpec{Spec: *pod("web").Spec.DeepCopy()}}
		if stop {
			p.Template.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGTERM)}
		}
		return p
	}
	made := with(true)
	if registrytest.Prepare(k, made); made.Template.Spec.Containers[0].Lifecycle != nil {
		t.Error("created with a stop signal")
	}
	for _, had := range []bool{false, true} {
		updated := with(true)
		if registrytest.Replace(k, "", updated, with(had)); (updated.Template.Spec.Containers[0].Lifecycle != nil) != had {
			t.Errorf("had a stop signal: %t, has one: %t", had, !had)
		}
	}
}

// TestQuotaAmounts: amounts are rounded up to thousandths, and scopes are compared with the resources that can have some.
func TestQuotaAmounts(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "resourcequotas")
	q := &corev1.ResourceQuota{ObjectMeta: named()}
	q.Spec.Hard, q.Status.Hard, q.Status.Used = resources("cpu", "1u"), resources("cpu", "2u"), resources("cpu", "1001u")
	k.Rules.Default(q)
	for name, c := range map[string]struct {
		list corev1.ResourceList
		want string
	}{"hard": {q.Spec.Hard, "1m"}, "status": {q.Status.Hard, "1m"}, "used": {q.Status.Used, "2m"}} {
		if got := c.list[corev1.ResourceCPU]; got.Cmp(resource.MustParse(c.want)) != 0 {
			t.Errorf("%s: %s", name, got.String())
		}
	}
	type change = registrytest.Change[*corev1.ResourceQuota]
	scoped := func(by bool, hard ...string) func(*corev1.ResourceQuota) {
		return func(q *corev1.ResourceQuota) {
			if q.Spec.Hard = resources(hard...); by {
				q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: "BestEffort", Operator: "Exists"}}}
			} else {
				q.Spec.Scopes = []corev1.ResourceQuotaScope{"BestEffort"}
			}
		}
	}
	const selector = `spec.scopeSelector.matchExpressions: Invalid value: {"MatchExpressions":[{"ScopeName":"BestEffort","Operator":"Exists","Values":null}]}: unsupported scope applied to resource`
	registrytest.Create(t, k, &corev1.ResourceQuota{ObjectMeta: named()}, []change{
		{Name: "pods", To: scoped(false, "pods", "1")},
		{Name: "pods and what no scope is about", To: scoped(false, "pods", "1", "count/jobs.batch", "1", "requests.example.com/gpu", "1")},
		{Name: "CPUs", To: scoped(false, "cpu", "1"), Refused: []string{`spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource`}},
		{Name: "pods, selected", To: scoped(true, "pods", "1", "count/jobs.batch", "1")},
		{Name: "CPUs, selected", To: scoped(true, "cpu", "1"), Refused: []string{selector}},
	})
}

// TestSecretWithTexts: a secret of texts alone gets data.
func TestSecretWithTexts(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "secrets")
	s := &corev1.Secret{ObjectMeta: named(), StringData: map[string]string{"a": "b"}}
	if k.Rules.Default(s); len(s.Data) != 1 || string(s.Data["a"]) != "b" || s.StringData != nil {
		t.Errorf("%+v", s)
	}
	none := &corev1.Secret{ObjectMeta: named()}
	if k.Rules.Default(none); none.Data != nil {
		t.Errorf("%+v", none)
	}
}

// TestForeignNodePorts: a service whose type has no node ports does not free those that it names.
func TestForeignNodePorts(t *testing.T) {
	s := serve(t, memory.New(memory.Options{}), v4)
	owner, err := s.create(withType("a", corev1.ServiceTypeNodePort), false)
	if err != nil {
		t.Fatal(err)
	}
	named := func(svc *corev1.Service) { svc.Spec.Ports = slices.Clone(owner.Spec.Ports) }
	if _, err := s.create(withType("b", corev1.ServiceTypeExternalName, named), false); err != nil {
		t.Fatal(err)
	}
	s.consistent()
	if _, err := s.update("b", func(svc *corev1.Service) { svc.Spec.Ports = nil }, false); err != nil {
		t.Error(err)
	}
	s.consistent()
	if _, err := s.update("b", named, false); err != nil {
		t.Error(err)
	}
	s.remove("b")
	s.consistent()
}

// TestServiceLosesIngress: where a load balancer is, is forgotten when the service no longer has one.
func TestServiceLosesIngress(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	old := balanced()
	registrytest.Prepare(k, old)
	old.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "1.2.3.4", IPMode: new(corev1.LoadBalancerIPModeVIP)}}
	for kind, want := range map[corev1.ServiceType]int{corev1.ServiceTypeLoadBalancer: 1, corev1.ServiceTypeNodePort: 0, corev1.ServiceTypeClusterIP: 0} {
		svc := old.DeepCopy()
		svc.Spec.Type = kind
		if registrytest.Replace(k, "", svc, old); len(svc.Status.LoadBalancer.Ingress) != want {
			t.Errorf("%s: %+v", kind, svc.Status)
		}
	}
}
