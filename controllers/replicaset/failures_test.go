package replicaset_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
)

// TestEveryFailure: whichever request fails, the failure is reported and the work is done by a retry. An update of the status is
// repeated at once.
func TestEveryFailure(t *testing.T) {
	status := func(request string) bool { return strings.Contains(request, "/status ") }
	trial.EveryFailure(t, status, func(c *trial.Client, log *slog.Logger) (state string) {
		run(t, &bench{client: c, log: log}, func(b *bench) {
			b.node(time.Second, time.Second)
			create(b, podWith("orphan", app("web"), nil))
			create(b, web(3))
			b.after(time.Minute)
			b.scale("web", 1)
			b.after(time.Minute)
			for _, pod := range b.list() {
				update(b, podAt(pod.Name), func(p *corev1.Pod) { p.Labels = nil }) // is released
			}
			b.after(time.Hour)
			owned := 0
			for _, pod := range b.list() {
				if metav1.GetControllerOf(&pod) != nil {
					owned++
				}
			}
			s := b.set("web").Status
			state = fmt.Sprintf("%d pods, %d owned, %d available of %d, %v", len(b.list()), owned, s.AvailableReplicas, s.Replicas, s.Conditions)
		})
		return state
	})
}

// TestStatusFailsTwice: the second failure to update a status is reported, and so is a failure to read the set in between.
func TestStatusFailsTwice(t *testing.T) {
	for name, all := range map[string][]faults.Fault{
		"twice":    {{Verb: faults.Update, Times: 2, Err: trial.ErrDown}},
		"not read": {{Verb: faults.Update, Err: trial.ErrDown}, {Verb: faults.Get, Err: trial.ErrDown}},
	} {
		log := trial.NewLog()
		run(t, &bench{log: slog.New(log)}, func(b *bench) {
			for _, f := range all {
				b.api.Inject(f)
			}
			create(b, web(0))
			if got := fmt.Sprint(b.api.Requests()); !strings.HasPrefix(got, "[update replicasets/status ns/web get replicasets ns/web") {
				b.Errorf("%s: %s", name, got)
			}
			b.after(time.Minute)
			if log.Count() != 1 {
				b.Errorf("%s: reported %d times", name, log.Count())
			}
			b.wantStatus("web", "replicas 0 labeled 0 ready 0 available 0 terminating 0 observed 1")
		})
	}
}

// TestSlowCache: what the cache does not show yet is not done again.
func TestSlowCache(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node(time.Second, time.Second)
		writes := func(what, want string) {
			b.Helper()
			if got := fmt.Sprint(b.api.Writes()); got != want {
				b.Errorf("%s: %s, want %s", what, got, want)
			}
			b.api.Reset()
		}
		touch := func(value string) {
			b.Helper()
			update(b, at("web"), func(set *appsv1.ReplicaSet) { set.Annotations = map[string]string{"touched": value} })
		}
		b.pods.Hold()
		create(b, web(1))
		touch("a")
		touch("b")
		writes("one pod is to come", "[create pods ns/web- update replicasets/status ns/web]")
		b.after(6 * time.Minute) // it has to be there by now, if it is
		writes("five minutes later", "[create pods ns/web-]")
		b.pods.Resume()
		b.after(time.Minute)
		if got := len(b.list()); got != 1 {
			b.Errorf("%d pods", got)
		}
		b.api.Reset()

		b.sets.Hold()
		pod := podAt(b.list()[0].Name)
		label := func(value string) {
			b.Helper()
			update(b, pod, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web", "more": value} })
		}
		label("x")
		label("y") // twice, since the first is what the cache shows
		writes("nothing to write", "[]")
		status := pod
		status.Subresource = "status"
		update(b, status, func(p *corev1.Pod) { p.Status.Conditions = nil })
		writes("not ready any more", "[update replicasets/status ns/web]")
		label("z")
		writes("before the cache shows that status", "[]")
		b.sets.Resume()
	})
}

// TestSlowCacheOfAdopted: a pod is adopted once, even if the cache does not show it yet.
func TestSlowCacheOfAdopted(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, podWith("orphan", app("web"), nil))
		b.pods.Hold()
		create(b, web(1))
		update(b, at("web"), func(set *appsv1.ReplicaSet) { set.Annotations = map[string]string{"touched": "a"} })
		if got := fmt.Sprint(b.api.Writes()); got != "[patch pods ns/orphan update replicasets/status ns/web]" {
			b.Errorf("writes %s", got)
		}
		b.pods.Resume()
	})
}

