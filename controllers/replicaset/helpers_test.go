package replicaset_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/replicaset"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

// bench is a controller and its API, in a bubble.
type bench struct {
	*testing.T
	api    *controllerstest.API
	sets   *lag.Source[*appsv1.ReplicaSet]
	pods   *lag.Source[*corev1.Pod]
	events controllerstest.Recorder
	// before, when set, sees the controller's requests before they are carried out.
	before func(faults.Request) error
	// stored, when set, changes the sets on their way to the controller into what validation does not let in today.
	stored func(*appsv1.ReplicaSet)
	// Of the controller: what it asks, if not the API itself, and where failures are logged.
	client *trial.Client
	log    *slog.Logger
}

var sets = appsv1.SchemeGroupVersion.WithResource("replicasets")

// inBubble runs test against a running controller.
func inBubble(t *testing.T, test func(*bench)) { run(t, &bench{}, test) }

func run(t *testing.T, b *bench, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in, c := b.controller(t, replicaset.Options{Parallel: 1})
		controllerstest.Go(t, in.ReplicaSets, in.Pods, controllers.NewLoop(c, controllers.Options{Logger: b.log}))
		synctest.Wait()
		test(b)
	})
}

// controller makes the API, and a controller that does not run yet.
func (b *bench) controller(t *testing.T, o replicaset.Options) (replicaset.Sources, *replicaset.Controller) {
	b.T = t
	b.api = controllerstest.Start(t, controllerstest.Options{Before: func(r faults.Request) error {
		if b.before == nil {
			return nil
		}
		return b.before(r)
	}})
	b.sets, b.pods = controllerstest.Source[*appsv1.ReplicaSet](b.api, sets), controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods())
	var seen informer.Source[*appsv1.ReplicaSet] = b.sets
	if b.stored != nil {
		seen = informer.Transform(seen, func(set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
			set = set.DeepCopy()
			b.stored(set)
			return set, nil
		}, nil)
	}
	strict := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
	in := replicaset.Sources{ReplicaSets: informer.New(seen, strict), Pods: informer.New(b.pods, strict)}
	var asked replicaset.Client = b.api
	if b.client != nil {
		b.client.Client = b.api
		asked = b.client
	}
	return in, replicaset.New(in, asked, &b.events, o)
}

// node runs the pods from now on.
func (b *bench) node(start, stop time.Duration) {
	controllerstest.Go(b, &controllerstest.Node{API: b.api, Start: start, Stop: stop})
	synctest.Wait()
}

// after lets virtual time pass.
func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// replicaSet is one whose pods have a finalizer, so that those that are deleted remain.
func replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": name}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"},
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

// web is a set whose pods go at once when they are deleted.
func web(replicas int32) *appsv1.ReplicaSet {
	set := replicaSet("web", replicas)
	set.Spec.Template.Finalizers = nil
	return set
}

// podWith is a pod with these labels and this owner, if any.
func podWith(name string, labels map[string]string, owner *appsv1.ReplicaSet) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: labels}}
	own(pod, owner)
	return pod
}

func own(p *corev1.Pod, owner *appsv1.ReplicaSet) {
	p.OwnerReferences = nil
	if owner != nil {
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	}
}

func app(name string) map[string]string { return map[string]string{"app": name} }

func at(name string) client.Target { return client.Target{Resource: sets, Namespace: "ns", Name: name} }

func podAt(name string) client.Target {
	return client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: name}
}

// create adds an object and lets the controller see it.
func create[T informer.Object](b *bench, obj T) T {
	b.Helper()
	made := controllerstest.Add(b, b.api, obj)
	synctest.Wait()
	return made
}

// update changes an object, as another than the controller, and lets the controller see it.
func update[T informer.Object](b *bench, t client.Target, change func(T)) {
	b.Helper()
	obj, err := client.As[T](b.api.Others.Get(b.Context(), t))
	if err != nil {
		b.Fatal(err)
	}
	change(obj)
	if _, err := b.api.Others.Update(b.Context(), t, obj, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// remove deletes an object, as another than the controller, and lets the controller see it.
func (b *bench) remove(t client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), t, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) set(name string) *appsv1.ReplicaSet {
	b.Helper()
	set, err := client.As[*appsv1.ReplicaSet](b.api.Others.Get(b.Context(), at(name)))
	if err != nil {
		b.Fatal(err)
	}
	return set
}

func (b *bench) scale(name string, replicas int32) {
	b.Helper()
	update(b, at(name), func(set *appsv1.ReplicaSet) { set.Spec.Replicas = &replicas })
}

func (b *bench) list() []corev1.Pod {
	b.Helper()
	list, err := client.As[*corev1.PodList](b.api.Others.List(b.Context(), podAt(""), metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	return list.Items
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
