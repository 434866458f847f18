package statefulset_test

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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/statefulset"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

// bench is a controller and its API, in a bubble.
type bench struct {
	*testing.T
	api    *controllerstest.API
	sets   *lag.Source[*appsv1.StatefulSet]
	pods   *lag.Source[*corev1.Pod]
	claims *lag.Source[*corev1.PersistentVolumeClaim]
	events controllerstest.Recorder
	// stored, when set, changes the sets on their way to the controller into what validation does not let in today.
	stored func(*appsv1.StatefulSet)
	// Of the controller: what it asks, if not the API itself, and where failures are logged.
	client *trial.Client
	log    *slog.Logger
	// broken are pods that never become ready.
	broken func(*corev1.Pod) bool
	// unlimited does many pods at once.
	unlimited bool
}

func sets() schema.GroupVersionResource {
	return appsv1.SchemeGroupVersion.WithResource("statefulsets")
}

func claims() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
}

func revisions() schema.GroupVersionResource {
	return appsv1.SchemeGroupVersion.WithResource("controllerrevisions")
}

// inBubble runs test against a running controller.
func inBubble(t *testing.T, test func(*bench)) { run(t, &bench{}, test) }

func run(t *testing.T, b *bench, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in, c := b.controller(t)
		controllerstest.Go(t, in.StatefulSets, in.Pods, in.Claims, in.Revisions, controllers.NewLoop(c, controllers.Options{Logger: b.log}))
		synctest.Wait()
		test(b)
	})
}

// controller makes the API, and a controller that does not run yet.
func (b *bench) controller(t *testing.T) (statefulset.Sources, *statefulset.Controller) {
	b.T = t
	b.api = controllerstest.Start(t, controllerstest.Options{})
	b.sets, b.pods = controllerstest.Source[*appsv1.StatefulSet](b.api, sets()), controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods())
	b.claims = controllerstest.Source[*corev1.PersistentVolumeClaim](b.api, claims())
	var seen informer.Source[*appsv1.StatefulSet] = b.sets
	if b.stored != nil {
		seen = informer.Transform(seen, func(set *appsv1.StatefulSet) (*appsv1.StatefulSet, error) {
			set = set.DeepCopy()
			b.stored(set)
			return set, nil
		}, nil)
	}
	strict := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
	in := statefulset.Sources{
		StatefulSets: informer.New(seen, strict), Pods: informer.New(b.pods, strict), Claims: informer.New(b.claims, strict),
		Revisions: informer.New(controllerstest.Source[*appsv1.ControllerRevision](b.api, revisions()), strict),
	}
	var asked statefulset.Client = b.api
	if b.client != nil {
		b.client.Client = b.api
		asked = b.client
	}
	o := statefulset.Options{Parallel: 1}
	if b.unlimited {
		o.Parallel = 0
	}
	return in, statefulset.New(in, asked, &b.events, o)
}

// node runs the pods from now on: each is ready after a second, and gone a second after its deletion.
func (b *bench) node() {
	controllerstest.Go(b, &controllerstest.Node{API: b.api, Start: time.Second, Stop: time.Second, Broken: b.broken})
	synctest.Wait()
}

// after lets virtual time pass.
func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// web is a set with the image web:1, changed by the functions.
func web(replicas int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "service",
			Selector: &metav1.LabelSelector{MatchLabels: app()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app(), Annotations: map[string]string{"a": "b"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}},
			},
		},
	}
	for _, f := range change {
		f(set)
	}
	return set
}

func app() map[string]string { return map[string]string{"app": "web"} }

func parallel(set *appsv1.StatefulSet) { set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func onDelete(set *appsv1.StatefulSet) {
	set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
}

func rolling(partition int32, unavailable string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{
			Partition: &partition, MaxUnavailable: new(intstr.Parse(unavailable)),
		}
	}
}

// withClaims adds templates of claims with these names.
func withClaims(names ...string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		for _, name := range names {
			set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": name}, Annotations: map[string]string{"c": "d"}},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			})
		}
	}
}

// keeping sets the retention policy: what becomes of claims when the set is deleted and when it is scaled.
func keeping(whenDeleted, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: whenDeleted, WhenScaled: whenScaled,
		}
	}
}

func image(image string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}

