package disruption_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/disruption"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
)

// The resources of the tests.
var (
	budgets      = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
	deployments  = appsv1.SchemeGroupVersion.WithResource("deployments")
	replicaSets  = appsv1.SchemeGroupVersion.WithResource("replicasets")
	statefulSets = appsv1.SchemeGroupVersion.WithResource("statefulsets")
	configMaps   = corev1.SchemeGroupVersion.WithResource("configmaps")
)

// bench is the controllers with an API, in a bubble.
type bench struct {
	*testing.T
	api    *controllerstest.API
	events controllerstest.Recorder
	before func(faults.Request) error
	// Stored under older rules.
	pods        []*corev1.Pod
	budgets     []*policyv1.PodDisruptionBudget
	replicaSets []*appsv1.ReplicaSet
	// What the controllers ask, if not the API itself, where failures are logged, and other options than those of the tests.
	client  *trial.Client
	log     *slog.Logger
	options *disruption.Options
}

func served(_ context.Context, kind schema.GroupVersionKind) (disruption.Served, bool) {
	switch kind.Group + " " + kind.Kind {
	case "apps StatefulSet":
		return disruption.Served{Resource: statefulSets, Scalable: true}, true
	case "apps ReplicaSet", "x ReplicaSet": // the latter of another server, whose answers are the same here
		return disruption.Served{Resource: replicaSets, Scalable: true}, true
	case " ConfigMap":
		return disruption.Served{Resource: configMaps}, true
	}
	return disruption.Served{}, false
}

func inBubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	(&bench{}).run(t, test)
}

func (b *bench) run(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b.T, b.api = t, controllerstest.Start(t, controllerstest.Options{Before: b.before})
		var asked disruption.Client = b.api
		if b.client != nil {
			b.client.Client = b.api
			asked = b.client
		}
		options, loop := disruption.Options{Served: served}, controllers.Options{Logger: b.log}
		if b.options != nil {
			options = *b.options
		}
		in := disruption.Sources{
			Pods:        cache(b, controllerstest.Pods(), b.pods),
			Budgets:     cache(b, budgets, b.budgets),
			Deployments: cache[*appsv1.Deployment](b, deployments, nil),
			ReplicaSets: cache(b, replicaSets, b.replicaSets),
		}
		controllerstest.Go(t, in.Pods, in.Budgets, in.Deployments, in.ReplicaSets,
			controllers.NewLoop(disruption.New(in, asked, &b.events, options), loop),
			controllers.NewLoop(disruption.NewStaleTargets(in.Pods, asked), loop))
		synctest.Wait()
		test(t, b)
	})
}

// cache is the informer of a resource, with objects that were stored under older rules.
func cache[T informer.Object](b *bench, resource schema.GroupVersionResource, old []T) *informer.Informer[T] {
	source := trial.Stored[T]{Source: controllerstest.Source[T](b.api, resource), Objects: old}
	return informer.New(source, informer.Options{DetectMutations: func(err error) { b.Error(err) }})
}

func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// create puts an object there. A pod gets its status once the controllers have seen it without: were they to see both at
// once, they might write what they must try again later.
func create[T informer.Object](b *bench, obj T) T {
	b.Helper()
	if pod, ok := any(obj).(*corev1.Pod); ok && !equality.Semantic.DeepEqual(pod.Status, corev1.PodStatus{}) {
		bare := pod.DeepCopy()
		bare.Status = corev1.PodStatus{}
		made := create(b, bare)
		made.Status = pod.Status
		b.update(controllerstest.Pods(), made, "status")
		return any(b.pod(pod.Name)).(T)
	}
	got := controllerstest.Add(b, b.api, obj)
	synctest.Wait()
	return got
}

func (b *bench) update(resource schema.GroupVersionResource, obj informer.Object, subresource string) {
	b.Helper()
	at := client.Target{Resource: resource, Namespace: "ns", Name: obj.GetName(), Subresource: subresource}
	if _, err := b.api.Others.Update(b.Context(), at, obj, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) remove(pod string) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: pod}, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// budget is a budget that the API has or, of those stored under older rules, what the controller last tried to make of it.
