package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// running returns a registry of the kinds that pods depend on, which ends with the test.
func running(t *testing.T) *registry.Registry { return runningOn(t, memory.New(memory.Options{})) }

func runningOn(t *testing.T, store storage.Store) *registry.Registry {
	r, err := registry.New(store, slices.Concat(core.Kinds(core.Options{}), policy.Kinds()), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := r.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

func resourceOf(t *testing.T, r *registry.Registry, obj registry.Object) *registry.Resource {
	for _, res := range r.Resources() {
		if res.New != nil && fmt.Sprintf("%T", res.New()) == fmt.Sprintf("%T", obj) {
			return res
		}
	}
	t.Fatalf("no resource of %T", obj)
	return nil
}

// create stores obj as a client would.
func create[T registry.Object](t *testing.T, r *registry.Registry, obj T) T {
	res := resourceOf(t, r, obj)
	if res.Rules.Default != nil {
		res.Rules.Default(obj)
	}
	item, err := res.Create(t.Context(), obj, registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return item.Object.(T)
}

// change updates an object, or the named view of it.
func change[T registry.Object](t *testing.T, r *registry.Registry, view string, obj T, to func(T)) T {
	item, _, err := resourceOf(t, r, obj).Update(t.Context(), obj.GetNamespace(), obj.GetName(),
		func(_ context.Context, current registry.Object) (registry.Object, error) {
			next := current.DeepCopyObject().(T)
			to(next)
			return next, nil
		}, registry.UpdateOptions{View: view})
	if err != nil {
		t.Fatal(err)
	}
	return item.Object.(T)
}

// stored returns the current object, or false if it does not exist.
func stored[T registry.Object](t *testing.T, r *registry.Registry, obj T) (T, bool) {
	item, err := resourceOf(t, r, obj).Get(t.Context(), obj.GetNamespace(), obj.GetName(), "")
	if errors.Is(err, registry.ErrNotFound) {
		var none T
		return none, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return item.Object.(T), true
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1"}}},
	}
}

func podCondition(p *corev1.Pod, kind corev1.PodConditionType) string {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message))
		}
	}
	return ""
}

func TestPodKind(t *testing.T) {
	registrytest.Kinds(t, []registry.Kind{registrytest.Find(t, core.Kinds(core.Options{}), "pods")})
}

func TestPodCreate(t *testing.T) {
	r := running(t)
	p := pod("web")
	p.Generation, p.Status.Phase = 7, corev1.PodRunning
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}
	p = create(t, r, p)
	if p.Generation != 1 || p.Status.Phase != corev1.PodPending || p.Status.QOSClass != corev1.PodQOSBurstable || p.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("got %+v", p)
	}
	if got := podCondition(p, corev1.PodScheduled); got != "False SchedulingGated Scheduling is blocked due to non-empty scheduling gates" {
		t.Errorf("PodScheduled: %s", got)
	}
	fields := resourceOf(t, r, p).Fields(p)
	for field, want := range map[string]string{
		"spec.nodeName": "", "spec.restartPolicy": "Always", "spec.schedulerName": "default-scheduler", "spec.serviceAccountName": "",
		"spec.hostNetwork": "false", "status.phase": "Pending", "status.podIP": "", "status.nominatedNodeName": "",
	} {
		if !fields.Has(field) || fields.Get(field) != want {
			t.Errorf("field %s is %q", field, fields.Get(field))
		}
	}
	p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}
	if got := resourceOf(t, r, p).Fields(p).Get("status.podIP"); got != "10.0.0.1" {
		t.Errorf("field status.podIP is %q", got)
	}
	if len(fields) != 8 {
		t.Errorf("fields %v", fields)
	}
}

func TestPodGenerations(t *testing.T) {
	r := running(t)
	p := create(t, r, pod("web"))
	for i, step := range []struct {
		view string
		to   func(*corev1.Pod)
		want int64
	}{
		{"", func(p *corev1.Pod) { p.Labels["a"] = "b" }, 1},
		{"", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx:2" }, 2},
		{"status", func(p *corev1.Pod) {
			p.Status.Phase, p.Status.ObservedGeneration = corev1.PodRunning, 2
			p.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "True", ObservedGeneration: 2}}
			p.Spec.Containers[0].Image = "ignored"
			p.OwnerReferences = []metav1.OwnerReference{{Name: "ignored"}}
		}, 2},
		{"status", func(p *corev1.Pod) {
			p.Status.ObservedGeneration, p.Status.Conditions[0].ObservedGeneration, p.Status.QOSClass = 0, 0, ""
		}, 2},
		{"ephemeralcontainers", func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debug", Image: "busybox", TerminationMessagePolicy: "File", ImagePullPolicy: "Always"}}}
			p.Labels["ignored"] = "x"
		}, 3},
		{"resize", func(p *corev1.Pod) {
			p.Spec.Containers[0].Image = "ignored"
			p.Spec.Containers[0].ResizePolicy = nil
		}, 3},
	} {
		p = change(t, r, step.view, p, step.to)
		if p.Generation != step.want {
			t.Errorf("step %d: generation %d, want %d", i, p.Generation, step.want)
		}
	}
	if p.Spec.Containers[0].Image != "nginx:2" || len(p.OwnerReferences) != 0 || p.Labels["ignored"] != "" || len(p.Spec.EphemeralContainers) != 1 {
		t.Errorf("got %+v", p)
	}
	if s := p.Status; s.ObservedGeneration != 2 || s.Conditions[0].ObservedGeneration != 2 || s.QOSClass != corev1.PodQOSBestEffort {
		t.Errorf("status %+v", s)
	}
}

