package daemonset_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/daemonset"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
)

// TestPods: what the pods of a set are like.
func TestPods(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.nodes("a", "b")
		set := create(b, logs(func(set *appsv1.DaemonSet) {
			set.Spec.Template.Annotations = map[string]string{"x": "y"}
			set.Spec.Template.Spec.NodeSelector = map[string]string{"on": "b"}
		}))
		b.wantPods("b one")
		pod := b.list()[0]
		hash := b.history()[0].Labels["controller-revision-hash"]
		if want := map[string]string{"app": "log", "controller-revision-hash": hash, "pod-template-generation": "1"}; !maps.Equal(pod.Labels, want) {
			b.Errorf("labels %v, want %v", pod.Labels, want)
		}
		ref := pod.OwnerReferences[0]
		if pod.GenerateName != "log-" || pod.Annotations["x"] != "y" || pod.Spec.NodeSelector["on"] != "b" || pod.Spec.NodeName != "" ||
			ref.APIVersion != "apps/v1" || ref.Kind != "DaemonSet" || ref.UID != set.UID || !*ref.Controller || !*ref.BlockOwnerDeletion {
			b.Errorf("pod %+v", pod)
		}
		if !reflect.DeepEqual(pod.Spec.Affinity, daemonset.OnNode(nil, "b")) || !reflect.DeepEqual(pod.Spec.Tolerations, daemonset.Tolerations(&corev1.PodSpec{})) {
			b.Errorf("affinity %v, tolerations %v", pod.Spec.Affinity, pod.Spec.Tolerations)
		}
		b.wantStatus("desired 1 current 1 misscheduled 0 ready 0 updated 1 available 0 unavailable 1 observed 1")
		b.wantEvents("Normal SuccessfulCreate Created pod: " + pod.Name)
	})
}

// TestNodesComeAndGo: pods follow the nodes, their labels and taints.
func TestNodesComeAndGo(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.kubelets(time.Second, time.Second)
		b.nodes("a", "b")
		create(b, logs())
		b.after(2 * time.Second)
		b.wantPods("a one, b one")
		b.wantStatus("desired 2 current 2 misscheduled 0 ready 2 updated 2 available 2 unavailable 0 observed 1")

		b.nodes("c")
		b.after(2 * time.Second)
		b.wantPods("a one, b one, c one")
		b.wantStatus("desired 3 current 3 misscheduled 0 ready 3 updated 3 available 3 unavailable 0 observed 1")

		tainted := func(effect corev1.TaintEffect) func(*corev1.Node) {
			return func(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{taint("x", effect)} }
		}
		update(b, nodeAt("c"), tainted(corev1.TaintEffectNoExecute))
		b.after(2 * time.Second)
		b.wantPods("a one, b one")
		b.wantStatus("desired 2 current 2 misscheduled 0 ready 2 updated 2 available 2 unavailable 0 observed 1")
		update(b, nodeAt("c"), func(node *corev1.Node) { node.Spec.Taints = nil })
		b.after(2 * time.Second)
		b.wantPods("a one, b one, c one")

		// With a taint that only keeps new pods out, the pod stays; once it has gone, there is no other.
		update(b, nodeAt("c"), tainted(corev1.TaintEffectNoSchedule))
		b.after(time.Second)
		b.wantPods("a one, b one, c one")
		for _, pod := range b.list() {
			if pod.Spec.NodeName == "c" {
				b.remove(podAt(pod.Name))
			}
		}
		b.after(2 * time.Second)
		b.wantPods("a one, b one")
		b.wantStatus("desired 2 current 2 misscheduled 0 ready 2 updated 2 available 2 unavailable 0 observed 1")

		b.change(func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.NodeSelector = map[string]string{"on": "b"} })
		b.after(2 * time.Second)
		b.wantPods("b one")
		b.remove(nodeAt("b"))
		b.after(time.Minute)
		b.wantPods("b one") // bound pods are left to the pod garbage collector
	})
}

