package disruption_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/disruption"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
)

// TestControllersOfPods: which scale counts for one pod, with a budget of maxUnavailable 0.
func TestControllersOfPods(t *testing.T) {
	const failed = "expected 0 desired 0 current 0 allowed 0 observed 0; DisruptionAllowed=False SyncFailed: "
	ok := func(n int) string {
		return fmt.Sprintf("expected %d desired %d current 1 allowed 0 observed 1", n, n) + short
	}
	ghost := &metav1.ObjectMeta{Name: "ghost", UID: "ghost"}
	// Stored under older rules: one without replicas, and one of an owner whose version makes no sense.
	silent, wrong := replicaSet("silent", 0, nil), replicaSet("wrong", 3, controllerRef("a/b/c", "Deployment", ghost))
	silent.UID, silent.Spec.Replicas, wrong.UID = "silent", nil, "wrong"
	for name, tt := range map[string]struct {
		owner func(b *bench) *metav1.OwnerReference
		want  string
	}{
		"a set": {func(b *bench) *metav1.OwnerReference {
			return controllerRef("apps/v1", "ReplicaSet", create(b, replicaSet("set", 3, nil)))
		}, ok(3)},
		"a set that does not say how many": {func(b *bench) *metav1.OwnerReference {
			return controllerRef("apps/v1", "ReplicaSet", silent)
		}, ok(1)},
		"a set by the name of old": {func(b *bench) *metav1.OwnerReference {
			return controllerRef("extensions/v1beta1", "ReplicaSet", create(b, replicaSet("set", 3, nil)))
		}, ok(3)},
		"a set by the name of old, under what is no deployment": {func(b *bench) *metav1.OwnerReference {
			return controllerRef("extensions/v1beta1", "ReplicaSet", create(b, replicaSet("set", 3, controllerRef("x/v1", "Rollout", ghost))))
		}, ok(3)},
		"a set under a deployment of another group": {func(b *bench) *metav1.OwnerReference {
			d := create(b, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32)}})
			return controllerRef("extensions/v1beta1", "ReplicaSet", create(b, replicaSet("set", 3, controllerRef("x/v1", "Deployment", d))))
		}, failed + `no matches for kind "ReplicaSet" in version "extensions/v1beta1"`},
		"a set under what has a bad version": {func(b *bench) *metav1.OwnerReference {
			return controllerRef("apps/v1", "ReplicaSet", wrong)
		}, failed + "unexpected GroupVersion string: a/b/c"},
		"a set that was there before": {func(b *bench) *metav1.OwnerReference {
			set := create(b, replicaSet("set", 3, nil))
			set.UID = "before"
			return controllerRef("extensions/v1beta1", "ReplicaSet", set)
		}, failed + `no matches for kind "ReplicaSet" in version "extensions/v1beta1"`},
		"a set that calls itself another kind": {func(b *bench) *metav1.OwnerReference {
			return controllerRef("apps/v1", "StatefulSet", create(b, replicaSet("set", 3, nil)))
		}, failed + `found no controllers for pod "p"`},
		"a kind of sets of another group": {func(b *bench) *metav1.OwnerReference {
			// The deployment above the set of apps is not asked: this is a set of another server.
			d := create(b, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32)}})
			return controllerRef("x/v1", "ReplicaSet", create(b, replicaSet("set", 3, controllerRef("apps/v1", "Deployment", d))))
		}, ok(3)},
		"a percentage that is none": {func(b *bench) *metav1.OwnerReference {
			return controllerRef("apps/v1", "ReplicaSet", create(b, replicaSet("set", 3, nil)))
		}, failed + "invalid value for IntOrString: invalid type: string is not a percentage"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{replicaSets: []*appsv1.ReplicaSet{silent, wrong}}
			if strings.Contains(name, "percentage") {
				b.budgets = []*policyv1.PodDisruptionBudget{newBudget("max some")}
			}
			b.run(t, func(_ *testing.T, b *bench) {
				create(b, newPod("p", true, tt.owner(b)))
				if b.budgets == nil {
					create(b, newBudget("max 0"))
				}
				b.wantStatus(tt.want)
			})
		})
	}
}