func (b *bench) budget(name string) *policyv1.PodDisruptionBudget {
	b.Helper()
	at := client.Target{Resource: budgets, Namespace: "ns", Name: name}
	got, err := client.As[*policyv1.PodDisruptionBudget](b.api.Others.Get(b.Context(), at))
	at.Subresource = "status"
	for _, w := range b.api.Writes() {
		if apierrors.IsNotFound(err) && w.Target == at {
			got = w.Object.(*policyv1.PodDisruptionBudget)
		}
	}
	if got == nil {
		b.Fatal(err)
	}
	return got
}

func (b *bench) pod(name string) *corev1.Pod {
	b.Helper()
	got, err := client.As[*corev1.Pod](b.api.Others.Get(b.Context(), client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	return got
}

func (b *bench) wantStatus(want string) {
	b.Helper()
	budget := b.budget("pdb")
	s := budget.Status
	got := fmt.Sprintf("expected %d desired %d current %d allowed %d observed %d", s.ExpectedPods, s.DesiredHealthy, s.CurrentHealthy, s.DisruptionsAllowed, s.ObservedGeneration)
	for _, c := range s.Conditions {
		got += fmt.Sprintf("; %s=%s %s", c.Type, c.Status, c.Reason)
		if c.Message != "" {
			got += ": " + c.Message
		}
	}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range s.DisruptedPods {
			if !yield(name) {
				return
			}
		}
	}) {
		got += "; " + name + " leaves"
	}
	if got != want {
		b.Errorf("status is\n %s, want\n %s", got, want)
	}
}

func (b *bench) wantEvents(want ...string) {
	b.Helper()
	if got := b.events.Take(); !slices.Equal(got, want) {
		b.Errorf("events:\n got %q\nwant %q", got, want)
	}
}

func newBudget(amount string) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pdb"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
	}
	name, value, _ := strings.Cut(amount, " ")
	n := intstr.Parse(value)
	switch name {
	case "min":
		budget.Spec.MinAvailable = &n
	case "max":
		budget.Spec.MaxUnavailable = &n
	}
	return budget
}

// senseless is a budget whose selector is not valid.
func senseless(name string) *policyv1.PodDisruptionBudget {
	budget := newBudget("min 1")
	budget.Name = name
	budget.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "?"}}}
	return budget
}

func newPod(name string, ready bool, owner *metav1.OwnerReference) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "a"}}}
	if owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	if ready {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return pod
}

func controllerRef(apiVersion, kind string, owner metav1.Object) *metav1.OwnerReference {
	yes := true
	return &metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes}
}

func replicaSet(name string, replicas int32, owner *metav1.OwnerReference) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}}
	if owner != nil {
		set.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return set
}

const (
	enough = "; DisruptionAllowed=True SufficientPods"
	short  = "; DisruptionAllowed=False InsufficientPods"
)

// TestStatus: four pods, three of them ready, of a ReplicaSet of five.
func TestStatus(t *testing.T) {
	for amount, want := range map[string]string{
		"none":     "expected 0 desired 0 current 3 allowed 0 observed 1" + short,
		"min 2":    "expected 4 desired 2 current 3 allowed 1 observed 1" + enough,
		"min 3":    "expected 4 desired 3 current 3 allowed 0 observed 1" + short,
		"min 7":    "expected 4 desired 7 current 3 allowed 0 observed 1" + short,
		"min 50%":  "expected 5 desired 3 current 3 allowed 0 observed 1" + short,
		"min 31%":  "expected 5 desired 2 current 3 allowed 1 observed 1" + enough,
		"min 0%":   "expected 5 desired 0 current 3 allowed 3 observed 1" + enough,
		"max 3":    "expected 5 desired 2 current 3 allowed 1 observed 1" + enough,
		"max 50%":  "expected 5 desired 2 current 3 allowed 1 observed 1" + enough,
		"max 9":    "expected 5 desired 0 current 3 allowed 3 observed 1" + enough,
		"max 100%": "expected 5 desired 0 current 3 allowed 3 observed 1" + enough,
		"max 0":    "expected 5 desired 5 current 3 allowed 0 observed 1" + short,
	} {
		t.Run(amount, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				set := create(b, replicaSet("set", 5, nil))
				for i := range 4 {
					create(b, newPod(fmt.Sprint("p", i), i > 0, controllerRef("apps/v1", "ReplicaSet", set)))
				}
				create(b, newBudget(amount))
				b.wantStatus(want)
				b.wantEvents()
				before := b.budget("pdb").ResourceVersion
				b.after(time.Hour)
				if got := b.budget("pdb").ResourceVersion; got != before {
					t.Errorf("written again: %s then %s", before, got)
				}
			})
		})
	}
}