// TestMisscheduled: a pod on a node that would not get one is told of until it is in its place again.
func TestMisscheduled(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.kubelets(0, 0)
		b.nodes("a")
		create(b, logs())
		update(b, nodeAt("a"), func(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{taint("x", corev1.TaintEffectNoSchedule)} })
		b.change(func(set *appsv1.DaemonSet) { set.Labels = app("log") })
		b.wantStatus("desired 0 current 0 misscheduled 1 ready 0 updated 0 available 0 unavailable 0 observed 1")
		update(b, nodeAt("a"), func(node *corev1.Node) { node.Spec.Taints = nil })
		b.wantStatus("desired 1 current 1 misscheduled 0 ready 1 updated 1 available 1 unavailable 0 observed 1")
	})
}

// TestNodeGoneBeforeBinding: nobody else deletes a pod that waits for a node that is gone.
func TestNodeGoneBeforeBinding(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.nodes("a", "b")
		create(b, logs())
		b.wantPods("a one, b one")
		b.remove(nodeAt("b"))
		b.change(func(set *appsv1.DaemonSet) { set.Labels = app("log") }) // the end of a node is no reason to look
		b.wantPods("a one")
	})
}

// TestEndedPods: a pod that has failed is replaced, after a delay that doubles; one that has succeeded at once.
func TestEndedPods(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.nodes("a")
		create(b, logs())
		began := time.Now()
		end := func(phase corev1.PodPhase) string {
			b.Helper()
			pods := b.list()
			if len(pods) != 1 {
				b.Fatalf("%d pods", len(pods))
			}
			b.events.Take()
			update(b, statusOf(podAt(pods[0].Name)), func(pod *corev1.Pod) { pod.Status.Phase = phase })
			return pods[0].Name
		}
		replaced := func(name string) bool {
			pods := b.list()
			return len(pods) == 1 && pods[0].Name != name
		}
		first := end(corev1.PodFailed)
		if !replaced(first) || time.Since(began) != 0 {
			b.Errorf("%s is there after %v", first, time.Since(began))
		}
		b.wantEvents("Warning FailedDaemonPod Found failed daemon pod ns/"+first+" on node a, will try to kill it",
			"Normal SuccessfulDelete Deleted pod: "+first, "Normal SuccessfulCreate Created pod: "+b.list()[0].Name)
		for _, delay := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			name := end(corev1.PodFailed)
			b.after(delay - time.Millisecond)
			if replaced(name) {
				b.Errorf("%s was replaced before %v", name, delay)
			}
			b.after(time.Millisecond)
			if !replaced(name) {
				b.Errorf("%s was not replaced after %v", name, delay)
			}
		}
		name := end(corev1.PodSucceeded)
		if !replaced(name) {
			b.Errorf("%s is there", name)
		}
		b.wantEvents("Normal SucceededDaemonPod Found succeeded daemon pod ns/"+name+" on node a, will try to delete it",
			"Normal SuccessfulDelete Deleted pod: "+name, "Normal SuccessfulCreate Created pod: "+b.list()[0].Name)
	})
}

// bounds watches a roll-out for ten minutes and returns the least number of available pods and the largest of pods.
func (b *bench) bounds(every time.Duration) (least, most int) {
	least = len(b.list())
	for range 10 * time.Minute / every {
		b.after(every)
		available, all := 0, 0
		for _, pod := range b.list() {
			if pod.DeletionTimestamp != nil {
				continue
			}
			all++
			if len(pod.Status.Conditions) > 0 {
				available++
			}
		}
		least, most = min(least, available), max(most, all)
	}
	return least, most
}