// TestOneQuestionPerController: the server is asked once for the scale that many pods share.
func TestOneQuestionPerController(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		three := int32(3)
		owner := controllerRef("apps/v1", "StatefulSet", create(b, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: appsv1.StatefulSetSpec{Replicas: &three}}))
		for i := range 3 {
			create(b, newPod(fmt.Sprint("p", i), true, owner))
		}
		create(b, newBudget("max 1"))
		b.wantStatus("expected 3 desired 2 current 3 allowed 1 observed 1" + enough)
		asked := slices.DeleteFunc(b.api.Requests(), func(r faults.Request) bool { return r.Target.Subresource != "scale" })
		if len(asked) != 2 { // for the budget, and for its new status
			t.Errorf("asked %v", asked)
		}
	})
}

// TestWritesWhatChanged: a status that is right is not written again.
func TestWritesWhatChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		create(b, newPod("p", true, nil))
		create(b, newBudget("min 1"))
		b.after(time.Second)
		b.api.Reset()
		pod := b.pod("p")
		pod.Annotations = map[string]string{"a": "b"}
		b.update(controllerstest.Pods(), pod, "")
		b.after(time.Second)
		if got := b.api.Writes(); len(got) > 0 {
			t.Errorf("did %v", got)
		}
	})
}

// TestBudgetsApart: a pod that no budget selects concerns none, and a selector that is none is told.
func TestBudgetsApart(t *testing.T) {
	(&bench{budgets: []*policyv1.PodDisruptionBudget{senseless("wrong")}}).run(t, func(_ *testing.T, b *bench) {
		b.wantEvents(`Warning NoPods Failed to get pods: "?" is not a valid label selector operator`)
		create(b, newBudget("min 1"))
		other := newBudget("min 1")
		other.Name, other.Spec.Selector = "other", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "b"}}
		create(b, other)
		b.events.Take()
		create(b, newPod("p", true, nil))
		b.wantEvents() // of a pod under several budgets
	})
}

// TestAwaited: of several evicted pods the first to be given up decides when to look again; those that are being deleted are
// not awaited any more, and those that are awaited are not healthy.
func TestAwaited(t *testing.T) {
	now := time.Unix(1000, 0)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	going := newPod("going", true, nil)
	going.DeletionTimestamp = &metav1.Time{Time: now}
	all := []*corev1.Pod{newPod("a", true, nil), newPod("b", true, nil), newPod("c", true, nil), going, newPod("stays", true, nil)}
	evicted := map[string]metav1.Time{"a": ago(time.Minute), "b": ago(90 * time.Second), "c": ago(time.Second), "going": ago(100 * time.Second)}
	leaving, stayed, again := disruption.Awaited(all, evicted, now)
	if len(leaving) != 3 || len(stayed) != 0 || again != 30*time.Second+5*time.Millisecond {
		t.Errorf("leaving %v, stayed %d, again after %v", leaving, len(stayed), again)
	}
	if got := disruption.Healthy(all, leaving, now); got != 1 {
		t.Errorf("%d are healthy", got)
	}
	if got := disruption.Healthy(all, nil, time.Time{}); got != 4 { // before any time: nobody was evicted, whatever the clock says
		t.Errorf("%d are healthy when none was evicted", got)
	}
}

// TestGone: what is gone when its turn comes is left alone, and so is a pod that is no target any more.
func TestGone(t *testing.T) {
	api := controllerstest.Start(t, controllerstest.Options{})
	pods := informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{})
	in := disruption.Sources{Pods: pods, Budgets: informer.New(controllerstest.Source[*policyv1.PodDisruptionBudget](api, budgets), informer.Options{})}
	for _, c := range []controllers.Controller{disruption.New(in, api, &controllerstest.Recorder{}, disruption.Options{}), disruption.NewStaleTargets(pods, api)} {
		result, err := c.Reconcile(t.Context(), controllers.Key{Namespace: "ns", Name: "gone"})
		if err != nil || result != (controllers.Result{}) || len(api.Writes()) > 0 {
			t.Errorf("%s: %v, %v, did %v", c.Name(), result, err, api.Writes())
		}
	}
}