// TestNoPods: a set whose pods cannot be created is left alone if no retry can help, and else has a condition that says why.
func TestNoPods(t *testing.T) {
	terminating := apierrors.NewForbidden(controllerstest.Pods().GroupResource(), "", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tt := range map[string]struct {
		stored    func(*appsv1.ReplicaSet)
		refuse    map[string]error // by verb
		creations int
		condition string
		observed  int64
	}{
		"no selector": {func(s *appsv1.ReplicaSet) { s.Spec.Selector = nil }, nil, 0, "", 0},
		"selects all": {func(s *appsv1.ReplicaSet) { s.Spec.Selector = &metav1.LabelSelector{} }, nil, 0, "", 0},
		"selects nonsense": {func(s *appsv1.ReplicaSet) {
			s.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "?"}}
		}, nil, 0, "", 0},
		"no labels":     {func(s *appsv1.ReplicaSet) { s.Spec.Template.Labels = nil }, nil, 0, "FailedCreate unable to create pods, no labels", 1},
		"being deleted": {nil, map[string]error{faults.Create: terminating}, 1, "", 1},
		"owner is gone": {nil, map[string]error{faults.Get: apierrors.NewNotFound(sets.GroupResource(), "web")}, 0, "", 1},
		"nobody knows":  {nil, map[string]error{faults.Get: errors.New("down")}, 0, "FailedCreate down", 1},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, &bench{stored: tt.stored}, func(b *bench) {
				for verb, err := range tt.refuse {
					b.api.Inject(faults.Fault{Verb: verb, Times: -1, Err: err})
				}
				create(b, web(1))
				b.after(time.Second)
				creations := 0
				for _, r := range b.api.Writes() {
					if r.Verb == faults.Create {
						creations++
					}
				}
				if creations != tt.creations {
					b.Errorf("%d creations", creations)
				}
				set, got := b.set("web"), ""
				for _, c := range set.Status.Conditions {
					got = c.Reason + " " + c.Message
				}
				if got != tt.condition || set.Status.ObservedGeneration != tt.observed {
					b.Errorf("condition %q, want %q; observed %d", got, tt.condition, set.Status.ObservedGeneration)
				}
			})
		})
	}
}

// TestDeletion: to delete a pod that is gone already is no failure; any other error is reported.
func TestDeletion(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		events string
	}{
		"gone":    {apierrors.NewNotFound(controllerstest.Pods().GroupResource(), "x"), ""},
		"refused": {errors.New("no"), "Warning FailedDelete Error deleting: no"},
	} {
		inBubble(t, func(b *bench) {
			b.node(time.Second, time.Second)
			b.api.Inject(faults.Fault{Verb: faults.Delete, Err: tt.err})
			create(b, web(1))
			b.after(time.Minute)
			b.events.Take()
			b.scale("web", 0)
			var got string
			for _, e := range b.events.Events() {
				if strings.HasPrefix(e.Reason, "Failed") {
					got = e.Type + " " + e.Reason + " " + e.Message
				}
			}
			if got != tt.events {
				b.Errorf("%s: events %q", name, got)
			}
			b.after(10 * time.Minute)
			if len(b.list()) != 0 {
				b.Errorf("%s: left %d pods", name, len(b.list()))
			}
		})
	}
}

// TestSpread: of pods that are alike, those that share a node with pods of sibling sets are deleted first.
func TestSpread(t *testing.T) {
	inBubble(t, func(b *bench) {
		yes := true
		put := func(name, owner string, nodes ...string) {
			b.Helper()
			set := replicaSet(name, int32(len(nodes)))
			set.Spec.Template.Finalizers = nil
			set.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: owner, UID: types.UID(owner), Controller: &yes}}
			create(b, set)
			b.after(time.Second)
			i := 0
			for _, pod := range b.list() {
				if pod.Labels["app"] != name {
					continue
				}
				binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: nodes[i]}}
				target := podAt(pod.Name)
				target.Subresource = "binding"
				if _, err := b.api.Others.Create(b.Context(), target, binding, metav1.CreateOptions{}); err != nil {
					b.Fatal(err)
				}
				i++
			}
		}
		put("foreign", "other", "one", "one", "one", "one")
		put("sibling", "d", "two", "two", "one")
		put("web", "d", "one", "two")
		b.after(time.Second)
		b.scale("web", 1)
		for _, pod := range b.list() {
			if pod.Labels["app"] == "web" && pod.DeletionTimestamp == nil && pod.Spec.NodeName != "one" {
				b.Errorf("of the pods on the nodes one and two that on %s was kept", pod.Spec.NodeName)
			}
		}
	})
}
