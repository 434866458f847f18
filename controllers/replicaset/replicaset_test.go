package replicaset_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
)

func TestCreatesPodsFromTemplate(t *testing.T) {
	inBubble(t, func(b *bench) {
		set := create(b, replicaSet("web", 2))
		pods := b.list()
		if len(pods) != 2 {
			b.Fatalf("%d pods", len(pods))
		}
		yes := true
		want := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: set.UID, Controller: &yes, BlockOwnerDeletion: &yes}
		got := pods[0]
		if got.GenerateName != "web-" || len(got.OwnerReferences) != 1 || *got.OwnerReferences[0].Controller != true ||
			*got.OwnerReferences[0].BlockOwnerDeletion != true || got.OwnerReferences[0].UID != want.UID || got.OwnerReferences[0].Kind != want.Kind ||
			got.Labels["app"] != "web" || got.Annotations["a"] != "b" || !slices.Equal(got.Finalizers, []string{"f/g"}) || got.Spec.Containers[0].Image != "i" {
			b.Errorf("pod %+v", got)
		}
		b.wantStatus("web", "replicas 2 labeled 2 ready 0 available 0 terminating 0 observed 1")
		b.wantEvents("Normal SuccessfulCreate Created pod: web-00001", "Normal SuccessfulCreate Created pod: web-00002")
	})
}

func TestReplacesAndScalesDown(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node(time.Second, 10*time.Second)
		create(b, web(3))
		b.after(2 * time.Second)
		b.wantStatus("web", "replicas 3 labeled 3 ready 3 available 3 terminating 0 observed 1")
		b.events.Take()

		// A pod being deleted is replaced before it has ended.
		b.remove(podAt("web-00002"))
		b.after(2 * time.Second)
		b.wantEvents("Normal SuccessfulCreate Created pod: web-00004")
		b.wantStatus("web", "replicas 3 labeled 3 ready 3 available 3 terminating 1 observed 1")
		b.after(15 * time.Second)
		b.wantStatus("web", "replicas 3 labeled 3 ready 3 available 3 terminating 0 observed 1")

		// All three are ready on one node. Ready for 16 s against 18 s (a power of two of
		// nanoseconds is between), the replacement goes first.
		b.scale("web", 2)
		b.wantEvents("Normal SuccessfulDelete Deleted pod: web-00004")
		b.scale("web", 0)
		b.after(20 * time.Second)
		if got := len(b.list()); got != 0 {
			b.Errorf("%d pods left", got)
		}
		b.wantStatus("web", "replicas 0 labeled 0 ready 0 available 0 terminating 0 observed 3")
	})
}

func TestSlowStartStopsAtFirstFailedBatch(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Create, Resource: "pods", Skip: 5, Times: -1, Err: errors.New("quota")})
		create(b, replicaSet("web", 100))
		tried := 0
		for _, r := range b.api.Writes() {
			if r.Target.Subresource == "status" {
				break // the first reconciliation ends here; each pod it made brings about another
			}
			if r.Verb == faults.Create {
				tried++
			}
		}
		// Batches of 1, 2 and 4; the last of them has two failures and there is no batch of 8.
		if tried != 7 {
			b.Errorf("%d pods tried, want 7", tried)
		}
		b.wantStatus("web", "replicas 5 labeled 5 ready 0 available 0 terminating 0 observed 1")
		c := b.set("web").Status.Conditions
		if len(c) != 1 || c[0].Type != appsv1.ReplicaSetReplicaFailure || c[0].Reason != "FailedCreate" || c[0].Message != "quota" || c[0].Status != corev1.ConditionTrue {
			b.Errorf("conditions %+v", c)
		}
		got := b.events.Take()
		if want := "Warning FailedCreate Error creating: quota"; got[4] != "Normal SuccessfulCreate Created pod: web-00005" || got[5] != want || got[6] != want {
			b.Errorf("events %q", got)
		}
		// Once there is quota again, the retries get through and the failure is gone.
		b.api.Heal()
		b.after(time.Minute)
		b.wantStatus("web", "replicas 100 labeled 100 ready 0 available 0 terminating 0 observed 1")
		if c := b.set("web").Status.Conditions; len(c) != 0 {
			b.Errorf("conditions %+v", c)
		}
	})
}

