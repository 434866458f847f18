package replicaset_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/replicaset"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// bench is a running controller with a server, in a bubble.
type bench struct {
	*testing.T
	api    *fakeapi.Server
	pods   *fakeapi.Feed[*corev1.Pod]
	events fakeapi.Recorder
	sets   *fakeapi.Feed[*appsv1.ReplicaSet]
	// Of the controller: what it asks, if not the server itself, and where failures are logged.
	client *trial.Client
	log    *slog.Logger
}

var sets = appsv1.SchemeGroupVersion.WithResource("replicasets")

// inBubble runs test against a controller; more runs beside it.
func inBubble(t *testing.T, o fakeapi.Options, more func(*fakeapi.Server) lifecycle.Runnable, test func(*bench)) {
	run(t, &bench{}, o, more, test)
}

func run(t *testing.T, b *bench, o fakeapi.Options, more func(*fakeapi.Server) lifecycle.Runnable, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b.T, b.api = t, fakeapi.New(o)
		var asked replicaset.Client = b.api
		if b.client != nil {
			b.client.Client = b.api
			asked = b.client
		}
		b.sets = fakeapi.Source[*appsv1.ReplicaSet](b.api, sets)
		b.pods = fakeapi.Source[*corev1.Pod](b.api, fakeapi.Pods)
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := replicaset.Sources{
			ReplicaSets: informer.New(b.sets, detect),
			Pods:        informer.New(b.pods, detect),
		}
		c := replicaset.New(in, asked, &b.events, replicaset.Options{Parallel: 1})
		all := []lifecycle.Runnable{in.ReplicaSets, in.Pods, controllers.NewLoop(c, controllers.Options{Logger: b.log})}
		if more != nil {
			all = append(all, more(b.api))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- lifecycle.Group(all...).Run(ctx) }()
		synctest.Wait()
		test(b)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// after lets virtual time pass.
func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": name}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"a": "b"}, Finalizers: []string{"f/g"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

func (b *bench) create(resource schema.GroupVersionResource, obj runtime.Object) runtime.Object {
	b.Helper()
	out, err := b.api.Create(b.Context(), client.Target{Resource: resource, Namespace: "ns"}, obj, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
	return out
}

func (b *bench) set(name string) *appsv1.ReplicaSet {
	b.Helper()
	out, err := b.api.Get(b.Context(), client.Target{Resource: sets, Namespace: "ns", Name: name})
	if err != nil {
		b.Fatal(err)
	}
	return out.(*appsv1.ReplicaSet)
}

func (b *bench) scale(name string, replicas int32) {
	b.Helper()
	set := b.set(name)
	set.Spec.Replicas = &replicas
	if _, err := b.api.Update(b.Context(), client.Target{Resource: sets, Namespace: "ns", Name: name}, set, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) list() []corev1.Pod {
	b.Helper()
	out, err := b.api.List(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns"}, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return out.(*corev1.PodList).Items
}

func (b *bench) wantEvents(want ...string) {
	b.Helper()
	if got := b.events.Take(); !slices.Equal(got, want) {
		b.Errorf("events:\n got %q\nwant %q", got, want)
	}
}

func (b *bench) wantStatus(name, want string) {
	b.Helper()
	s := b.set(name).Status
	got := fmt.Sprintf("replicas %d labeled %d ready %d available %d terminating %d observed %d",
		s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas, *s.TerminatingReplicas, s.ObservedGeneration)
	if got != want {
		b.Errorf("status of %s:\n got %s\nwant %s", name, got, want)
	}
}

func TestCreatesPodsFromTemplate(t *testing.T) {
	inBubble(t, fakeapi.Options{}, nil, func(b *bench) {
		set := b.create(sets, replicaSet("web", 2)).(*appsv1.ReplicaSet)
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
	node := func(s *fakeapi.Server) lifecycle.Runnable {
		return &fakeapi.Node{Server: s, Start: time.Second, Stop: 10 * time.Second}
	}
	inBubble(t, fakeapi.Options{}, node, func(b *bench) {
		web := replicaSet("web", 3)
		web.Spec.Template.Finalizers = nil
		b.create(sets, web)
		b.after(2 * time.Second)
		b.wantStatus("web", "replicas 3 labeled 3 ready 3 available 3 terminating 0 observed 1")
		b.events.Take()

		// A pod being deleted is replaced before it has ended.
		if err := b.api.Delete(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: "web-00002"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
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
	var left atomic.Int32
	left.Store(5)
	quota := fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Verb != fakeapi.Create || a.Target.Resource != fakeapi.Pods {
			return nil
		}
		if left.Add(-1) < 0 {
			return errors.New("quota")
		}
		return nil
	}}
	inBubble(t, quota, nil, func(b *bench) {
		b.create(sets, replicaSet("web", 100))
		tried := 0
		for _, a := range b.api.Actions() {
			if a.Target.Subresource == "status" {
				break // the first look ends here; each pod it made brings about another
			}
			if a.Verb == fakeapi.Create && a.Target.Resource == fakeapi.Pods {
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
		left.Store(1000)
		b.after(time.Minute)
		b.wantStatus("web", "replicas 100 labeled 100 ready 0 available 0 terminating 0 observed 1")
		if c := b.set("web").Status.Conditions; len(c) != 0 {
			b.Errorf("conditions %+v", c)
		}
	})
}

func TestBurst(t *testing.T) {
	inBubble(t, fakeapi.Options{}, nil, func(b *bench) {
		b.pods.Hold()
		b.create(sets, replicaSet("web", 1200))
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
	inBubble(t, fakeapi.Options{}, nil, func(b *bench) {
		b.pods.Hold()
		b.create(sets, replicaSet("web", 3))
		for range 5 { // whatever else happens to it
			set := b.set("web")
			set.Labels = map[string]string{"n": set.ResourceVersion}
			if _, err := b.api.Update(b.Context(), client.Target{Resource: sets, Namespace: "ns", Name: "web"}, set, metav1.UpdateOptions{}); err != nil {
				b.Fatal(err)
			}
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
	inBubble(t, fakeapi.Options{}, nil, func(b *bench) {
		b.pods.Hold()
		b.create(sets, replicaSet("web", 1))
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
	node := func(s *fakeapi.Server) lifecycle.Runnable { return &fakeapi.Node{Server: s, Start: time.Second} }
	inBubble(t, fakeapi.Options{}, node, func(b *bench) {
		web := replicaSet("web", 2)
		web.Spec.MinReadySeconds = 30
		b.create(sets, web)
		b.after(30 * time.Second)
		b.wantStatus("web", "replicas 2 labeled 2 ready 2 available 0 terminating 0 observed 1")
		b.after(2 * time.Second)
		b.wantStatus("web", "replicas 2 labeled 2 ready 2 available 2 terminating 0 observed 1")
	})
}

func orphan(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func TestAdoptsAndReleases(t *testing.T) {
	inBubble(t, fakeapi.Options{}, nil, func(b *bench) {
		b.create(fakeapi.Pods, orphan("mine", map[string]string{"app": "web"}))
		b.create(fakeapi.Pods, orphan("other", map[string]string{"app": "other"}))
		set := b.create(sets, replicaSet("web", 1)).(*appsv1.ReplicaSet)
		pods := b.list()
		if len(pods) != 2 || metav1.GetControllerOf(&pods[0]).UID != set.UID || len(pods[1].OwnerReferences) != 0 {
			b.Fatalf("pods %+v", pods)
		}
		var patches []string
		for _, a := range b.api.Actions() {
			if a.Verb == fakeapi.Patch {
				patches = append(patches, string(a.Patch))
			}
		}
		adopt := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"%s","controller":true,"blockOwnerDeletion":true}],"uid":"%s"}}`, set.UID, pods[0].UID)
		if !slices.Equal(patches, []string{adopt}) {
			b.Errorf("patches %q, want %q", patches, adopt)
		}
		// Relabelled, the pod is let go and replaced; an orphan that appears is taken.
		mine := &pods[0]
		mine.Labels = nil
		if _, err := b.api.Update(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: "mine"}, mine, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.after(time.Second)
		pods = b.list()
		if len(pods) != 3 || len(pods[0].OwnerReferences) != 0 || pods[2].GenerateName != "web-" {
			b.Errorf("pods %+v", pods)
		}
		release := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"%s"}],"uid":"%s"}}`, set.UID, mine.UID)
		if a := b.api.Actions(); !slices.ContainsFunc(a, func(a fakeapi.Action) bool { return string(a.Patch) == release }) {
			b.Errorf("no patch %s", release)
		}
		b.events.Take()
		b.create(fakeapi.Pods, orphan("late", map[string]string{"app": "web"}))
		b.wantEvents("Normal SuccessfulDelete Deleted pod: late") // one too many, the youngest
	})
}

func TestOneOfRacingParentsWins(t *testing.T) {
	var api *fakeapi.Server
	var raced atomic.Bool
	race := fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Verb != fakeapi.Patch || raced.Load() {
			return nil
		}
		raced.Store(true) // another controller gets in first
		_, err := api.Patch(context.Background(), a.Target, client.Patch{Type: types.StrategicMergePatchType, Data: []byte(
			`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rival","uid":"rival","controller":true}]}}`)}, metav1.PatchOptions{})
		return err
	}}
	inBubble(t, race, func(s *fakeapi.Server) lifecycle.Runnable {
		api = s
		return lifecycle.Func(func(context.Context) error { return nil })
	}, func(b *bench) {
		b.create(fakeapi.Pods, orphan("pod", map[string]string{"app": "web"}))
		b.create(sets, replicaSet("web", 1))
		b.after(time.Second)
		pods := b.list()
		if len(pods) != 2 || metav1.GetControllerOf(&pods[0]).Name != "rival" || metav1.GetControllerOf(&pods[1]).Name != "web" {
			b.Errorf("pods %+v", pods)
		}
	})
}

func TestDeletedOwnerDoesNotAdopt(t *testing.T) {
	var held *fakeapi.Server
	// The cache still has the set; the server has it marked as deleted.
	stale := fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Get && a.Target.Resource == sets && held != nil {
			s := held
			held = nil
			return s.Delete(context.Background(), a.Target, metav1.DeleteOptions{})
		}
		return nil
	}}
	inBubble(t, stale, func(s *fakeapi.Server) lifecycle.Runnable {
		held = s
		return lifecycle.Func(func(context.Context) error { return nil })
	}, func(b *bench) {
		b.create(fakeapi.Pods, orphan("pod", map[string]string{"app": "web"}))
		web := replicaSet("web", 1)
		web.Finalizers = []string{"x/y"}
		b.create(sets, web)
		b.after(time.Minute)
		pods := b.list()
		if len(pods) != 1 || len(pods[0].OwnerReferences) != 0 {
			b.Errorf("pods %+v", pods)
		}
		b.wantEvents()
	})
}

func TestFailedDelete(t *testing.T) {
	var fail atomic.Bool
	fail.Store(true)
	inBubble(t, fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Delete && fail.Load() {
			return errors.New("no")
		}
		return nil
	}}, nil, func(b *bench) {
		b.create(sets, replicaSet("web", 1))
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
		fail.Store(false)
		b.after(time.Minute)
		b.wantEvents("Normal SuccessfulDelete Deleted pod: web-00001")
	})
}

func TestStatusConflictIsTriedOnceMore(t *testing.T) {
	var api *fakeapi.Server
	var interfere atomic.Bool
	interfere.Store(true)
	inBubble(t, fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Verb != fakeapi.Update || a.Target.Subresource != "status" || !interfere.Load() {
			return nil
		}
		interfere.Store(false)
		_, err := api.Patch(context.Background(), client.Target{Resource: sets, Namespace: "ns", Name: "web"},
			client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"labels":{"x":"y"}}}`)}, metav1.PatchOptions{})
		return err
	}}, func(s *fakeapi.Server) lifecycle.Runnable {
		api = s
		return lifecycle.Func(func(context.Context) error { return nil })
	}, func(b *bench) {
		b.create(sets, replicaSet("web", 1))
		if got := b.set("web"); got.Status.ObservedGeneration != 1 || got.Labels["x"] != "y" {
			b.Errorf("set %+v", got)
		}
	})
}

func TestActsAsItsServiceAccountMay(t *testing.T) {
	node := func(s *fakeapi.Server) lifecycle.Runnable { return &fakeapi.Node{Server: s} }
	allowed := []string{"create pods", "delete pods", "patch pods", "update replicasets/status", "get replicasets"}
	inBubble(t, fakeapi.Options{Before: func(a fakeapi.Action) error {
		what, _, _ := strings.Cut(a.String(), " ns/")
		if slices.Contains(allowed, what) || slices.Contains([]string{"create replicasets", "update replicasets", "get pods", "create pods/binding", "update pods/status", "list pods "}, what) {
			return nil // the controller's, the test's and the node's
		}
		return fmt.Errorf("forbidden: %s", what)
	}}, node, func(b *bench) {
		b.create(fakeapi.Pods, orphan("pod", map[string]string{"app": "web"}))
		b.create(sets, replicaSet("web", 3))
		b.after(time.Second)
		b.scale("web", 1)
		b.after(time.Second)
		for _, e := range b.events.Take() {
			if strings.HasPrefix(e, "Warning") {
				b.Error(e)
			}
		}
		b.wantStatus("web", "replicas 1 labeled 1 ready 1 available 1 terminating 1 observed 2")
	})
}