// TestOwners: whose scale counts, with a budget of maxUnavailable 0.
func TestOwners(t *testing.T) {
	const failed = "expected 0 desired 0 current 0 allowed 0 observed 0; DisruptionAllowed=False SyncFailed: "
	for name, tt := range map[string]struct {
		make   func(b *bench)
		want   string
		events []string
		old    []*corev1.Pod // stored under older rules
	}{
		"nobody's pods": {func(b *bench) {}, "expected 0 desired 0 current 2 allowed 0 observed 1" + short, []string{
			"Warning UnmanagedPods Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: a,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
			"Warning UnmanagedPods Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: a,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
		}, nil},
		"a deployment": {func(b *bench) {
			d := create(b, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32)}})
			*d.Spec.Replicas = 6
			b.update(deployments, d, "")
			old := create(b, replicaSet("old", 2, controllerRef("apps/v1", "Deployment", d)))
			recent := create(b, replicaSet("recent", 5, controllerRef("apps/v1", "Deployment", d)))
			create(b, newPod("x", true, controllerRef("apps/v1", "ReplicaSet", old)))
			create(b, newPod("y", true, controllerRef("apps/v1", "ReplicaSet", recent)))
		}, "expected 6 desired 6 current 4 allowed 0 observed 1" + short, nil, nil},
		"several": {func(b *bench) {
			one := create(b, replicaSet("one", 2, nil))
			two := create(b, replicaSet("two", 3, controllerRef("x/v1", "Rollout", &metav1.ObjectMeta{Name: "r", UID: "r"})))
			three := int32(4)
			stateful := create(b, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: appsv1.StatefulSetSpec{Replicas: &three}})
			create(b, newPod("x", true, controllerRef("apps/v1", "ReplicaSet", one)))
			create(b, newPod("y", true, controllerRef("extensions/v1beta1", "ReplicaSet", two)))
			create(b, newPod("z", true, controllerRef("apps/v1", "StatefulSet", stateful)))
		}, "expected 9 desired 9 current 5 allowed 0 observed 1" + short, nil, nil},
		"a set whose deployment is gone": {func(b *bench) {
			ghost := &metav1.ObjectMeta{Name: "ghost", UID: "ghost"}
			set := create(b, replicaSet("set", 2, controllerRef("apps/v1", "Deployment", ghost)))
			create(b, newPod("x", true, controllerRef("apps/v1", "ReplicaSet", set)))
		}, "expected 2 desired 2 current 3 allowed 1 observed 1" + enough, nil, nil},
		"an owner that is gone": {func(b *bench) {
			create(b, newPod("x", true, controllerRef("apps/v1", "ReplicaSet", &metav1.ObjectMeta{Name: "ghost", UID: "ghost"})))
		}, failed + `found no controllers for pod "x"`, []string{`Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: found no controllers for pod "x"`}, nil},
		"another of the same name": {func(b *bench) {
			create(b, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32)}})
			create(b, newPod("x", true, controllerRef("apps/v1", "StatefulSet", &metav1.ObjectMeta{Name: "s", UID: "before"})))
		}, failed + `found no controllers for pod "x"`, nil, nil},
		"another set of the same name": {func(b *bench) {
			create(b, replicaSet("set", 2, nil))
			create(b, newPod("x", true, controllerRef("apps/v1", "ReplicaSet", &metav1.ObjectMeta{Name: "set", UID: "before"})))
		}, failed + `found no controllers for pod "x"`, nil, nil},
		"another deployment of the same name": {func(b *bench) {
			six := int32(6)
			create(b, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"}, Spec: appsv1.DeploymentSpec{Replicas: &six}})
			set := create(b, replicaSet("set", 2, controllerRef("apps/v1", "Deployment", &metav1.ObjectMeta{Name: "d", UID: "before"})))
			create(b, newPod("x", true, controllerRef("apps/v1", "ReplicaSet", set)))
		}, "expected 2 desired 2 current 3 allowed 1 observed 1" + enough, nil, nil},
		"a kind that is not served": {func(b *bench) {
			create(b, newPod("x", true, controllerRef("batch/v1", "Job", &metav1.ObjectMeta{Name: "j", UID: "j"})))
		}, failed + `no matches for kind "Job" in version "batch/v1"`, nil, nil},
		"a kind without scale": {func(b *bench) {
			create(b, newPod("x", true, controllerRef("v1", "ConfigMap", &metav1.ObjectMeta{Name: "c", UID: "c"})))
		}, failed + `configmaps does not implement the scale subresource`, nil, nil},
		"a bad version": {func(*bench) {}, failed + `unexpected GroupVersion string: a/b/c`, nil,
			[]*corev1.Pod{newPod("x", true, controllerRef("a/b/c", "ReplicaSet", &metav1.ObjectMeta{Name: "c", UID: "c"}))}},
	} {
		t.Run(name, func(t *testing.T) {
			(&bench{pods: tt.old}).run(t, func(t *testing.T, b *bench) {
				create(b, newPod("p1", true, nil))
				create(b, newPod("p2", true, nil))
				tt.make(b)
				create(b, newBudget("max 0"))
				b.wantStatus(tt.want)
				if got := b.events.Take(); tt.events != nil && !slices.Equal(got[:min(len(got), len(tt.events))], tt.events) {
					t.Errorf("events:\n got %q\nwant %q", got, tt.events)
				}
			})
		})
	}
}

