package statefulset_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/controllerstest"
)

// TestOrdered: one pod after another is created when all before it are ready, and deleted when all are.
func TestOrdered(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(3))
		b.wantPods("web-0=web:1")
		b.wantEvents("Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful")
		b.wantStatus("replicas 1 ready 0 available 0 current 1 web:1 updated 1 web:1 observed 1")
		b.after(1500 * time.Millisecond)
		b.wantPods("web-0=web:1+ web-1=web:1")
		b.after(time.Minute)
		b.wantPods("web-0=web:1+ web-1=web:1+ web-2=web:1+")
		b.wantStatus("replicas 3 ready 3 available 3 current 3 web:1 updated 3 web:1 observed 1")
		b.wantHistory("1=web:1")
		b.wantEvents(
			"Normal SuccessfulCreate Create Pod web-1 in StatefulSet web successful",
			"Normal SuccessfulCreate Create Pod web-2 in StatefulSet web successful")

		b.scale(1)
		b.wantPods("web-0=web:1+ web-1=web:1+ web-2=web:1+-")
		b.after(1500 * time.Millisecond)
		b.wantPods("web-0=web:1+ web-1=web:1+-")
		b.after(time.Minute)
		b.wantPods("web-0=web:1+")
		b.wantStatus("replicas 1 ready 1 available 1 current 1 web:1 updated 1 web:1 observed 2")
		b.wantEvents(
			"Normal SuccessfulDelete Delete Pod web-1 in StatefulSet web successful",
			"Normal SuccessfulDelete Delete Pod web-2 in StatefulSet web successful")
		b.scale(0)
		b.after(time.Minute)
		b.wantPods("")
	})
}

// TestIdentity: a pod is what the template says, under the names of its ordinal.
func TestIdentity(t *testing.T) {
	inBubble(t, func(b *bench) {
		set := create(b, web(1, withClaims("data", "log"), func(set *appsv1.StatefulSet) {
			set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
			set.Spec.Template.Finalizers = []string{"f/g"}
			set.Spec.Template.Spec.Hostname, set.Spec.Template.Spec.Subdomain = "x", "y"
			set.Spec.Template.Spec.Volumes = []corev1.Volume{
				{Name: "own", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "log", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			}
		}))
		pod := get[*corev1.Pod](b, at(controllerstest.Pods(), "web-5"))
		want := map[string]string{
			"app": "web", "statefulset.kubernetes.io/pod-name": "web-5", "apps.kubernetes.io/pod-index": "5",
			"controller-revision-hash": b.history()[0].Name,
		}
		if !reflect.DeepEqual(pod.Labels, want) {
			t.Errorf("labels %v", pod.Labels)
		}
		if pod.Spec.Hostname != "web-5" || pod.Spec.Subdomain != "service" || pod.Annotations["a"] != "b" || pod.GenerateName != "web-" || len(pod.Finalizers) != 1 {
			t.Errorf("pod %+v", pod)
		}
		if !metav1.IsControlledBy(pod, set) {
			t.Errorf("owners %v", pod.OwnerReferences)
		}
		var volumes []string
		for _, v := range pod.Spec.Volumes {
			text := v.Name
			if v.PersistentVolumeClaim != nil {
				text += ":" + v.PersistentVolumeClaim.ClaimName
			}
			volumes = append(volumes, text)
		}
		if got := fmt.Sprint(volumes); got != "[data:data-web-5 log:log-web-5 own]" {
			t.Errorf("volumes %s", got)
		}
		b.wantClaims("data-web-5 log-web-5")
		claim := b.claimList()[0]
		if !reflect.DeepEqual(claim.Labels, map[string]string{"app": "web", "of": "data"}) || claim.Annotations["c"] != "d" || claim.Spec.Resources.Requests.Storage().String() != "1Gi" {
			t.Errorf("claim %+v", claim)
		}
		b.wantEvents(
			"Normal SuccessfulCreate Create Claim data-web-5 Pod web-5 in StatefulSet web success",
			"Normal SuccessfulCreate Create Claim log-web-5 Pod web-5 in StatefulSet web success",
			"Normal SuccessfulCreate Create Pod web-5 in StatefulSet web successful")
	})
}

// TestParallel: the pods do not wait for one another, and neither does their end.
func TestParallel(t *testing.T) {
	run(t, &bench{unlimited: true}, func(b *bench) {
		create(b, web(4, parallel))
		b.wantPods("web-0=web:1 web-1=web:1 web-2=web:1 web-3=web:1")
		b.wantStatus("replicas 4 ready 0 available 0 current 4 web:1 updated 4 web:1 observed 1")
		b.node()
		b.after(time.Minute)
		b.scale(1)
		b.wantPods("web-0=web:1+ web-1=web:1+- web-2=web:1+- web-3=web:1+-")
		b.after(time.Minute)
		b.wantPods("web-0=web:1+")
	})
}

// TestOrdinals: a set that starts later keeps the pods that it still has a place for.
func TestOrdinals(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(3))
		b.after(time.Minute)
		b.change(func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 2} })
		b.after(time.Minute)
		b.wantPods("web-2=web:1+ web-3=web:1+ web-4=web:1+")
		b.wantStatus("replicas 3 ready 3 available 3 current 3 web:1 updated 3 web:1 observed 2")
	})
}

