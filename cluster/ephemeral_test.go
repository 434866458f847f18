package cluster_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

func withoutTTL(w *world) {
	node, err := w.cs.CoreV1().Nodes().Get(w.ctx, "node-0", metav1.GetOptions{})
	w.check(err)
	if value, ok := node.Annotations["node.alpha.kubernetes.io/ttl"]; ok {
		w.t.Errorf("somebody told the node %q", value)
	}
}

func withoutEphemeralVolume(w *world) {
	_, err := w.pods.Create(w.ctx, ephemeralPod("a"), metav1.CreateOptions{})
	w.check(err)
	time.Sleep(time.Minute)
	if l, err := w.cs.CoreV1().PersistentVolumeClaims("default").List(w.ctx, metav1.ListOptions{}); err != nil || len(l.Items) > 0 {
		w.t.Errorf("claims: %v %v", l.Items, err)
	}
}

func withoutClassProtection(w *world) {
	class := &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: "example.com", Parameters: map[string]string{"iops": "9"},
	}
	_, err := w.cs.StorageV1().VolumeAttributesClasses().Create(w.ctx, class, metav1.CreateOptions{})
	w.check(err)
	w.check(w.cs.StorageV1().VolumeAttributesClasses().Delete(w.ctx, "gold", metav1.DeleteOptions{})) // it has the finalizer from admission
	time.Sleep(time.Minute)
	if _, err = w.cs.StorageV1().VolumeAttributesClasses().Get(w.ctx, "gold", metav1.GetOptions{}); err != nil {
		w.t.Errorf("somebody let the class go: %v", err)
	}
}

func claimSpec() corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
	}
}

// ephemeralPod returns a pod with an ephemeral volume.
func ephemeralPod(name string) *corev1.Pod {
	pod := testPod(name)
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimSpec()},
	}}}}
	return pod
}

// TestEphemeralClaims: a pod's ephemeral volume gets a claim, which goes with the pod; a claim of somebody else is not taken.
func TestEphemeralClaims(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		claims := w.cs.CoreV1().PersistentVolumeClaims("default")
		foreign := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "b-scratch"}, Spec: claimSpec()}
		_, err := claims.Create(w.ctx, foreign, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Second) // the controller knows the claim before the pod
		for _, name := range []string{"a", "b"} {
			_, err := w.pods.Create(w.ctx, ephemeralPod(name), metav1.CreateOptions{})
			w.check(err)
		}
		time.Sleep(time.Minute)
		claim, err := claims.Get(w.ctx, "a-scratch", metav1.GetOptions{})
		w.check(err)
		if owner := metav1.GetControllerOf(claim); owner == nil || owner.Kind != "Pod" || owner.Name != "a" {
			t.Errorf("owners %+v", claim.OwnerReferences)
		}
		told, err := w.cs.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=b,reason=FailedBinding"})
		w.check(err)
		const want = "ephemeral volume scratch: PVC default/b-scratch was not created for pod default/b (pod is not owner)"
		if len(told.Items) != 1 || told.Items[0].Message != want || told.Items[0].Source.Component != "ephemeral_volume" {
			t.Errorf("events %+v", told.Items)
		}
		w.check(w.pods.Delete(w.ctx, "a", metav1.DeleteOptions{}))
		w.check(w.pods.Delete(w.ctx, "b", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		if _, err := claims.Get(w.ctx, "a-scratch", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the claim of a pod that is gone: %v", err)
		}
		_, err = claims.Get(w.ctx, "b-scratch", metav1.GetOptions{})
		w.check(err)
	})
}

// TestClassProtection: a VolumeAttributesClass outlives its deletion until the last claim that names it is gone.
func TestClassProtection(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		classes, claims := w.cs.StorageV1().VolumeAttributesClasses(), w.cs.CoreV1().PersistentVolumeClaims("default")
		class := &storagev1.VolumeAttributesClass{
			ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: "example.com", Parameters: map[string]string{"iops": "9"},
		}
		_, err := classes.Create(w.ctx, class, metav1.CreateOptions{})
		w.check(err)
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claimSpec()}
		claim.Spec.VolumeAttributesClassName = new("gold")
		_, err = claims.Create(w.ctx, claim, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Minute)
		w.check(classes.Delete(w.ctx, "gold", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		kept, err := classes.Get(w.ctx, "gold", metav1.GetOptions{})
		w.check(err)
		if len(kept.Finalizers) != 1 || kept.DeletionTimestamp == nil {
			t.Errorf("kept %+v", kept.ObjectMeta)
		}
		w.check(claims.Delete(w.ctx, "data", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		if _, err := classes.Get(w.ctx, "gold", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("an unused class: %v", err)
		}
	})
}

// TestNodeTTL: nodes of a small cluster are told to always ask for secrets and config maps.
func TestNodeTTL(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		_, err := w.cs.CoreV1().Nodes().Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Minute)
		node, err := w.cs.CoreV1().Nodes().Get(w.ctx, "n", metav1.GetOptions{})
		w.check(err)
		if got, ok := node.Annotations["node.alpha.kubernetes.io/ttl"]; got != "0" || !ok {
			t.Errorf("annotations %v", node.Annotations)
		}
	})
}