func TestBurst(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.pods.Hold()
		create(b, replicaSet("web", 1200))
		if got := len(b.list()); got != 500 {
			b.Errorf("%d pods before the cache shows any, want 500", got)
		}
		b.pods.Resume()
		b.after(time.Second)
		if got := len(b.list()); got != 1200 {
			b.Errorf("%d pods, want 1200", got)
		}
	})
}

func TestStaleCacheCreatesNothingTwice(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.pods.Hold()
		create(b, replicaSet("web", 3))
		for range 5 { // whatever else happens to it
			update(b, at("web"), func(set *appsv1.ReplicaSet) { set.Labels = map[string]string{"n": set.ResourceVersion} })
			b.after(time.Second)
		}
		if got := len(b.list()); got != 3 {
			b.Errorf("%d pods, want 3", got)
		}
		b.pods.Resume()
		b.after(time.Second)
		b.pods.Hold()
		b.scale("web", 1)
		b.scale("web", 0)
		b.after(time.Second)
		if got := len(b.list()); got != 3 { // their finalizer keeps them
			b.Errorf("%d pods, want 3", got)
		}
		marked := 0
		for _, pod := range b.list() {
			if pod.DeletionTimestamp != nil {
				marked++
			}
		}
		if marked != 2 {
			b.Errorf("%d pods deleted before the cache showed it, want 2", marked)
		}
		b.pods.Resume()
		b.after(time.Second)
		b.wantStatus("web", "replicas 0 labeled 0 ready 0 available 0 terminating 3 observed 3")
	})
}

func TestUnseenCreationIsForgottenAfterFiveMinutes(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.pods.Hold()
		create(b, replicaSet("web", 1))
		b.after(4 * time.Minute)
		if got := len(b.list()); got != 1 {
			b.Errorf("%d pods after four minutes, want 1", got)
		}
		b.after(2 * time.Minute)
		if got := len(b.list()); got != 2 {
			b.Errorf("%d pods after six minutes, want another one", got)
		}
		b.pods.Resume()
		b.after(time.Second)
		b.wantStatus("web", "replicas 1 labeled 1 ready 0 available 0 terminating 1 observed 1")
	})
}

func TestMinReadySeconds(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node(time.Second, 0)
		web := replicaSet("web", 2)
		web.Spec.MinReadySeconds = 30
		create(b, web)
		b.after(30 * time.Second)
		b.wantStatus("web", "replicas 2 labeled 2 ready 2 available 0 terminating 0 observed 1")
		b.after(2 * time.Second)
		b.wantStatus("web", "replicas 2 labeled 2 ready 2 available 2 terminating 0 observed 1")
	})
}

func TestAdoptsAndReleases(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, podWith("mine", app("web"), nil))
		create(b, podWith("other", app("other"), nil))
		set := create(b, replicaSet("web", 1))
		pods := b.list()
		if len(pods) != 2 || metav1.GetControllerOf(&pods[0]).UID != set.UID || len(pods[1].OwnerReferences) != 0 {
			b.Fatalf("pods %+v", pods)
		}
		var patches []string
		for _, r := range b.api.Writes() {
			if r.Verb == faults.Patch {
				patches = append(patches, string(r.Patch))
			}
		}
		adopt := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"%s","controller":true,"blockOwnerDeletion":true}],"uid":"%s"}}`, set.UID, pods[0].UID)
		if !slices.Equal(patches, []string{adopt}) {
			b.Errorf("patches %q, want %q", patches, adopt)
		}
		// Relabelled, the pod is let go and replaced; an orphan that appears is taken.
		update(b, podAt("mine"), func(p *corev1.Pod) { p.Labels = nil })
		b.after(time.Second)
		pods = b.list()
		if len(pods) != 3 || len(pods[0].OwnerReferences) != 0 || pods[2].GenerateName != "web-" {
			b.Errorf("pods %+v", pods)
		}
		release := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"%s"}],"uid":"%s"}}`, set.UID, pods[0].UID)
		if !slices.ContainsFunc(b.api.Writes(), func(r faults.Request) bool { return string(r.Patch) == release }) {
			b.Errorf("no patch %s", release)
		}
		b.events.Take()
		create(b, podWith("late", app("web"), nil))
		b.wantEvents("Normal SuccessfulDelete Deleted pod: late") // one too many, the youngest
	})
}