// TestWaits: an ordered set does not go on while a pod is not ready or is going, unless that is the one to delete.
func TestWaits(t *testing.T) {
	broken := func(pod *corev1.Pod) bool { return pod.Name == "web-1" }
	run(t, &bench{broken: broken}, func(b *bench) {
		b.node()
		create(b, web(3))
		b.after(time.Minute)
		b.wantPods("web-0=web:1+ web-1=web:1")
		b.scale(1)
		b.after(time.Minute)
		b.wantPods("web-0=web:1+") // the one that is not ready is the first of them
	})
	for want, broken := range map[string]string{
		"web-0=image web-1=image+ web-2=image+": "web-0",
		"web-0=image+ web-1=image web-2=image":  "web-1 web-2", // two that are not ready are no reason to delete the second
	} {
		run(t, &bench{broken: func(pod *corev1.Pod) bool { return strings.Contains(broken, pod.Name) }}, func(b *bench) {
			b.node()
			for _, name := range []string{"web-0", "web-1", "web-2"} {
				create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: app()}})
			}
			b.after(time.Minute)
			create(b, web(1))
			b.after(time.Minute)
			b.wantPods(want)
		})
	}
}

// TestEnded: a pod that has ended is deleted and created again, whatever its end was.
func TestEnded(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		for name, policy := range map[string]func(*appsv1.StatefulSet){"ordered": func(*appsv1.StatefulSet) {}, "parallel": parallel} {
			t.Run(string(phase)+" "+name, func(t *testing.T) {
				inBubble(t, func(b *bench) {
					b.node()
					create(b, web(2, policy))
					b.after(time.Minute)
					before := get[*corev1.Pod](b, at(controllerstest.Pods(), "web-0")).UID
					b.events.Take()
					b.setPhase("web-0", phase)
					b.after(time.Minute)
					b.wantEvents(
						"Normal SuccessfulDelete Delete Pod web-0 in StatefulSet web successful",
						"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful")
					b.wantPods("web-0=web:1+ web-1=web:1+")
					if get[*corev1.Pod](b, at(controllerstest.Pods(), "web-0")).UID == before {
						t.Error("it is still the same pod")
					}
				})
			})
		}
	}
}

// TestMinReadySeconds: a pod is available, and the next one is created, when it has been ready for long enough.
func TestMinReadySeconds(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(2, func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = 10 }))
		b.after(9 * time.Second)
		b.wantPods("web-0=web:1+")
		b.wantStatus("replicas 1 ready 1 available 0 current 1 web:1 updated 1 web:1 observed 1")
		b.after(2500 * time.Millisecond)
		b.wantPods("web-0=web:1+ web-1=web:1")
		b.after(time.Minute)
		b.wantStatus("replicas 2 ready 2 available 2 current 2 web:1 updated 2 web:1 observed 1")
		b.change(image("web:2"))
		b.after(8 * time.Second)
		b.wantPods("web-0=web:1+ web-1=web:2+")
		b.after(time.Minute)
		b.wantPods("web-0=web:2+ web-1=web:2+")
	})
}

// TestDeleted: a set that is being deleted gets no more pods; its status goes on.
func TestDeleted(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, web(2, func(set *appsv1.StatefulSet) { set.Finalizers = []string{"f/g"} }))
		b.remove(at(sets(), "web"), metav1.DeleteOptions{})
		b.node()
		b.after(time.Minute)
		b.wantPods("web-0=web:1+")
		b.wantStatus("replicas 1 ready 1 available 1 current 1 web:1 updated 1 web:1 observed 2")
	})
}

// TestAdoption: a set adopts pods with its labels and one of its names, and releases those that lose either.
func TestAdoption(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		for name, labels := range map[string]map[string]string{"web-0": app(), "web-1": {"app": "db"}, "other-0": app(), "web": app(), "web-x": app()} {
			create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: labels}})
		}
		set := create(b, web(1))
		b.after(time.Minute)
		owned := func() (names []string) {
			for _, pod := range b.podList() {
				if metav1.IsControlledBy(&pod, set) {
					names = append(names, pod.Name)
				}
			}
			return names
		}
		if got := fmt.Sprint(owned()); got != "[web-0]" {
			t.Errorf("adopted %s", got)
		}
		pod := get[*corev1.Pod](b, at(controllerstest.Pods(), "web-0"))
		if pod.Labels["statefulset.kubernetes.io/pod-name"] != "web-0" || pod.Labels["apps.kubernetes.io/pod-index"] != "0" {
			t.Errorf("the adopted pod has labels %v", pod.Labels)
		}
		b.events.Take()
		update(b, at(controllerstest.Pods(), "web-0"), func(pod *corev1.Pod) { delete(pod.Labels, "statefulset.kubernetes.io/pod-name") })
		b.wantEvents("Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful")
		update(b, at(controllerstest.Pods(), "web-0"), func(pod *corev1.Pod) { pod.Labels = nil })
		if got := fmt.Sprint(owned()); got != "[]" {
			t.Errorf("still has %s", got)
		}
		update(b, at(controllerstest.Pods(), "web-0"), func(pod *corev1.Pod) { pod.Labels = app() })
		b.after(time.Minute)
		if got := fmt.Sprint(owned()); got != "[web-0]" {
			t.Errorf("adopted %s again", got)
		}
	})
}