func TestRollingUpdate(t *testing.T) {
	for _, tt := range []struct {
		unavailable, surge string
		least, most        int
	}{{"1", "0", 3, 4}, {"2", "0", 2, 4}, {"50%", "0", 2, 4}, {"100%", "0", 0, 4}, {"0", "1", 4, 5}, {"0", "50%", 4, 6}, {"0", "100%", 4, 8}} {
		t.Run(tt.unavailable+" "+tt.surge, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.kubelets(10*time.Second, 5*time.Second)
				b.nodes("a", "b", "c", "d")
				create(b, logs(func(set *appsv1.DaemonSet) {
					set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{
						MaxUnavailable: new(intstr.Parse(tt.unavailable)), MaxSurge: new(intstr.Parse(tt.surge)),
					}
				}))
				b.after(time.Minute)
				b.wantPods("a one, b one, c one, d one")
				b.change(image("two"))
				if least, most := b.bounds(500 * time.Millisecond); least != tt.least || most != tt.most {
					b.Errorf("between %d available pods and %d pods, want %d and %d", least, most, tt.least, tt.most)
				}
				b.wantPods("a two, b two, c two, d two")
				b.wantStatus("desired 4 current 4 misscheduled 0 ready 4 updated 4 available 4 unavailable 0 observed 2")
				for _, pod := range b.list() {
					if pod.Labels["pod-template-generation"] != "2" || pod.Labels["controller-revision-hash"] != b.history()[1].Labels["controller-revision-hash"] {
						b.Errorf("labels %v", pod.Labels)
					}
				}
			})
		})
	}
}

// TestStuckUpdate: a roll-out stops at pods that do not become ready, and goes back.
func TestStuckUpdate(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.kubelets(time.Second, time.Second)
		b.nodes("a", "b", "c")
		create(b, logs(func(set *appsv1.DaemonSet) { set.Spec.MinReadySeconds = 3600 }))
		b.after(2 * time.Hour)
		b.change(image("two"))
		b.after(time.Minute)
		b.wantPods("a two, b one, c one")
		b.wantStatus("desired 3 current 3 misscheduled 0 ready 3 updated 1 available 2 unavailable 1 observed 2")
		b.change(image("one"))
		b.after(time.Minute)
		b.wantPods("a one, b one, c one")
		b.after(2 * time.Hour)
		b.wantStatus("desired 3 current 3 misscheduled 0 ready 3 updated 3 available 3 unavailable 0 observed 3")
	})
}

func TestOnDelete(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.kubelets(time.Second, time.Second)
		b.nodes("a", "b")
		create(b, logs(func(set *appsv1.DaemonSet) { set.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }))
		b.after(time.Minute)
		b.change(image("two"))
		b.after(time.Hour)
		b.wantPods("a one, b one")
		b.wantStatus("desired 2 current 2 misscheduled 0 ready 2 updated 0 available 2 unavailable 0 observed 2")
		for _, pod := range b.list() {
			if pod.Spec.NodeName == "b" {
				b.remove(podAt(pod.Name))
			}
		}
		b.after(time.Minute)
		b.wantPods("a one, b two")
	})
}

func TestMinReadySeconds(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.kubelets(time.Second, 0)
		b.nodes("a")
		create(b, logs(func(set *appsv1.DaemonSet) { set.Spec.MinReadySeconds = 30 }))
		b.after(30 * time.Second)
		b.wantStatus("desired 1 current 1 misscheduled 0 ready 1 updated 1 available 0 unavailable 1 observed 1")
		b.after(3 * time.Second)
		b.wantStatus("desired 1 current 1 misscheduled 0 ready 1 updated 1 available 1 unavailable 0 observed 1")
	})
}

