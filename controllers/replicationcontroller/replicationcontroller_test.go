package replicationcontroller_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/replicationcontroller"
	"github.com/keelson-dev/keelson/informer"
)

func rcs() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource("replicationcontrollers")
}

// bench is a running controller and its API, in a bubble.
type bench struct {
	*testing.T
	api    *controllerstest.API
	events controllerstest.Recorder
}

func inBubble(t *testing.T, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{})}
		strict := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := replicationcontroller.Sources{
			ReplicationControllers: informer.New(controllerstest.Source[*corev1.ReplicationController](b.api, rcs()), strict),
			Pods:                   informer.New(controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods()), strict),
		}
		c := replicationcontroller.New(in, b.api, &b.events, replicationcontroller.Options{Parallel: 1})
		controllerstest.Go(t, in.ReplicationControllers, in.Pods, controllers.NewLoop(c, controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

func web(replicas int32) *corev1.ReplicationController {
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns"},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: &replicas, Selector: map[string]string{"app": "web"},
			Template: &corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "more": "x"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

func at(name string) client.Target {
	return client.Target{Resource: rcs(), Namespace: "ns", Name: name}
}

func podAt(name string) client.Target {
	return client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: name}
}

func create[T informer.Object](b *bench, obj T) T {
	b.Helper()
	made := controllerstest.Add(b, b.api, obj)
	synctest.Wait()
	return made
}

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

func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) scale(n int32) {
	b.Helper()
	update(b, at("web"), func(rc *corev1.ReplicationController) { rc.Spec.Replicas = &n })
}

func (b *bench) pods() []corev1.Pod {
	b.Helper()
	list, err := client.As[*corev1.PodList](b.api.Others.List(b.Context(), podAt(""), metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	return list.Items
}

func (b *bench) status() corev1.ReplicationControllerStatus {
	b.Helper()
	rc, err := client.As[*corev1.ReplicationController](b.api.Others.Get(b.Context(), at("web")))
	if err != nil {
		b.Fatal(err)
	}
	return rc.Status
}

func (b *bench) wantStatus(want string) {
	b.Helper()
	s := b.status()
	got := fmt.Sprintf("replicas %d labeled %d ready %d available %d observed %d",
		s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas, s.ObservedGeneration)
	if got != want {
		b.Errorf("status:\n got %s\nwant %s", got, want)
	}
}

func TestPods(t *testing.T) {
	inBubble(t, func(b *bench) {
		rc := create(b, web(2))
		pods := b.pods()
		if len(pods) != 2 {
			b.Fatalf("%d pods", len(pods))
		}
		for _, pod := range pods {
			ref := pod.OwnerReferences[0]
			if pod.GenerateName != "web-" || pod.Labels["more"] != "x" || pod.Spec.Containers[0].Image != "i" ||
				ref.APIVersion != "v1" || ref.Kind != "ReplicationController" || ref.UID != rc.UID || !*ref.Controller || !*ref.BlockOwnerDeletion {
				b.Errorf("pod %+v", pod)
			}
		}
		b.wantStatus("replicas 2 labeled 2 ready 0 available 0 observed 1")
		for _, e := range b.events.Events() {
			if e.Regarding.Kind != "ReplicationController" || e.Regarding.APIVersion != "v1" || e.Regarding.Name != "web" || e.Reason != "SuccessfulCreate" {
				b.Errorf("event %+v", e)
			}
		}
	})
}

func TestScales(t *testing.T) {
	inBubble(t, func(b *bench) {
		controllerstest.Go(b, &controllerstest.Node{API: b.api, Start: time.Second, Stop: 10 * time.Second})
		create(b, web(3))
		b.after(2 * time.Second)
		b.wantStatus("replicas 3 labeled 3 ready 3 available 3 observed 1")
		b.scale(1)
		b.wantStatus("replicas 1 labeled 1 ready 1 available 1 observed 2")
		b.after(time.Minute)
		if got := len(b.pods()); got != 1 {
			b.Errorf("%d pods", got)
		}
		b.api.Reset()
		b.after(time.Hour)
		if got := b.api.Writes(); len(got) != 0 {
			b.Errorf("idle, it writes %v", got)
		}
	})
}

func TestAdoptsAndReleases(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stray", Namespace: "ns", Labels: map[string]string{"app": "web"}}})
		rc := create(b, web(1))
		if pods := b.pods(); len(pods) != 1 || !metav1.IsControlledBy(&pods[0], rc) {
			b.Fatalf("pods %+v", pods)
		}
		b.wantStatus("replicas 1 labeled 0 ready 0 available 0 observed 1")
		update(b, podAt("stray"), func(pod *corev1.Pod) { pod.Labels = nil })
		for _, pod := range b.pods() {
			if own := metav1.IsControlledBy(&pod, rc); own != (pod.Name != "stray") {
				b.Errorf("%s is controlled: %t", pod.Name, own)
			}
		}
		b.wantStatus("replicas 1 labeled 1 ready 0 available 0 observed 1")
	})
}

// TestFailure: the condition says why pods are missing until they are not; the conditions of others stay.
func TestFailure(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, web(0))
		other := corev1.ReplicationControllerCondition{Type: "Other", Status: corev1.ConditionTrue, Reason: "R", Message: "m"}
		status := at("web")
		status.Subresource = "status"
		update(b, status, func(rc *corev1.ReplicationController) { rc.Status.Conditions = append(rc.Status.Conditions, other) })
		b.api.Inject(faults.Fault{Verb: faults.Create, Times: -1, Err: errors.New("quota")})
		b.scale(1)
		c := b.status().Conditions
		if len(c) != 2 || c[0] != other || c[1].Type != corev1.ReplicationControllerReplicaFailure || c[1].Status != corev1.ConditionTrue ||
			c[1].Reason != "FailedCreate" || c[1].Message != "quota" || c[1].LastTransitionTime.IsZero() {
			b.Errorf("conditions %+v", c)
		}
		b.api.Heal()
		b.after(time.Minute)
		if c := b.status().Conditions; !slices.Equal(c, []corev1.ReplicationControllerCondition{other}) {
			b.Errorf("conditions %+v", c)
		}
		b.wantStatus("replicas 1 labeled 1 ready 0 available 0 observed 2")
	})
}

func TestMinReadySeconds(t *testing.T) {
	inBubble(t, func(b *bench) {
		controllerstest.Go(b, &controllerstest.Node{API: b.api, Start: time.Second})
		rc := web(1)
		rc.Spec.MinReadySeconds = 30
		create(b, rc)
		b.after(30 * time.Second)
		b.wantStatus("replicas 1 labeled 1 ready 1 available 0 observed 1")
		b.after(2 * time.Second)
		b.wantStatus("replicas 1 labeled 1 ready 1 available 1 observed 1")
	})
}

func TestActsAsItsServiceAccountMay(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stray", Namespace: "ns", Labels: map[string]string{"app": "web"}}})
		create(b, web(3))
		b.scale(1)
		allowed := []string{"create pods", "delete pods", "patch pods", "update replicationcontrollers/status", "get replicationcontrollers"}
		for _, r := range b.api.Requests() {
			if what, _, _ := strings.Cut(r.String(), " ns/"); !slices.Contains(allowed, what) {
				b.Errorf("forbidden: %s", r)
			}
		}
	})
}