func at(resource schema.GroupVersionResource, name string) client.Target {
	return client.Target{Resource: resource, Namespace: "ns", Name: name}
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
	obj := get[T](b, t)
	change(obj)
	if _, err := b.api.Others.Update(b.Context(), t, obj, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func get[T informer.Object](b *bench, t client.Target) T {
	b.Helper()
	obj, err := client.As[T](b.api.Others.Get(b.Context(), t))
	if err != nil {
		b.Fatal(err)
	}
	return obj.DeepCopyObject().(T)
}

// remove deletes an object, as another than the controller, and lets the controller see it.
func (b *bench) remove(t client.Target, o metav1.DeleteOptions) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), t, o); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// change changes the set.
func (b *bench) change(change func(*appsv1.StatefulSet)) {
	b.Helper()
	update(b, at(sets(), "web"), change)
}

func (b *bench) scale(replicas int32) {
	b.Helper()
	b.change(func(set *appsv1.StatefulSet) { set.Spec.Replicas = &replicas })
}

func (b *bench) set() *appsv1.StatefulSet {
	b.Helper()
	return get[*appsv1.StatefulSet](b, at(sets(), "web"))
}

// setPhase changes the phase of a pod.
func (b *bench) setPhase(name string, phase corev1.PodPhase) {
	b.Helper()
	t := at(controllerstest.Pods(), name)
	t.Subresource = "status"
	update(b, t, func(pod *corev1.Pod) { pod.Status.Phase = phase })
}

func (b *bench) history() []appsv1.ControllerRevision {
	b.Helper()
	list, err := client.As[*appsv1.ControllerRevisionList](b.api.Others.List(b.Context(), at(revisions(), ""), metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

func (b *bench) podList() []corev1.Pod {
	b.Helper()
	list, err := client.As[*corev1.PodList](b.api.Others.List(b.Context(), at(controllerstest.Pods(), ""), metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	return list.Items
}

func (b *bench) claimList() []corev1.PersistentVolumeClaim {
	b.Helper()
	list, err := client.As[*corev1.PersistentVolumeClaimList](b.api.Others.List(b.Context(), at(claims(), ""), metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	return list.Items
}

// wantPods compares the pods: each with its image, "+" if it is ready and "-" if it is being deleted.
func (b *bench) wantPods(want string) {
	b.Helper()
	var got []string
	for _, pod := range b.podList() {
		text := pod.Name + "=" + pod.Spec.Containers[0].Image
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				text += "+"
			}
		}
		if pod.DeletionTimestamp != nil {
			text += "-"
		}
		got = append(got, text)
	}
	if strings.Join(got, " ") != want {
		b.Errorf("pods:\n got %s\nwant %s", strings.Join(got, " "), want)
	}
}

// wantStatus compares the status, with revisions as the images in them.
func (b *bench) wantStatus(want string) {
	b.Helper()
	s := b.set().Status
	images := map[string]string{}
	for _, r := range b.history() {
		_, rest, _ := strings.Cut(string(r.Data.Raw), `"image":"`)
		images[r.Name], _, _ = strings.Cut(rest, `"`)
	}
	got := fmt.Sprintf("replicas %d ready %d available %d current %d %s updated %d %s observed %d",
		s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, images[s.CurrentRevision],
		s.UpdatedReplicas, images[s.UpdateRevision], s.ObservedGeneration)
	if got != want {
		b.Errorf("status:\n got %s\nwant %s", got, want)
	}
}

// wantHistory compares the revisions, as their numbers and images.
func (b *bench) wantHistory(want string) {
	b.Helper()
	var got []string
	for _, r := range b.history() {
		_, rest, _ := strings.Cut(string(r.Data.Raw), `"image":"`)
		image, _, _ := strings.Cut(rest, `"`)
		got = append(got, fmt.Sprintf("%d=%s", r.Revision, image))
	}
	if strings.Join(got, " ") != want {
		b.Errorf("history %s, want %s", strings.Join(got, " "), want)
	}
}

// wantClaims compares the claims and their owners.
func (b *bench) wantClaims(want string) {
	b.Helper()
	var got []string
	for _, c := range b.claimList() {
		text := c.Name
		for _, ref := range c.OwnerReferences {
			text += "<" + ref.Kind + "/" + ref.Name
			if ref.Controller == nil || !*ref.Controller {
				text += "?"
			}
		}
		got = append(got, text)
	}
	if strings.Join(got, " ") != want {
		b.Errorf("claims:\n got %s\nwant %s", strings.Join(got, " "), want)
	}
}

// wantEvents compares the events since it was last called, without their repetitions, sorted.
func (b *bench) wantEvents(want ...string) {
	b.Helper()
	got := b.events.Take()
	slices.Sort(got)
	slices.Sort(want)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		b.Errorf("events:\n got %q\nwant %q", got, want)
	}
}
