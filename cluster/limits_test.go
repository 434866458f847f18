package cluster_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

// TestLimitRange: limit ranges apply to the next pod and claim, and before quota: a pod has its defaults when it is counted.
func TestLimitRange(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		amount := func(name corev1.ResourceName, of string) corev1.ResourceList {
			return corev1.ResourceList{name: resource.MustParse(of)}
		}
		limits := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Max: amount("cpu", "2"), DefaultRequest: amount("cpu", "1")},
			{Type: corev1.LimitTypePersistentVolumeClaim, Max: amount("storage", "1Gi")},
		}}}
		made, err := w.cs.CoreV1().LimitRanges("default").Create(w.ctx, limits, metav1.CreateOptions{})
		if err != nil || len(made.Name) != 36 || len(made.Spec.Limits[0].Default) != 1 {
			t.Fatalf("limit range %+v, %v", made, err)
		}
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: amount("requests.cpu", "1")}}
		if _, err := w.cs.CoreV1().ResourceQuotas("default").Create(w.ctx, quota, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // the controller fills the status of the quota
		pod, err := w.pods.Create(w.ctx, testPod("a"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if note := pod.Annotations["kubernetes.io/limit-ranger"]; note != "LimitRanger plugin set: cpu request for container c; cpu limit for container c" {
			t.Errorf("annotation %q", note)
		}
		large := testPod("b")
		large.Spec.Containers[0].Resources.Limits = amount("cpu", "3")
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, Resources: corev1.VolumeResourceRequirements{Requests: amount("storage", "2Gi")},
		}}
		_, tooMany := w.pods.Create(w.ctx, testPod("b"), metav1.CreateOptions{})
		_, tooLarge := w.pods.Create(w.ctx, large, metav1.CreateOptions{})
		_, tooMuch := w.cs.CoreV1().PersistentVolumeClaims("default").Create(w.ctx, claim, metav1.CreateOptions{})
		for want, err := range map[string]error{
			`pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1`:     tooMany,
			`pods "b" is forbidden: maximum cpu usage per Container is 2, but limit is 3`:                                            tooLarge,
			`persistentvolumeclaims "data" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi`: tooMuch,
		} {
			if !apierrors.IsForbidden(err) || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		if err := w.cs.CoreV1().LimitRanges("default").Delete(w.ctx, made.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.cs.CoreV1().PersistentVolumeClaims("default").Create(w.ctx, claim, metav1.CreateOptions{}); err != nil {
			t.Errorf("without limits: %v", err)
		}
	})
}

// TestRuntimeClass: a pod gets what its class says at once after the class exists, and none without one.
func TestRuntimeClass(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		pod := testPod("p")
		pod.Spec.RuntimeClassName = new("vm")
		_, err := w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
		if want := `pods "p" is forbidden: pod rejected: RuntimeClass "vm" not found`; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		class := &nodev1.RuntimeClass{
			ObjectMeta: metav1.ObjectMeta{Name: "vm"}, Handler: "kata",
			Overhead:   &nodev1.Overhead{PodFixed: corev1.ResourceList{"cpu": resource.MustParse("250m")}},
			Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"vm": "yes"}, Tolerations: []corev1.Toleration{{Key: "vm", Operator: "Exists"}}},
		}
		if _, err := w.cs.NodeV1().RuntimeClasses().Create(w.ctx, class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		made, err := w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if made.Spec.Overhead.Cpu().String() != "250m" || made.Spec.NodeSelector["vm"] != "yes" || made.Spec.Tolerations[len(made.Spec.Tolerations)-1].Key != "vm" {
			t.Errorf("made %+v", made.Spec)
		}
	})
}
