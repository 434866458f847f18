package statefulset_test

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

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
)

// TestEveryFailure: whichever request fails, the failure is reported and the work is done by a retry.
func TestEveryFailure(t *testing.T) {
	trial.EveryFailure(t, nil, func(c *trial.Client, log *slog.Logger) (state string) {
		run(t, &bench{client: c, log: log}, func(b *bench) {
			b.node()
			create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "ns", Labels: app()}})
			b.after(time.Minute)
			create(b, web(2, func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = new(int32(0)) }))
			b.after(time.Hour)
			b.change(image("web:2"))
			b.after(time.Hour)
			b.scale(1)
			b.after(time.Hour)
			for _, pod := range b.podList() {
				state += pod.Name + "=" + pod.Spec.Containers[0].Image + " "
			}
			s := b.set().Status
			state += fmt.Sprintf("%d available of %d, %d revisions", s.AvailableReplicas, s.Replicas, len(b.history()))
		})
		return state
	})
}

// TestEveryFailureOfClaims: the same for requests about claims.
func TestEveryFailureOfClaims(t *testing.T) {
	trial.EveryFailure(t, nil, func(c *trial.Client, log *slog.Logger) (state string) {
		run(t, &bench{client: c, log: log}, func(b *bench) {
			b.node()
			create(b, web(2, parallel, withClaims("data"), keeping(drop, drop)))
			b.after(time.Hour)
			b.scale(1)
			b.after(time.Hour)
			for _, c := range b.claimList() {
				state += c.Name + " of " + c.OwnerReferences[0].Kind + " "
			}
			state += fmt.Sprintf("%d pods", len(b.podList()))
		})
		return state
	})
}

// TestReported: what is refused is reported by events, and what is there already is not.
func TestReported(t *testing.T) {
	pods := controllerstest.Pods().GroupResource()
	for name, tt := range map[string]struct {
		fault  faults.Fault
		events []string
	}{
		"create": {faults.Fault{Verb: faults.Create, Resource: "pods", Err: errors.New("quota")},
			[]string{"Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: quota"}},
		"there already": {faults.Fault{Verb: faults.Create, Resource: "pods", Err: apierrors.NewAlreadyExists(pods, "web-0")}, nil},
		"delete": {faults.Fault{Verb: faults.Delete, Resource: "pods", Err: errors.New("no")},
			[]string{"Warning FailedDelete Delete Pod web-0 in StatefulSet web failed error: no"}},
		"gone already": {faults.Fault{Verb: faults.Delete, Resource: "pods", Err: apierrors.NewNotFound(pods, "web-0"), Lost: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.node()
				b.api.Inject(tt.fault)
				create(b, web(1))
				b.after(time.Minute)
				b.scale(0)
				b.after(time.Minute)
				b.wantPods("")
				b.wantEvents(append(tt.events,
					"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
					"Normal SuccessfulDelete Delete Pod web-0 in StatefulSet web successful")...)
			})
		})
	}
}

// TestSlowStart: what cannot succeed is not tried for all pods of a parallel set, and what can is tried for more each time.
func TestSlowStart(t *testing.T) {
	for skip, want := range map[int][]string{
		0: {"Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: quota"},
		1: {
			"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
			"Warning FailedCreate Create Pod web-1 in StatefulSet web failed error: quota",
			"Warning FailedCreate Create Pod web-2 in StatefulSet web failed error: quota",
		},
	} {
		inBubble(t, func(b *bench) {
			b.api.Inject(faults.Fault{Verb: faults.Create, Resource: "pods", Err: errors.New("quota"), Skip: skip, Times: -1})
			b.pods.Hold()
			create(b, web(6, parallel))
			b.wantEvents(want...)
			b.api.Heal()
			b.pods.Resume()
			b.after(time.Minute)
			if got := len(b.podList()); got != 6 {
				t.Errorf("%d pods", got)
			}
		})
	}
}

