package cluster_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// localVolume makes a volume on node-0.
func localVolume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName:       "local",
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disks/1"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-0"}}},
			}}}},
		},
	}
}

// claimOf makes a claim without a class.
func claimOf(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// addVolume creates a volume, waits for it and creates a claim for it.
func (w *world) addVolume(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) {
	w.t.Helper()
	_, err := w.cs.CoreV1().PersistentVolumes().Create(w.ctx, volume, metav1.CreateOptions{})
	w.check(err)
	time.Sleep(10 * time.Second)
	_, err = w.cs.CoreV1().PersistentVolumeClaims("default").Create(w.ctx, claim, metav1.CreateOptions{})
	w.check(err)
	time.Sleep(20 * time.Second)
}

// wantClaim compares a claim's phase and the condition Unused; "gone" means that there is no claim.
func (w *world) wantClaim(name, state string) {
	w.t.Helper()
	claim, err := w.cs.CoreV1().PersistentVolumeClaims("default").Get(w.ctx, name, metav1.GetOptions{})
	got := "gone"
	if !apierrors.IsNotFound(err) {
		w.check(err)
		got = string(claim.Status.Phase)
		if i := slices.IndexFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
			return c.Type == corev1.PersistentVolumeClaimUnused
		}); i >= 0 {
			got += " unused=" + string(claim.Status.Conditions[i].Status)
		}
	}
	if got != state {
		w.t.Errorf("claim %s is %s, want %s", name, got, state)
	}
}

// wantVolume compares a volume's phase; "gone" means that there is no volume.
func (w *world) wantVolume(name, phase string) {
	w.t.Helper()
	volume, err := w.cs.CoreV1().PersistentVolumes().Get(w.ctx, name, metav1.GetOptions{})
	got := "gone"
	if !apierrors.IsNotFound(err) {
		w.check(err)
		got = string(volume.Status.Phase)
	}
	if got != phase {
		w.t.Errorf("volume %s is %s, want %s", name, got, phase)
	}
}

// TestVolumes: a claim of the default class is bound to a local volume. Neither disappears while a pod has the claim.
func TestVolumes(t *testing.T) {
	inBubble(t, nodes(1), func(t *testing.T, w *world) {
		_, err := w.cs.StorageV1().StorageClasses().Create(w.ctx, &storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: "local", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: "kubernetes.io/no-provisioner",
		}, metav1.CreateOptions{})
		w.check(err)
		w.addVolume(localVolume("disk"), claimOf("data"))
		w.wantVolume("disk", "Bound")
		w.wantClaim("data", "Bound unused=True")
		larger, err := w.cs.CoreV1().PersistentVolumeClaims("default").Get(w.ctx, "data", metav1.GetOptions{})
		w.check(err)
		larger.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		_, err = w.cs.CoreV1().PersistentVolumeClaims("default").Update(w.ctx, larger, metav1.UpdateOptions{})
		if want := "the storageclass that provisions the pvc must support resize"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a claim of a class without expansion grows: %v", err)
		}

		pod := testPod("user")
		pod.Spec.NodeName = "node-0"
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
		_, err = w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(10 * time.Second)
		w.check(w.cs.CoreV1().PersistentVolumeClaims("default").Delete(w.ctx, "data", metav1.DeleteOptions{}))
		w.check(w.cs.CoreV1().PersistentVolumes().Delete(w.ctx, "disk", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		w.wantVolume("disk", "Bound")
		w.wantClaim("data", "Bound unused=False")

		w.check(w.pods.Delete(w.ctx, "user", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		w.wantClaim("data", "gone")
		w.wantVolume("disk", "gone")
	})
}

// Checks of what is missing without a component.

func withoutPVBinder(w *world) {
	volume := localVolume("disk")
	volume.Spec.StorageClassName = ""
	w.addVolume(volume, claimOf("data"))
	w.wantVolume("disk", "Pending")
	w.wantClaim("data", "Pending")
}

func withoutPVCProtection(w *world) {
	volume := localVolume("disk")
	volume.Spec.StorageClassName = ""
	w.addVolume(volume, claimOf("data"))
	w.check(w.cs.CoreV1().PersistentVolumeClaims("default").Delete(w.ctx, "data", metav1.DeleteOptions{}))
	time.Sleep(time.Minute)
	w.wantClaim("data", "Bound")
}

func withoutPVProtection(w *world) {
	w.addVolume(localVolume("disk"), claimOf("data"))
	w.check(w.cs.CoreV1().PersistentVolumes().Delete(w.ctx, "disk", metav1.DeleteOptions{}))
	time.Sleep(time.Minute)
	w.wantVolume("disk", "Available")
}