func TestPodResize(t *testing.T) {
	r := running(t)
	p := pod("web")
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	p = create(t, r, p)
	p = change(t, r, "resize", p, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2")
		p.Spec.Containers[0].Image = "ignored"
	})
	if got := p.Spec.Containers[0]; got.Resources.Requests.Cpu().String() != "2" || got.Image != "nginx:1" || p.Generation != 2 {
		t.Errorf("got %+v", got)
	}
	res := resourceOf(t, r, p)
	_, _, err := res.Update(t.Context(), "default", "web", func(_ context.Context, current registry.Object) (registry.Object, error) {
		next := current.DeepCopyObject().(*corev1.Pod)
		next.Spec.Containers[0].Name = "other"
		return next, nil
	}, registry.UpdateOptions{View: "resize"})
	if !errors.Is(err, registry.ErrInvalid) || !strings.Contains(err.Error(), "containers may not be renamed or reordered on resize") {
		t.Errorf("got %v", err)
	}
}

// TestPodKeepsResources: a client that does not know the resources of a pod as a whole leaves them as they are.
func TestPodKeepsResources(t *testing.T) {
	r := running(t)
	p := pod("web")
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}
	p = create(t, r, p)
	p = change(t, r, "", p, func(p *corev1.Pod) { p.Spec.Resources, p.Labels["a"] = nil, "b" })
	if p.Spec.Resources == nil || p.Spec.Resources.Requests.Cpu().String() != "1" || p.Generation != 1 || p.Labels["a"] != "b" {
		t.Errorf("%+v, generation %d", p.Spec.Resources, p.Generation)
	}
	_, _, err := resourceOf(t, r, p).Update(t.Context(), "default", "web", func(_ context.Context, current registry.Object) (registry.Object, error) {
		next := current.DeepCopyObject().(*corev1.Pod)
		next.Spec.Resources.Requests["cpu"] = resource.MustParse("2")
		return next, nil
	}, registry.UpdateOptions{})
	if !errors.Is(err, registry.ErrInvalid) {
		t.Errorf("other resources: %v", err)
	}
}

func TestPodGrace(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name  string
		node  string
		phase corev1.PodPhase
		spec  *int64
		asked *int64
		want  int64
	}{
		{"not scheduled", "", "Pending", seconds(30), seconds(10), 0},
		{"by its spec", "n", "Running", seconds(30), nil, 30},
		{"as asked", "n", "Running", seconds(30), seconds(5), 5},
		{"at once", "n", "Running", seconds(30), seconds(0), 0},
		{"negative wish", "n", "Running", seconds(30), seconds(-1), 1},
		{"negative in spec", "n", "Running", seconds(-3), nil, 1},
		{"nothing said", "n", "Running", nil, nil, 0},
		{"succeeded", "n", "Succeeded", seconds(30), nil, 0},
		{"failed", "n", "Failed", seconds(30), seconds(9), 0},
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: c.node, TerminationGracePeriodSeconds: c.spec}, Status: corev1.PodStatus{Phase: c.phase}}
		if got := registrytest.Find(t, core.Kinds(core.Options{}), "pods").Rules.Deletion.Grace(p, c.asked); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// podKey names a pod for actions.
func podKey(name string) registry.ObjectKey {
	return registry.ObjectKey{Resource: corev1.Resource("pods"), Namespace: "default", Name: name}
}

func near(t *testing.T, what string, at metav1.Time) {
	if since := time.Since(at.Time); since < 0 || since > time.Minute {
		t.Errorf("%s was %v ago", what, since)
	}
}

// TestPodStatusClaims: a client that does not know what claims a pod has leaves them as they are.
func TestPodStatusClaims(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "pods")
	old := pod("web")
	old.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu"}}
	old.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "c"}
	old.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: "c"}}
	next := old.DeepCopy()
	next.Status = corev1.PodStatus{}
	k.Sub.Views["status"].PrepareUpdate(t.Context(), next, old)
	if !equality.Semantic.DeepEqual(next.Status.ResourceClaimStatuses, old.Status.ResourceClaimStatuses) ||
		!equality.Semantic.DeepEqual(next.Status.ExtendedResourceClaimStatus, old.Status.ExtendedResourceClaimStatus) ||
		!equality.Semantic.DeepEqual(next.Status.NodeAllocatableResourceClaimStatuses, old.Status.NodeAllocatableResourceClaimStatuses) {
		t.Errorf("%+v", next.Status)
	}
}