// TestAdoption: pods and revisions that the set selects are adopted, others released.
func TestAdoption(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.nodes("a", "b")
		stray := pod("a-stray")
		stray.Labels = app("log")
		create(b, stray)
		other := pod("b-other")
		other.Labels = app("other")
		create(b, other)
		set := create(b, logs())
		b.wantPods("a image, b image, b one") // the update waits for the pod on b
		controlled := func(want ...string) {
			b.Helper()
			var got []string
			for _, pod := range b.list() {
				if metav1.IsControlledBy(&pod, set) {
					node, _ := daemonset.NodeOf(&pod)
					got = append(got, node)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				b.Errorf("controls pods on %q, want %q", got, want)
			}
		}
		controlled("a", "b")
		update(b, podAt("a-stray"), func(pod *corev1.Pod) { pod.Labels = nil })
		b.wantPods("a image, a one, b image, b one")
		controlled("a", "b")
		if pod := b.list()[0]; pod.Name != "a-stray" || len(pod.OwnerReferences) != 0 {
			b.Errorf("pod %+v", pod)
		}
	})
}

// TestSelectingAll: a selector that selects everything is not acted on.
func TestSelectingAll(t *testing.T) {
	b := &bench{stored: func(set *appsv1.DaemonSet) { set.Spec.Selector = &metav1.LabelSelector{} }}
	run(t, b, func(b *bench) {
		b.nodes("a")
		create(b, logs())
		b.after(time.Minute)
		if got := b.api.Requests(); len(got) != 0 {
			b.Errorf("asked for %v", got)
		}
		got := b.events.Take()
		if len(got) == 0 || got[0] != "Warning SelectingAll This daemon set is selecting all pods. A non-empty selector is required." {
			b.Errorf("events %q", got)
		}
	})
}

// TestUnreadableSelector, which validation does not let in.
func TestUnreadableSelector(t *testing.T) {
	b := &bench{stored: func(set *appsv1.DaemonSet) {
		set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}}
	}}
	run(t, b, func(b *bench) {
		b.nodes("a")
		create(b, logs())
		b.after(time.Minute)
		if got := b.api.Requests(); len(got) != 0 {
			b.Errorf("asked for %v", got)
		}
	})
}

// TestOddLimit: that a limit cannot be read, which validation does not let in, is reported.
func TestOddLimit(t *testing.T) {
	var log trial.Text
	b := &bench{log: slog.New(slog.NewTextHandler(&log, nil)), stored: func(set *appsv1.DaemonSet) {
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("x"))
	}}
	run(t, b, func(b *bench) {
		b.nodes("a")
		create(b, logs())
		b.after(time.Minute)
		if !strings.Contains(log.String(), "reconciling failed") {
			t.Errorf("log %s", log.String())
		}
	})
}

// TestUnknownSet: there is nothing to do for a set that is not there.
func TestUnknownSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := (&bench{}).controller(t, daemonset.Options{})
		if r, err := c.Reconcile(t.Context(), controllers.Key{Namespace: "ns", Name: "none"}); err != nil || r != (controllers.Result{}) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestSetThatIsDeleted: nothing is done for a set that is being deleted.
func TestSetThatIsDeleted(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.nodes("a")
		create(b, logs(func(set *appsv1.DaemonSet) { set.Finalizers = []string{"x/y"} }))
		b.remove(at("log"))
		b.api.Reset()
		b.remove(podAt(b.list()[0].Name))
		b.nodes("b")
		b.after(time.Minute)
		if got := b.api.Requests(); len(got) != 0 || len(b.list()) != 0 {
			b.Errorf("asked for %v", got)
		}
	})
}

// TestDeletedMeanwhile: no pods are made for a set that the server deletes, though the cache does not show it.
func TestDeletedMeanwhile(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, logs(func(set *appsv1.DaemonSet) { set.Finalizers = []string{"x/y"} }))
		b.sets.Hold()
		b.remove(at("log"))
		b.nodes("a")
		b.after(time.Minute)
		b.wantPods("")
		b.sets.Resume()
	})
}