// TestDisruptedPods: an evicted pod counts as gone until its deletion shows, and no longer than
// two minutes.
func TestDisruptedPods(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for _, name := range []string{"p1", "p2", "p3"} {
			create(b, newPod(name, true, nil))
		}
		create(b, newBudget("min 1"))
		b.wantStatus("expected 3 desired 1 current 3 allowed 2 observed 1" + enough)
		began := metav1.NewTime(time.Now())
		budget := b.budget("pdb")
		budget.Status.DisruptionsAllowed = 0
		budget.Status.DisruptedPods = map[string]metav1.Time{"p1": began, "p2": began, "gone": began}
		b.update(budgets, budget, "status")
		b.wantStatus("expected 3 desired 1 current 1 allowed 0 observed 1" + short + "; p1 leaves; p2 leaves")
		b.after(time.Minute)
		b.remove("p1")
		b.wantStatus("expected 2 desired 1 current 1 allowed 0 observed 1" + short + "; p2 leaves")
		b.after(time.Minute)
		b.wantStatus("expected 2 desired 1 current 1 allowed 0 observed 1" + short + "; p2 leaves")
		b.wantEvents()
		b.after(5 * time.Millisecond)
		b.wantStatus("expected 2 desired 1 current 2 allowed 1 observed 1" + enough)
		b.wantEvents("Warning NotDeleted Pod was expected by PDB ns/ns to be deleted but it wasn't")
	})
}

// TestObserved: the status follows the spec and the pods.
func TestObserved(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		create(b, newBudget("min 1"))
		b.wantStatus("expected 0 desired 1 current 0 allowed 0 observed 1" + short)
		b.wantEvents("Normal NoPods No matching pods found", "Normal NoPods No matching pods found")
		create(b, newPod("p1", true, nil))
		b.wantStatus("expected 1 desired 1 current 1 allowed 0 observed 1" + short)
		create(b, newPod("p2", false, nil))
		b.wantStatus("expected 2 desired 1 current 1 allowed 0 observed 1" + short)
		pod := b.pod("p2")
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		b.update(controllerstest.Pods(), pod, "status")
		b.wantStatus("expected 2 desired 1 current 2 allowed 1 observed 1" + enough)
		budget := b.budget("pdb")
		none := intstr.FromInt32(0)
		budget.Spec.MinAvailable = &none
		b.update(budgets, budget, "")
		b.wantStatus("expected 2 desired 0 current 2 allowed 2 observed 2" + enough)
		b.wantEvents()
	})
}

