package deployment_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/deployment"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/replicaset"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

var (
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	replicaSets = appsv1.SchemeGroupVersion.WithResource("replicasets")
)

// bench is a deployment controller, a replicaset controller and a node that runs their pods.
type bench struct {
	*testing.T
	api    *controllerstest.API     // what the deployment controller asks
	beside *faults.Client           // what the replicaset controller asks
	events controllerstest.Recorder // of the deployment controller
	broken string                   // image whose pods never become ready
	batch  time.Duration            // of the loops
	feeds  feeds
	// stored, when set, changes the Deployments on their way to the controllers into what validation does not let in today.
	stored func(*appsv1.Deployment)
	// Of the deployment controller: what it asks, if not the API itself, and where failures are logged.
	client *trial.Client
	log    *slog.Logger
}

// feeds are what fills the caches.
type feeds struct {
	deployments *lag.Source[*appsv1.Deployment]
	sets        *lag.Source[*appsv1.ReplicaSet]
}

func inBubble(t *testing.T, test func(*bench)) {
	t.Helper()
	run(t, &bench{}, test)
}

func run(t *testing.T, b *bench, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in, d := b.controller(t)
		b.beside = faults.New(b.api.Others, faults.Options{})
		sets := replicaset.New(replicaset.Sources{ReplicaSets: in.ReplicaSets, Pods: in.Pods}, b.beside, &controllerstest.Recorder{}, replicaset.Options{Parallel: 1})
		node := &controllerstest.Node{API: b.api, Start: time.Second + b.batch/2, Stop: time.Second + b.batch/2, Broken: func(pod *corev1.Pod) bool {
			return pod.Spec.Containers[0].Image == b.broken
		}}
		controllerstest.Go(t, in.Deployments, in.ReplicaSets, in.Pods, node,
			controllers.NewLoop(d, controllers.Options{Batch: b.batch, Logger: b.log}), controllers.NewLoop(sets, controllers.Options{Batch: b.batch, Offset: time.Millisecond}))
		synctest.Wait()
		test(b)
	})
}

// controller makes the API, and a deployment controller that does not run yet.
func (b *bench) controller(t *testing.T) (deployment.Sources, *deployment.Controller) {
	b.T, b.api = t, controllerstest.Start(t, controllerstest.Options{})
	b.feeds = feeds{controllerstest.Source[*appsv1.Deployment](b.api, deployments), controllerstest.Source[*appsv1.ReplicaSet](b.api, replicaSets)}
	var seen informer.Source[*appsv1.Deployment] = b.feeds.deployments
	if b.stored != nil {
		seen = informer.Transform(seen, func(d *appsv1.Deployment) (*appsv1.Deployment, error) {
			d = d.DeepCopy()
			b.stored(d)
			return d, nil
		}, nil)
	}
	strict := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
	in := deployment.Sources{
		Deployments: informer.New(seen, strict),
		ReplicaSets: informer.New(b.feeds.sets, strict),
		Pods:        informer.New(controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods()), strict),
	}
	var asked deployment.Client = b.api
	if b.client != nil {
		b.client.Client = b.api
		asked = b.client
	}
	return in, deployment.New(in, asked, &b.events, deployment.Options{})
}

// selectingAll makes a Deployment one that selects all pods.
func selectingAll(d *appsv1.Deployment) { d.Spec.Selector = &metav1.LabelSelector{} }

func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func ptr[T any](v T) *T { return &v }

// web is a Deployment as the server would default it, but for its template.
func web(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	quarter := intstr.FromString("25%")
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter},
			},
			RevisionHistoryLimit:    ptr(int32(10)),
			ProgressDeadlineSeconds: ptr(int32(600)),
		},
	}
}

func target(resource schema.GroupVersionResource, name string) client.Target {
	return client.Target{Resource: resource, Namespace: "ns", Name: name}
}

// create adds an object and lets the controllers see it.
func create[T informer.Object](b *bench, obj T) T {
	b.Helper()
	synctest.Wait()
	made := controllerstest.Add(b, b.api, obj)
	synctest.Wait()
	return made
}

// update changes an object, as another than the controllers and once none of them is about to.
func update[T informer.Object](b *bench, t client.Target, change func(T)) {
	b.Helper()
	synctest.Wait()
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

// remove deletes an object, as another than the controllers.
func (b *bench) remove(t client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), t, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) deployment() *appsv1.Deployment {
	b.Helper()
	d, err := client.As[*appsv1.Deployment](b.api.Others.Get(b.Context(), target(deployments, "web")))
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// change updates the Deployment.
func (b *bench) change(change func(*appsv1.Deployment)) {
	b.Helper()
	update(b, target(deployments, "web"), change)
}

// removeOwner takes a set's owner away.
func (b *bench) removeOwner(set *appsv1.ReplicaSet) {
	b.Helper()
	update(b, target(replicaSets, set.Name), func(set *appsv1.ReplicaSet) { set.OwnerReferences = nil })
}

func (b *bench) image(image string) {
	b.Helper()
	b.change(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
}

// list returns all ReplicaSets.
func (b *bench) list() []appsv1.ReplicaSet {
	b.Helper()
	list, err := client.As[*appsv1.ReplicaSetList](b.api.Others.List(b.Context(), target(replicaSets, ""), metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	return list.Items
}

// sets returns the ReplicaSets by the image in their template.
func (b *bench) sets() map[string]*appsv1.ReplicaSet {
	b.Helper()
	out := map[string]*appsv1.ReplicaSet{}
	for _, set := range b.list() {
		out[set.Spec.Template.Spec.Containers[0].Image] = &set
	}
	return out
}

// sizes is "image=size/available" of all sets.
func (b *bench) sizes() string {
	b.Helper()
	sets := b.sets()
	var out []string
	for _, image := range slices.Sorted(maps.Keys(sets)) {
		out = append(out, fmt.Sprintf("%s=%d/%d", image, *sets[image].Spec.Replicas, sets[image].Status.AvailableReplicas))
	}
	return strings.Join(out, " ")
}

func (b *bench) wantSizes(want string) {
	b.Helper()
	if got := b.sizes(); got != want {
		b.Errorf("sets %q, want %q", got, want)
	}
}

// wantEvents compares the events since the last call; {v1} stands for the name of v1's set.
func (b *bench) wantEvents(want ...string) {
	b.Helper()
	for image, set := range b.sets() {
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], "{"+image+"}", set.Name)
		}
	}
	if got := b.events.Take(); !slices.Equal(got, want) {
		b.Errorf("events:\n got %q\nwant %q", got, want)
	}
}

// conditions is "Type=Status Reason: Message" by type.
func (b *bench) conditions() map[string]string {
	out := map[string]string{}
	for _, c := range b.deployment().Status.Conditions {
		out[string(c.Type)] = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
	return out
}

func (b *bench) wantCondition(kind, want string) {
	b.Helper()
	for image, set := range b.sets() {
		want = strings.ReplaceAll(want, "{"+image+"}", set.Name)
	}
	if got := b.conditions()[kind]; got != want {
		b.Errorf("%s: %q, want %q", kind, got, want)
	}
}

func (b *bench) wantStatus(want string) {
	b.Helper()
	s := b.deployment().Status
	got := fmt.Sprintf("replicas %d updated %d ready %d available %d unavailable %d terminating %d observed %d",
		s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas, *s.TerminatingReplicas, s.ObservedGeneration)
	if got != want {
		b.Errorf("status:\n got %s\nwant %s", got, want)
	}
}
