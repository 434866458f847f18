package deployment_test

import (
	"context"
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
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/deployment"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/replicaset"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

var (
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	replicaSets = appsv1.SchemeGroupVersion.WithResource("replicasets")
)

// bench is a deployment controller, a replicaset controller and a node that runs their pods.
type bench struct {
	*testing.T
	api    *fakeapi.Server
	events fakeapi.Recorder // of the deployment controller
	broken string           // image whose pods never become ready
	batch  time.Duration    // of the loops
	feeds  feeds
	// Of the deployment controller: what it asks, if not the server itself, and where failures are logged.
	client *trial.Client
	log    *slog.Logger
}

// feeds are what fills the caches.
type feeds struct {
	deployments *fakeapi.Feed[*appsv1.Deployment]
	sets        *fakeapi.Feed[*appsv1.ReplicaSet]
}

func inBubble(t *testing.T, o fakeapi.Options, test func(*bench)) {
	inBatches(t, o, 0, test)
}

func inBatches(t *testing.T, o fakeapi.Options, batch time.Duration, test func(*bench)) {
	run(t, o, &bench{batch: batch}, test)
}

func run(t *testing.T, o fakeapi.Options, b *bench, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b.T, b.api = t, fakeapi.New(o)
		b.feeds = feeds{fakeapi.Source[*appsv1.Deployment](b.api, deployments), fakeapi.Source[*appsv1.ReplicaSet](b.api, replicaSets)}
		var asked deployment.Client = b.api
		if b.client != nil {
			b.client.Client = b.api
			asked = b.client
		}
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := deployment.Sources{
			Deployments: informer.New(b.feeds.deployments, detect),
			ReplicaSets: informer.New(b.feeds.sets, detect),
			Pods:        informer.New(fakeapi.Source[*corev1.Pod](b.api, fakeapi.Pods), detect),
		}
		d := deployment.New(in, asked, &b.events, deployment.Options{})
		rs := replicaset.New(replicaset.Sources{ReplicaSets: in.ReplicaSets, Pods: in.Pods}, b.api, &fakeapi.Recorder{}, replicaset.Options{Parallel: 1})
		node := &fakeapi.Node{Server: b.api, Start: time.Second + b.batch/2, Stop: time.Second + b.batch/2, Broken: func(pod *corev1.Pod) bool {
			return pod.Spec.Containers[0].Image == b.broken
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- lifecycle.Group(in.Deployments, in.ReplicaSets, in.Pods, node,
				controllers.NewLoop(d, controllers.Options{Batch: b.batch, Logger: b.log}), controllers.NewLoop(rs, controllers.Options{Batch: b.batch, Offset: time.Millisecond})).Run(ctx)
		}()
		synctest.Wait()
		test(b)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func ptr[T any](v T) *T { return &v }

// web is a Deployment as the server would default it.
func web(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	quarter := intstr.FromString("25%")
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
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

func (b *bench) create(d *appsv1.Deployment) {
	b.Helper()
	synctest.Wait()
	if _, err := b.api.Create(b.Context(), target(deployments, ""), d, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) deployment() *appsv1.Deployment {
	b.Helper()
	out, err := b.api.Get(b.Context(), target(deployments, "web"))
	if err != nil {
		b.Fatal(err)
	}
	return out.(*appsv1.Deployment)
}

// change updates the Deployment, once nobody else is about to.
func (b *bench) change(change func(*appsv1.Deployment)) {
	b.Helper()
	synctest.Wait()
	d := b.deployment()
	change(d)
	if _, err := b.api.Update(b.Context(), target(deployments, "web"), d, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) image(image string) {
	b.Helper()
	b.change(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
}

// sets returns the ReplicaSets by the image in their template.
func (b *bench) sets() map[string]*appsv1.ReplicaSet {
	b.Helper()
	list, err := b.api.List(b.Context(), target(replicaSets, ""), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	out := map[string]*appsv1.ReplicaSet{}
	for _, set := range list.(*appsv1.ReplicaSetList).Items {
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