// TestMisnamed: a pod with the ordinal of a member and another name is not renamed, and that is reported.
func TestMisnamed(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-007", Namespace: "ns", Labels: app()}})
		b.after(time.Minute)
		create(b, web(1, func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 7} }))
		b.after(time.Second)
		failed := false
		for _, e := range b.events.Take() {
			failed = failed || strings.HasPrefix(e, "Warning FailedUpdate Update Pod web-7 in StatefulSet web failed error: ")
		}
		if !failed {
			t.Error("no failure was reported")
		}
		b.wantPods("web-007=image+")
	})
}

// TestForeignPod: a pod that has the name of one of the set's and is not its own is left alone.
func TestForeignPod(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "ns"}})
		create(b, web(1))
		b.after(time.Minute)
		b.wantPods("web-0=image")
		b.wantEvents()
		b.remove(at(controllerstest.Pods(), "web-0"), metav1.DeleteOptions{})
		b.after(time.Hour)
		b.wantPods("web-0=web:1")
	})
}

// TestConflict: a status or a pod that has changed meanwhile is read again.
func TestConflict(t *testing.T) {
	conflict := apierrors.NewConflict(sets().GroupResource(), "web", errors.New("changed"))
	for name, tt := range map[string]struct {
		faults []faults.Fault
		fails  int
	}{
		"status":         {[]faults.Fault{{Verb: faults.Update, Resource: "statefulsets/status", Err: conflict}}, 0},
		"status twice":   {[]faults.Fault{{Verb: faults.Update, Resource: "statefulsets/status", Err: conflict, Times: 2}}, 1},
		"status, unread": {[]faults.Fault{{Verb: faults.Update, Resource: "statefulsets/status", Err: conflict}, {Verb: faults.Get, Resource: "statefulsets", Skip: 1, Err: trial.ErrDown}}, 1},
		"pod":            {[]faults.Fault{{Verb: faults.Update, Resource: "pods", Err: conflict}}, 0},
		"pod twice":      {[]faults.Fault{{Verb: faults.Update, Resource: "pods", Err: conflict, Times: 2}}, 1},
		"pod, unread":    {[]faults.Fault{{Verb: faults.Update, Resource: "pods", Err: conflict}, {Verb: faults.Get, Resource: "pods", Err: trial.ErrDown}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var log trial.Text
			run(t, &bench{log: slog.New(slog.NewTextHandler(&log, nil))}, func(b *bench) {
				b.node()
				create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "ns", Labels: app()}})
				b.after(time.Minute)
				for _, f := range tt.faults {
					b.api.Inject(f)
				}
				create(b, web(1, onDelete))
				b.after(time.Minute)
				if got := strings.Count(log.String(), "reconciling failed"); got != tt.fails {
					t.Errorf("failed %d times, want %d:\n%s", got, tt.fails, log.String())
				}
				b.wantStatus("replicas 1 ready 1 available 1 current 0 web:1 updated 0 web:1 observed 1")
				if pod := get[*corev1.Pod](b, at(controllerstest.Pods(), "web-0")); pod.Labels["statefulset.kubernetes.io/pod-name"] != "web-0" {
					t.Errorf("labels %v", pod.Labels)
				}
			})
		})
	}
}

// TestSlowCache: what the cache does not show yet is not done again.
func TestSlowCache(t *testing.T) {
	inBubble(t, func(b *bench) {
		touches := 0
		touch := func() {
			b.Helper()
			touches++
			b.change(func(set *appsv1.StatefulSet) { set.Annotations = map[string]string{"touched": fmt.Sprint(touches)} })
		}
		writes := func(what string, want ...string) {
			b.Helper()
			b.after(time.Minute)
			got := map[string]int{}
			for _, w := range b.api.Writes() {
				got[w.String()]++
			}
			for _, w := range want {
				if got[w]--; got[w] == 0 {
					delete(got, w)
				}
			}
			if len(got) > 0 {
				b.Errorf("%s: %v beyond %v", what, got, want)
			}
			b.api.Reset()
		}
		b.pods.Hold()
		create(b, web(2, parallel))
		touch()
		touch()
		writes("two pods are to come", "create controllerrevisions ns/"+b.set().Status.UpdateRevision,
			"create pods ns/web-0web-", "create pods ns/web-1web-", "update statefulsets/status ns/web")
		b.pods.Resume()
		writes("they are there", "update statefulsets/status ns/web")

		b.pods.Hold()
		b.scale(1)
		touch()
		writes("one is to go", "delete pods ns/web-1", "update statefulsets/status ns/web")
		b.pods.Resume()
		b.after(time.Minute)
		b.api.Reset()

		b.sets.Hold()
		b.setPhase("web-0", corev1.PodRunning)
		ready := at(controllerstest.Pods(), "web-0")
		ready.Subresource = "status"
		for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionTrue} {
			update(b, ready, func(pod *corev1.Pod) {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
			})
		}
		writes("one status is to come", "update statefulsets/status ns/web")
		b.sets.Resume()
		b.after(time.Minute)
		b.wantStatus("replicas 1 ready 1 available 1 current 1 web:1 updated 1 web:1 observed 2")
	})
}