// TestTargets: a pod that became a target, or became one again, is looked at two minutes after that.
func TestTargets(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		create(b, newPod("p", true, nil))
		target := func() {
			pod := b.pod("p")
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			b.update(controllerstest.Pods(), pod, "status")
		}
		is := func() corev1.ConditionStatus { return b.pod("p").Status.Conditions[0].Status }
		target()
		b.after(time.Minute)
		target()
		b.after(2*time.Minute - time.Nanosecond)
		if got := is(); got != corev1.ConditionTrue {
			t.Errorf("it is a target: %s before the time", got)
		}
		b.after(time.Nanosecond)
		if got := is(); got != corev1.ConditionFalse {
			t.Errorf("it is a target: %s after two minutes", got)
		}
	})
}

// TestEveryFailure: whichever request fails, the failure is made up for. That of a count is reported by the budget itself.
func TestEveryFailure(t *testing.T) {
	for name, steps := range map[string]func(*bench){
		"counts": func(b *bench) {
			create(b, newPod("p", true, nil))
			create(b, newBudget("min 1"))
		},
		"stale target": func(b *bench) {
			pod := newPod("p", true, nil)
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
			create(b, pod)
		},
	} {
		t.Run(name, func(t *testing.T) {
			reported := func(request string) bool { return strings.HasPrefix(request, "update poddisruptionbudgets") }
			trial.EveryFailure(t, reported, func(c *trial.Client, log *slog.Logger) (state string) {
				(&bench{client: c, log: log}).run(t, func(_ *testing.T, b *bench) {
					steps(b)
					b.after(time.Hour)
					for _, c := range b.pod("p").Status.Conditions {
						state += fmt.Sprintf("%s %s;", c.Type, c.Status)
					}
					if name == "counts" {
						state += fmt.Sprintf("%+v", b.budget("pdb").Status.DisruptionsAllowed) + b.budget("pdb").Status.Conditions[0].Reason
					}
				})
				return state
			})
		})
	}
}

// TestUnreadScale: a scale that cannot be read, and then a status that cannot be written, are tried again.
func TestUnreadScale(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.api.Inject(faults.Fault{Resource: "statefulsets/scale", Err: trial.ErrDown, Times: -1})
		b.api.Inject(faults.Fault{Resource: "poddisruptionbudgets/status", Err: trial.ErrDown, Times: -1})
		three := int32(3)
		set := create(b, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: appsv1.StatefulSetSpec{Replicas: &three}})
		create(b, newPod("p", true, controllerRef("apps/v1", "StatefulSet", set)))
		create(b, newBudget("max 1"))
		b.after(5 * time.Millisecond)
		var asked []string
		for _, r := range b.api.Requests() {
			request := r.Verb + " " + r.Target.Subresource
			if budget, ok := r.Object.(*policyv1.PodDisruptionBudget); ok {
				request += " " + budget.Status.Conditions[0].Message
			}
			asked = append(asked, request)
		}
		if want := []string{"get scale", "update status down", "get scale", "update status down"}; !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
		b.api.Heal()
		b.after(time.Hour)
		b.wantStatus("expected 3 desired 2 current 1 allowed 0 observed 1" + short)
	})
}

// TestNothingServed: by default no kinds but Deployments and ReplicaSets are known.
func TestNothingServed(t *testing.T) {
	(&bench{options: &disruption.Options{}}).run(t, func(_ *testing.T, b *bench) {
		create(b, newPod("p", true, controllerRef("apps/v1", "StatefulSet", &metav1.ObjectMeta{Name: "s", UID: "s"})))
		create(b, newBudget("max 0"))
		b.wantStatus(`expected 0 desired 0 current 0 allowed 0 observed 0; DisruptionAllowed=False SyncFailed: no matches for kind "StatefulSet" in version "apps/v1"`)
	})
}
