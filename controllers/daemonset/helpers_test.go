package daemonset_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/daemonset"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

func setResource() schema.GroupVersionResource {
	return appsv1.SchemeGroupVersion.WithResource("daemonsets")
}

func revisionResource() schema.GroupVersionResource {
	return appsv1.SchemeGroupVersion.WithResource("controllerrevisions")
}

func nodeResource() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource("nodes")
}

// bench is a controller and its API, in a bubble.
type bench struct {
	*testing.T
	api       *controllerstest.API
	sets      *lag.Source[*appsv1.DaemonSet]
	revisions *lag.Source[*appsv1.ControllerRevision]
	pods      *lag.Source[*corev1.Pod]
	events    controllerstest.Recorder
	// before, when set, sees the controller's requests before they are carried out.
	before func(faults.Request) error
	// stored, when set, changes the sets on their way to the controller into what validation does not let in today.
	stored func(*appsv1.DaemonSet)
	// reconcile, where nothing else does, reconciles the set and compares the error.
	reconcile func(want string)
	// Of the controller: what it asks, if not the API itself, and where failures are logged.
	client *trial.Client
	log    *slog.Logger
}

// inBubble runs test against a running controller.
func inBubble(t *testing.T, test func(*bench)) { run(t, &bench{}, test) }

func run(t *testing.T, b *bench, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in, c := b.controller(t, daemonset.Options{Parallel: 1})
		controllerstest.Go(t, in.DaemonSets, in.Revisions, in.Pods, in.Nodes, controllers.NewLoop(c, controllers.Options{Logger: b.log}))
		synctest.Wait()
		test(b)
	})
}

// controller makes the API, and a controller that does not run yet.
func (b *bench) controller(t *testing.T, o daemonset.Options) (daemonset.Sources, *daemonset.Controller) {
	b.T = t
	b.api = controllerstest.Start(t, controllerstest.Options{Before: func(r faults.Request) error {
		if b.before == nil {
			return nil
		}
		return b.before(r)
	}})
	b.sets = controllerstest.Source[*appsv1.DaemonSet](b.api, setResource())
	b.revisions = controllerstest.Source[*appsv1.ControllerRevision](b.api, revisionResource())
	b.pods = controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods())
	var seen informer.Source[*appsv1.DaemonSet] = b.sets
	if b.stored != nil {
		seen = informer.Transform(seen, func(set *appsv1.DaemonSet) (*appsv1.DaemonSet, error) {
			set = set.DeepCopy()
			b.stored(set)
			return set, nil
		}, nil)
	}
	strict := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
	in := daemonset.Sources{
		DaemonSets: informer.New(seen, strict), Revisions: informer.New(b.revisions, strict), Pods: informer.New(b.pods, strict),
		Nodes: informer.New(controllerstest.Source[*corev1.Node](b.api, nodeResource()), strict),
	}
	var asked daemonset.Client = b.api
	if b.client != nil {
		b.client.Client = b.api
		asked = b.client
	}
	return in, daemonset.New(in, asked, &b.events, o)
}

// kubelets run the pods from now on, each on the node it was made for.
func (b *bench) kubelets(start, stop time.Duration) {
	controllerstest.Go(b, &controllerstest.Node{API: b.api, Start: start, Stop: stop, Bind: func(pod *corev1.Pod) string {
		name, _ := daemonset.NodeOf(pod)
		return name
	}})
	synctest.Wait()
}

// after lets virtual time pass.
func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// nodes adds nodes.
func (b *bench) nodes(names ...string) {
	b.Helper()
	for _, name := range names {
		controllerstest.Add(b, b.api, nodeWith(name))
	}
	synctest.Wait()
}

// logs is a set with a pod on each node.
func logs(change ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "log", Namespace: "ns"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: app("log")},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app("log")},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "one"}}},
			},
		},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

// image changes the template.
func image(name string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.Containers[0].Image = name }
}

func app(name string) map[string]string { return map[string]string{"app": name} }

func at(name string) client.Target {
	return client.Target{Resource: setResource(), Namespace: "ns", Name: name}
}

func podAt(name string) client.Target {
	return client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: name}
}

func revisionAt(name string) client.Target {
	return client.Target{Resource: revisionResource(), Namespace: "ns", Name: name}
}

func nodeAt(name string) client.Target { return client.Target{Resource: nodeResource(), Name: name} }

func statusOf(t client.Target) client.Target {
	t.Subresource = "status"
	return t
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
	got := t
	got.Subresource = ""
	obj, err := client.As[T](b.api.Others.Get(b.Context(), got))
	if err != nil {
		b.Fatal(err)
	}
	obj = obj.DeepCopyObject().(T)
	change(obj)
	if _, err := b.api.Others.Update(b.Context(), t, obj, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// change changes the set.
func (b *bench) change(change func(*appsv1.DaemonSet)) {
	b.Helper()
	update(b, at("log"), change)
}

// remove deletes an object, as another than the controller, and lets the controller see it.
func (b *bench) remove(t client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), t, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) set() *appsv1.DaemonSet {
	b.Helper()
	set, err := client.As[*appsv1.DaemonSet](b.api.Others.Get(b.Context(), at("log")))
	if err != nil {
		b.Fatal(err)
	}
	return set
}

func (b *bench) list() []corev1.Pod {
	b.Helper()
	list, err := client.As[*corev1.PodList](b.api.Others.List(b.Context(), podAt(""), metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	return list.Items
}

// history returns the revisions by number.
func (b *bench) history() []appsv1.ControllerRevision {
	b.Helper()
	list, err := client.As[*appsv1.ControllerRevisionList](b.api.Others.List(b.Context(), revisionAt(""), metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	slices.SortFunc(list.Items, func(x, y appsv1.ControllerRevision) int { return int(x.Revision - y.Revision) })
	return list.Items
}

// where returns the pods that are not being deleted as "node image", sorted.
func (b *bench) where() string {
	b.Helper()
	var all []string
	for _, pod := range b.list() {
		if pod.DeletionTimestamp == nil {
			node, _ := daemonset.NodeOf(&pod)
			all = append(all, node+" "+pod.Spec.Containers[0].Image)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (b *bench) wantPods(want string) {
	b.Helper()
	if got := b.where(); got != want {
		b.Errorf("pods:\n got %s\nwant %s", got, want)
	}
}

func (b *bench) wantStatus(want string) {
	b.Helper()
	s := b.set().Status
	got := fmt.Sprintf("desired %d current %d misscheduled %d ready %d updated %d available %d unavailable %d observed %d",
		s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberMisscheduled, s.NumberReady, s.UpdatedNumberScheduled,
		s.NumberAvailable, s.NumberUnavailable, s.ObservedGeneration)
	if got != want {
		b.Errorf("status:\n got %s\nwant %s", got, want)
	}
}

// wantEvents compares the events since the last call, in any order.
func (b *bench) wantEvents(want ...string) {
	b.Helper()
	got := b.events.Take()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("events:\n got %q\nwant %q", got, want)
	}
}