// TestSlowCacheOfClaims: claims are created once, even if the cache does not show them yet.
func TestSlowCacheOfClaims(t *testing.T) {
	var log trial.Text
	run(t, &bench{log: slog.New(slog.NewTextHandler(&log, nil))}, func(b *bench) {
		b.claims.Hold()
		create(b, web(1, withClaims("data"), keeping(drop, keep)))
		b.change(func(set *appsv1.StatefulSet) { set.Annotations = map[string]string{"a": "b"} })
		b.after(time.Minute)
		b.wantClaims("data-web-0")
		b.claims.Resume()
		b.after(time.Second)
		b.wantClaims("data-web-0<StatefulSet/web")
		b.wantEvents(
			"Normal SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success",
			"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful")
		if log.String() != "" {
			t.Errorf("failed: %s", log.String())
		}
	})
}

// TestSlowCacheOfAdopted: a pod is adopted and deleted once, even if the cache does not show it yet.
func TestSlowCacheOfAdopted(t *testing.T) {
	var log trial.Text
	run(t, &bench{log: slog.New(slog.NewTextHandler(&log, nil))}, func(b *bench) {
		b.node()
		create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "ns", Labels: app(), Finalizers: []string{"f/g"}}})
		b.after(time.Minute)
		b.pods.Hold()
		create(b, web(1))
		for i := range 3 {
			b.change(func(set *appsv1.StatefulSet) { set.Annotations = map[string]string{"touched": fmt.Sprint(i)} })
			b.after(time.Minute)
		}
		got := map[string]int{}
		for _, w := range b.api.Writes() {
			got[w.String()]++
		}
		if got["patch pods ns/web-0"] != 1 || got["delete pods ns/web-0"] != 1 {
			t.Errorf("writes %v", got)
		}
		b.wantStatus("replicas 1 ready 1 available 1 current 0 web:1 updated 0 web:1 observed 1")
		b.pods.Resume()
		if log.String() != "" {
			t.Errorf("failed: %s", log.String())
		}
	})
}

// TestSlowCacheOfUpdates: the status counts a pod as updated no more as soon as that is deleted.
func TestSlowCacheOfUpdates(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(3, rolling(0, "2")))
		b.after(time.Minute)
		b.pods.Hold()
		b.change(image("web:2"))
		b.wantStatus("replicas 3 ready 3 available 3 current 1 web:1 updated 0 web:2 observed 2")
		b.pods.Resume()
		b.after(time.Minute)
		b.wantPods("web-0=web:2+ web-1=web:2+ web-2=web:2+")
	})
}

// TestGone: nothing is created for a set that is gone, even if the cache still shows it.
func TestGone(t *testing.T) {
	for name, err := range map[string]error{"gone": apierrors.NewNotFound(sets().GroupResource(), "web"), "nobody knows": trial.ErrDown} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.api.Inject(faults.Fault{Verb: faults.Get, Resource: "statefulsets", Err: err, Times: -1})
				create(b, web(1, withClaims("data")))
				b.after(time.Minute)
				b.wantPods("")
				b.wantClaims("")
				b.wantStatus("replicas 0 ready 0 available 0 current 0 web:1 updated 0 web:1 observed 1")
			})
		})
	}
}