func TestOneOfRacingParentsWins(t *testing.T) {
	inBubble(t, func(b *bench) {
		raced := false
		b.before = func(r faults.Request) error {
			if r.Verb != faults.Patch || raced {
				return nil
			}
			raced = true // another controller gets in first
			_, err := b.api.Others.Patch(b.Context(), r.Target, client.Patch{Type: types.StrategicMergePatchType, Data: []byte(
				`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rival","uid":"rival","controller":true}]}}`)}, metav1.PatchOptions{})
			return err
		}
		create(b, podWith("pod", app("web"), nil))
		create(b, replicaSet("web", 1))
		b.after(time.Second)
		pods := b.list()
		if len(pods) != 2 || metav1.GetControllerOf(&pods[0]).Name != "rival" || metav1.GetControllerOf(&pods[1]).Name != "web" {
			b.Errorf("pods %+v", pods)
		}
	})
}

func TestDeletedOwnerDoesNotAdopt(t *testing.T) {
	inBubble(t, func(b *bench) {
		deleted := false
		b.before = func(r faults.Request) error { // the cache still has the set, which the server has marked as deleted
			if r.Verb != faults.Get || r.Target.Resource != sets || deleted {
				return nil
			}
			deleted = true
			return b.api.Others.Delete(b.Context(), r.Target, metav1.DeleteOptions{})
		}
		create(b, podWith("pod", app("web"), nil))
		web := replicaSet("web", 1)
		web.Finalizers = []string{"x/y"}
		create(b, web)
		b.after(time.Minute)
		pods := b.list()
		if len(pods) != 1 || len(pods[0].OwnerReferences) != 0 || !deleted {
			b.Errorf("pods %+v", pods)
		}
		b.wantEvents()
	})
}

func TestFailedDelete(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Delete, Times: -1, Err: errors.New("no")})
		create(b, replicaSet("web", 1))
		b.events.Take()
		b.scale("web", 0)
		for _, e := range b.events.Take() {
			if e != "Warning FailedDelete Error deleting: no" {
				b.Error(e)
			}
		}
		c := b.set("web").Status.Conditions
		if len(c) != 1 || c[0].Reason != "FailedDelete" || c[0].Message != "unable to delete pods: no" {
			b.Errorf("conditions %+v", c)
		}
		b.api.Heal()
		b.after(time.Minute)
		b.wantEvents("Normal SuccessfulDelete Deleted pod: web-00001")
	})
}

func TestStatusConflictIsTriedOnceMore(t *testing.T) {
	inBubble(t, func(b *bench) {
		interfered := false
		b.before = func(r faults.Request) error {
			if r.Verb != faults.Update || r.Target.Subresource != "status" || interfered {
				return nil
			}
			interfered = true
			_, err := b.api.Others.Patch(b.Context(), at("web"),
				client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"labels":{"x":"y"}}}`)}, metav1.PatchOptions{})
			return err
		}
		create(b, replicaSet("web", 1))
		if got := b.set("web"); got.Status.ObservedGeneration != 1 || got.Labels["x"] != "y" {
			b.Errorf("set %+v", got)
		}
	})
}

func TestActsAsItsServiceAccountMay(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node(0, 0)
		create(b, podWith("pod", app("web"), nil))
		create(b, replicaSet("web", 3))
		b.after(time.Second)
		b.scale("web", 1)
		b.after(time.Second)
		b.wantStatus("web", "replicas 1 labeled 1 ready 1 available 1 terminating 1 observed 2")
		allowed := []string{"create pods", "delete pods", "patch pods", "update replicasets/status", "get replicasets"}
		for _, r := range b.api.Requests() {
			if what, _, _ := strings.Cut(r.String(), " ns/"); !slices.Contains(allowed, what) {
				b.Errorf("forbidden: %s", r)
			}
		}
	})
}
