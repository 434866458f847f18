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

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

func node(s *fakeapi.Server) lifecycle.Runnable {
	return &fakeapi.Node{Server: s, Start: time.Second, Stop: time.Second}
}

// web is a set whose pods go at once when they are deleted.
func web(replicas int32) *appsv1.ReplicaSet {
	set := replicaSet("web", replicas)
	set.Spec.Template.Finalizers = nil
	return set
}

// TestEveryFailure: whichever request fails, the failure is reported and made up for. A status that cannot be written is tried once
// more at once.
func TestEveryFailure(t *testing.T) {
	status := func(request string) bool { return strings.Contains(request, "/status ") }
	trial.EveryFailure(t, status, func(c *trial.Client, log *slog.Logger) (state string) {
		run(t, &bench{client: c, log: log}, fakeapi.Options{}, node, func(b *bench) {
			b.create(fakeapi.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orphan", Labels: map[string]string{"app": "web"}}})
			b.create(sets, web(3))
			b.after(time.Minute)
			b.scale("web", 1)
			b.after(time.Minute)
			for _, pod := range b.list() {
				pod.Labels = nil // is released
				if _, err := b.api.Update(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: pod.Name}, &pod, metav1.UpdateOptions{}); err != nil {
					b.Fatal(err)
				}
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

// TestStatusFailsTwice is a failure to be reported; so is that the set cannot be read in between.
func TestStatusFailsTwice(t *testing.T) {
	for _, verb := range []string{fakeapi.Update, fakeapi.Get} {
		log, failures := trial.NewLog(), 0
		run(t, &bench{log: slog.New(log)}, fakeapi.Options{Before: func(a fakeapi.Action) error {
			if a.Target.Subresource == "status" && a.Verb == fakeapi.Update && a.Target.Resource == sets && failures < 2 || failures == 1 && a.Verb == verb && a.Target.Resource == sets {
				failures++
				return trial.ErrDown
			}
			return nil
		}}, nil, func(b *bench) {
			b.create(sets, web(0))
			b.after(time.Minute)
			if log.Count() != 1 || failures != 2 {
				b.Errorf("%s: %d failures were reported %d times", verb, failures, log.Count())
			}
			b.wantStatus("web", "replicas 0 labeled 0 ready 0 available 0 terminating 0 observed 1")
		})
	}
}

// TestSlowCache: what the cache does not show yet is not done again.
func TestSlowCache(t *testing.T) {
	inBubble(t, fakeapi.Options{}, node, func(b *bench) {
		writes := func(what, want string) {
			b.Helper()
			var all []string
			for _, a := range b.api.Actions() {
				if a.Target.Subresource != "status" && a.Target.Subresource != "binding" && !(a.Target.Resource == sets) || a.Target.Resource == sets && a.Target.Subresource == "status" {
					all = append(all, a.Verb+" "+a.Target.Resource.Resource)
				}
			}
			if got := strings.Join(all, ", "); got != want {
				b.Errorf("%s: %s, want %s", what, got, want)
			}
			b.api.Reset()
		}
		touch := func(value string) {
			b.Helper()
			set := b.set("web")
			set.Annotations = map[string]string{"touched": value}
			if _, err := b.api.Update(b.Context(), client.Target{Resource: sets, Namespace: "ns", Name: "web"}, set, metav1.UpdateOptions{}); err != nil {
				b.Fatal(err)
			}
			b.after(0)
		}
		b.pods.Hold()
		b.create(sets, web(1))
		touch("a")
		touch("b")
		writes("one pod is to come", "create pods, update replicasets")
		b.after(6 * time.Minute) // it has to be there by now, if it is
		writes("five minutes later", "create pods")
		b.pods.Resume()
		b.after(time.Minute)
		if got := len(b.list()); got != 1 {
			b.Errorf("%d pods", got)
		}
		b.api.Reset()

		b.sets.Hold()
		pod := b.list()[0]
		for _, app := range []string{"x", "y"} { // twice, since the first is what the cache shows
			fresh, err := client.As[*corev1.Pod](b.api.Get(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: pod.Name}))
			if err != nil {
				b.Fatal(err)
			}
			fresh.Labels["more"] = app
			fresh.Labels["app"] = "web"
			if _, err := b.api.Update(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: pod.Name}, fresh, metav1.UpdateOptions{}); err != nil {
				b.Fatal(err)
			}
			b.after(0)
		}
		writes("nothing to write", "update pods, update pods")
		b.sets.Resume()
	})
}

// TestNoPods: what cannot have pods is not retried, or is, and says why.
func TestNoPods(t *testing.T) {
	terminating := apierrors.NewForbidden(fakeapi.Pods.GroupResource(), "", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tt := range map[string]struct {
		change    func(*appsv1.ReplicaSet)
		refuse    map[string]error // by verb and resource
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
		"being deleted": {func(s *appsv1.ReplicaSet) {}, map[string]error{"create pods": terminating}, 1, "", 1},
		"owner is gone": {func(s *appsv1.ReplicaSet) {}, map[string]error{"get replicasets": apierrors.NewNotFound(sets.GroupResource(), "web")}, 0, "", 1},
		"nobody knows":  {func(s *appsv1.ReplicaSet) {}, map[string]error{"get replicasets": errors.New("down")}, 0, "FailedCreate down", 1},
	} {
		t.Run(name, func(t *testing.T) {
			creations := 0
			inBubble(t, fakeapi.Options{Before: func(a fakeapi.Action) error {
				if a.Verb == fakeapi.Create && a.Target.Resource == fakeapi.Pods {
					creations++
				}
				return tt.refuse[a.Verb+" "+a.Target.Resource.Resource]
			}}, nil, func(b *bench) {
				set := web(1)
				tt.change(set)
				b.create(sets, set)
				b.after(time.Second)
				if creations != tt.creations {
					b.Errorf("%d creations", creations)
				}
				delete(tt.refuse, "get replicasets")
				got := ""
				for _, c := range b.set("web").Status.Conditions {
					got = c.Reason + " " + c.Message
				}
				if got != tt.condition || b.set("web").Status.ObservedGeneration != tt.observed {
					b.Errorf("condition %q, want %q; observed %d", got, tt.condition, b.set("web").Status.ObservedGeneration)
				}
			})
		})
	}
}

// TestDeletion: that a pod is gone already is fine, another failure is told.
func TestDeletion(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		events string
	}{
		"gone":    {apierrors.NewNotFound(fakeapi.Pods.GroupResource(), "x"), ""},
		"refused": {errors.New("no"), "Warning FailedDelete Error deleting: no"},
	} {
		refuse := true
		inBubble(t, fakeapi.Options{Before: func(a fakeapi.Action) error {
			if a.Verb == fakeapi.Delete && a.Target.Resource == fakeapi.Pods && refuse {
				refuse = false
				return tt.err
			}
			return nil
		}}, node, func(b *bench) {
			b.create(sets, web(1))
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

// TestSpread: of pods that are alike those go first that share their node with pods of the sets beside theirs.
func TestSpread(t *testing.T) {
	inBubble(t, fakeapi.Options{}, nil, func(b *bench) {
		yes := true
		put := func(name, owner string, nodes ...string) {
			b.Helper()
			set := replicaSet(name, int32(len(nodes)))
			set.Spec.Template.Finalizers = nil
			set.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: owner, UID: types.UID(owner), Controller: &yes}}
			b.create(sets, set)
			b.after(time.Second)
			i := 0
			for _, pod := range b.list() {
				if pod.Labels["app"] != name {
					continue
				}
				binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: nodes[i]}}
				if _, err := b.api.Create(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: pod.Name, Subresource: "binding"}, binding, metav1.CreateOptions{}); err != nil {
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