// TestSyncFailed: a failure allows nothing and is over when its cause is.
func TestSyncFailed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		create(b, newPod("p1", true, nil))
		create(b, newPod("p2", true, nil))
		create(b, newBudget("min 50%"))
		bad := create(b, newPod("bad", true, controllerRef("x/v1", "X", &metav1.ObjectMeta{Name: "x", UID: "x"})))
		b.wantStatus(`expected 0 desired 0 current 2 allowed 0 observed 1; DisruptionAllowed=False SyncFailed: no matches for kind "X" in version "x/v1"`)
		b.api.Reset()
		b.after(time.Hour)
		if got := b.api.Writes(); len(got) > 0 {
			t.Errorf("retried: %v", got)
		}
		b.remove(bad.Name)
		b.wantStatus("expected 0 desired 0 current 2 allowed 0 observed 1" + short)
	})
}

// TestFailedWrites: a conflict is tried again as it is, other failures leave a safe status.
func TestFailedWrites(t *testing.T) {
	for name, tt := range map[string]struct {
		fail error
		want []string
	}{
		"conflict": {apierrors.NewConflict(budgets.GroupResource(), "pdb", errors.New("late")), []string{"0s InsufficientPods", "5ms InsufficientPods"}},
		"other":    {errors.New("down"), []string{"0s InsufficientPods", "0s SyncFailed"}},
	} {
		t.Run(name, func(t *testing.T) {
			var began time.Time
			var wrote []string
			fail := tt.fail
			before := func(r faults.Request) error {
				budget, ok := r.Object.(*policyv1.PodDisruptionBudget)
				if !ok || r.Verb != faults.Update || len(wrote) == len(tt.want) {
					return nil
				}
				wrote = append(wrote, fmt.Sprint(time.Since(began), " ", budget.Status.Conditions[0].Reason))
				err := fail
				fail = nil
				return err
			}
			(&bench{before: before}).run(t, func(t *testing.T, b *bench) {
				began = time.Now()
				create(b, newBudget("min 1"))
				b.after(time.Second)
				if !slices.Equal(wrote, tt.want) {
					t.Errorf("wrote %q, want %q", wrote, tt.want)
				}
				b.wantStatus("expected 0 desired 1 current 0 allowed 0 observed 1" + short)
			})
		})
	}
}

// TestSeveralBudgets: a pod under several budgets concerns the first of them, and an event says so; a selector that is not
// valid is told in its budget's status.
func TestSeveralBudgets(t *testing.T) {
	(&bench{budgets: []*policyv1.PodDisruptionBudget{senseless("another")}}).run(t, func(t *testing.T, b *bench) {
		second := newBudget("min 1")
		second.Name = "second"
		create(b, second)
		create(b, newBudget("min 1"))
		b.events.Take()
		create(b, newPod("p", true, nil))
		told := `Warning MultiplePodDisruptionBudgets Pod "ns"/"p" matches multiple PodDisruptionBudgets.  Chose "pdb" arbitrarily.`
		b.wantEvents(told, told) // it is made, and then ready
		b.wantStatus("expected 1 desired 1 current 1 allowed 0 observed 1" + short)
		if got := b.budget("another").Status.Conditions[0]; got.Reason != policyv1.SyncFailedReason || got.Message != `"?" is not a valid label selector operator` {
			t.Errorf("a selector that selects nothing: %+v", got)
		}
	})
}