// TestBurst: how many pods are made before the cache shows any.
func TestBurst(t *testing.T) {
	inBubble(t, func(b *bench) {
		for i := range 300 {
			b.nodes(fmt.Sprintf("n%03d", i))
		}
		b.pods.Hold()
		create(b, logs())
		if got := len(b.list()); got != 250 {
			b.Errorf("%d pods before the cache shows any, want 250", got)
		}
		b.pods.Resume()
		b.after(time.Minute)
		if got := len(b.list()); got != 300 {
			b.Errorf("%d pods", got)
		}
		b.pods.Hold()
		b.change(func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.NodeSelector = map[string]string{"on": "nowhere"} })
		if got := len(b.list()); got != 50 {
			b.Errorf("%d pods are left before the cache shows any deletion, want 50", got)
		}
		b.pods.Resume()
		b.after(time.Minute)
		b.wantPods("")
	})
}

// TestSlowCache: what the cache does not show yet is not done again, for five minutes.
func TestSlowCache(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.nodes("a", "b")
		b.pods.Hold()
		create(b, logs())
		touch := func(value string) {
			b.Helper()
			b.change(func(set *appsv1.DaemonSet) { set.Labels = map[string]string{"touched": value} })
		}
		touch("a")
		b.after(4 * time.Minute)
		touch("b")
		if got := len(b.list()); got != 2 {
			b.Errorf("%d pods, want 2", got)
		}
		// The generation is not observed while the controller does not act on it.
		b.change(image("two"))
		if got := b.set().Status.ObservedGeneration; got != 1 {
			b.Errorf("observed generation %d", got)
		}
		b.pods.Resume()
		b.after(time.Minute)
		if got := b.set().Status.ObservedGeneration; got != 2 || len(b.list()) != 2 {
			b.Errorf("observed generation %d, %d pods", got, len(b.list()))
		}
	})
}

// TestNamespaceEnds: that pods cannot be made in a namespace that is being deleted is not reported.
func TestNamespaceEnds(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.nodes("a")
		b.api.Inject(faults.Fault{Verb: faults.Create, Resource: "pods", Times: -1, Err: terminating()})
		create(b, logs())
		b.wantEvents()
	})
}

func TestFailedWrites(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.nodes("a", "b", "c", "d")
		b.api.Inject(faults.Fault{Verb: faults.Create, Resource: "pods", Skip: 1, Times: 1, Err: errors.New("quota")})
		create(b, logs())
		b.after(time.Minute)
		b.wantPods("a one, b one, c one, d one")
		failed := 0
		for _, e := range b.events.Take() {
			if e == "Warning FailedCreate Error creating: quota" {
				failed++
			}
		}
		if failed != 1 {
			b.Errorf("%d failures", failed)
		}
		b.api.Inject(faults.Fault{Verb: faults.Delete, Resource: "pods", Times: 1, Err: errors.New("no")})
		b.change(func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.NodeSelector = map[string]string{"on": "nowhere"} })
		b.after(time.Minute)
		b.wantPods("")
		if got := b.events.Take(); !slices.Contains(got, "Warning FailedDelete Error deleting: no") {
			b.Errorf("events %q", got)
		}
	})
}

func TestActsAsItsServiceAccountMay(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.kubelets(time.Second, time.Second)
		b.nodes("a", "b")
		stray := pod("a-stray")
		stray.Labels = app("log")
		create(b, stray)
		create(b, logs(func(set *appsv1.DaemonSet) { set.Spec.RevisionHistoryLimit = new(int32(0)) }))
		b.after(time.Minute)
		for _, to := range []string{"two", "three", "one"} {
			b.change(image(to))
			b.after(time.Minute)
		}
		b.wantPods("a one, b one")
		allowed := []string{
			"create pods", "delete pods", "patch pods", "update daemonsets/status", "get daemonsets",
			"create controllerrevisions", "delete controllerrevisions", "get controllerrevisions", "update controllerrevisions", "patch controllerrevisions",
		}
		for _, r := range b.api.Requests() {
			if what, _, _ := strings.Cut(r.String(), " ns/"); !slices.Contains(allowed, what) {
				b.Errorf("forbidden: %s", r)
			}
		}
	})
}