// TestStored: sets that validation does not let in today.
func TestStored(t *testing.T) {
	for name, tt := range map[string]struct {
		stored func(*appsv1.StatefulSet)
		pods   string
		event  string
		fails  bool
	}{
		"no selector": {func(set *appsv1.StatefulSet) { set.Spec.Selector = nil }, "", "", false},
		"selects nonsense": {func(set *appsv1.StatefulSet) {
			set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}
		}, "", "", false},
		"no numbers": {func(set *appsv1.StatefulSet) {
			set.Spec.Replicas, set.Spec.RevisionHistoryLimit, set.Spec.UpdateStrategy.RollingUpdate.Partition = nil, nil, nil
		}, "web-0=web:1", "Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful", false},
		"recreate": {func(set *appsv1.StatefulSet) {
			set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RecreateStatefulSetStrategyType}
		}, "", "Warning UnknownStrategy statefulset ns/web uses Recreate strategy but feature gate StatefulSetRecreateStrategy is disabled", true},
	} {
		t.Run(name, func(t *testing.T) {
			var log trial.Text
			run(t, &bench{stored: tt.stored, log: slog.New(slog.NewTextHandler(&log, nil))}, func(b *bench) {
				create(b, web(2))
				b.after(time.Second)
				b.wantPods(tt.pods)
				if tt.event == "" {
					b.wantEvents()
				} else {
					b.wantEvents(tt.event)
				}
				if failed := strings.Contains(log.String(), "reconciling failed"); failed != tt.fails {
					t.Errorf("failed %t, want %t:\n%s", failed, tt.fails, log.String())
				}
			})
		})
	}
}

// TestOlderRevisions: a revision that was stored before some default existed is still that of the template. One that
// holds no template is an error, and is not used.
func TestOlderRevisions(t *testing.T) {
	for name, tt := range map[string]struct {
		data    string
		history string
		pods    string
	}{
		"fewer defaults": {`{"spec":{"template":{"$patch":"replace","metadata":{"annotations":{"a":"b"},"creationTimestamp":null,"labels":{"app":"web"}},` +
			`"spec":{"containers":[{"image":"web:1","name":"c","resources":{}}]}}}}`, "7=web:1", "web-0=web:1"},
		"another image": {`{"spec":{"template":{"$patch":"replace","metadata":{"annotations":{"a":"b"},"labels":{"app":"web"}},` +
			`"spec":{"containers":[{"image":"web:0","name":"c"}]}}}}`, "7=web:0 8=web:1", "web-0=web:1"},
		"nothing":            {`{}`, "7= 8=web:1", "web-0=web:1"},
		"more":               {`{"spec":{"replicas":3,"template":{"$patch":"replace"}}}`, "7= 8=web:1", "web-0=web:1"},
		"more beside":        {`{"metadata":{},"spec":{"template":{"$patch":"replace"}}}`, "7= 8=web:1", "web-0=web:1"},
		"another patch":      {`{"spec":{"template":{"spec":{}}}}`, "7= 8=web:1", "web-0=web:1"},
		"no template at all": {`{"spec":{"template":{"spec":7}}}`, "7= 8=web:1", "web-0=web:1"},
		"no object":          {`{"spec":7}`, "7= 8=web:1", "web-0=web:1"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "ns", Labels: app()}, Revision: 7}
				r.Data.Raw = []byte(tt.data)
				create(b, r)
				create(b, web(1))
				b.after(time.Minute)
				b.wantHistory(tt.history)
				b.wantPods(tt.pods)
			})
		})
	}
	stored := func(set *appsv1.StatefulSet) { set.Status.CurrentRevision = "old" }
	run(t, &bench{stored: stored}, func(b *bench) {
		r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "ns", Labels: app()}, Revision: 7}
		r.Data.Raw = []byte(`{}`)
		create(b, r)
		create(b, web(1))
		b.after(time.Minute)
		b.wantPods("")
	})
}