// TestStaleTargets: the condition of a pod that stays is taken back two minutes later.
func TestStaleTargets(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		mark := func(name string, condition corev1.PodCondition, phase corev1.PodPhase) {
			pod := newPod(name, true, nil)
			condition.Type, condition.Status, condition.LastTransitionTime = corev1.DisruptionTarget, corev1.ConditionTrue, metav1.Now()
			pod.Status.Phase, pod.Spec.NodeName = phase, "node"
			pod.Status.Conditions = append(pod.Status.Conditions, condition)
			create(b, pod)
		}
		mark("evicted", corev1.PodCondition{Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"}, corev1.PodRunning)
		mark("pressed", corev1.PodCondition{Reason: corev1.PodReasonTerminationByKubelet}, corev1.PodRunning)
		mark("ended", corev1.PodCondition{Reason: "EvictionByEvictionAPI"}, corev1.PodFailed)
		mark("leaving", corev1.PodCondition{Reason: "EvictionByEvictionAPI"}, corev1.PodRunning)
		b.remove("leaving")
		b.after(2*time.Minute - time.Nanosecond)
		b.api.Reset()
		b.after(time.Nanosecond)
		if got := fmt.Sprint(b.api.Writes()); got != "[update pods/status ns/evicted]" {
			t.Errorf("did %s", got)
		}
		now := metav1.NewTime(time.Now())
		want := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, ObservedGeneration: 1, LastTransitionTime: now}
		if got := b.pod("evicted").Status.Conditions[1]; got != want {
			t.Errorf("condition %+v, want %+v", got, want)
		}
		b.after(time.Hour)
		if got := b.api.Writes(); len(got) != 1 {
			t.Errorf("did more: %v", got)
		}
	})
}

// TestAtTheTimeout: at the very instant a pod is still awaited, and counts again.
func TestAtTheTimeout(t *testing.T) {
	now := time.Unix(1000, 0)
	pod := newPod("p", true, nil)
	for ago, want := range map[time.Duration]string{
		0:                               "leaving 1 stayed 0 again 2m0.005s healthy 0",
		2*time.Minute - time.Second:     "leaving 1 stayed 0 again 1.005s healthy 0",
		2 * time.Minute:                 "leaving 1 stayed 0 again 5ms healthy 1",
		2*time.Minute + time.Nanosecond: "leaving 0 stayed 1 again 0s healthy 1",
	} {
		pods := []*corev1.Pod{pod}
		leaving, stayed, again := disruption.Awaited(pods, map[string]metav1.Time{"p": metav1.NewTime(now.Add(-ago))}, now)
		got := fmt.Sprintf("leaving %d stayed %d again %v healthy %d", len(leaving), len(stayed), again, disruption.Healthy(pods, leaving, now))
		if got != want {
			t.Errorf("%v after the eviction: %s, want %s", ago, got, want)
		}
	}
	if _, ok := disruption.UntilStale(pod, now); ok {
		t.Error("a pod that is no target")
	}
}

// TestPodsThatGo: a pod that is being deleted is not healthy any more, ready as it may be.
func TestPodsThatGo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for _, name := range []string{"p1", "p2", "p3"} {
			pod := newPod(name, true, nil)
			pod.Finalizers = []string{"example.com/hold"}
			create(b, pod)
		}
		create(b, newBudget("min 1"))
		b.wantStatus("expected 3 desired 1 current 3 allowed 2 observed 1" + enough)
		for i, want := range []string{"current 2 allowed 1 observed 1" + enough, "current 1 allowed 0 observed 1" + short} {
			b.remove(fmt.Sprint("p", i+1))
			b.after(time.Second)
			b.wantStatus("expected 3 desired 1 " + want)
		}
	})
}

// TestUncountedAllowsNothing: what was allowed before is not any more once the pods cannot be counted.
func TestUncountedAllowsNothing(t *testing.T) {
	inBubble(t, func(_ *testing.T, b *bench) {
		set := create(b, replicaSet("set", 2, nil))
		for _, name := range []string{"p1", "p2"} {
			create(b, newPod(name, true, controllerRef("apps/v1", "ReplicaSet", set)))
		}
		create(b, newBudget("max 1"))
		b.wantStatus("expected 2 desired 1 current 2 allowed 1 observed 1" + enough)
		create(b, newPod("x", true, controllerRef("apps/v1", "ReplicaSet", &metav1.ObjectMeta{Name: "ghost", UID: "ghost"})))
		b.wantStatus(`expected 2 desired 1 current 2 allowed 0 observed 1; DisruptionAllowed=False SyncFailed: found no controllers for pod "x"`)
	})
}
