package controllers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kubernetes/pkg/controller/volume/persistentvolume"
)

// TestPersistentVolumeBinder: volumes and claims of several classes, sizes and policies. Upstream's has no plugins here:
// none can work in a bubble, and keelson's has none either.
func TestPersistentVolumeBinder(t *testing.T) {
	c := &contest{
		names: []string{"persistentvolume-binder-controller"},
		theirs: func(ctx context.Context, u *theirs) (func(context.Context), error) {
			core := u.shared.Core().V1()
			c, err := persistentvolume.NewController(ctx, persistentvolume.ControllerParameters{
				KubeClient: u.client("persistent-volume-binder"), SyncPeriod: 15 * time.Second, VolumeInformer: core.PersistentVolumes(),
				ClaimInformer: core.PersistentVolumeClaims(), ClassInformer: u.shared.Storage().V1().StorageClasses(), PodInformer: core.Pods(),
				NodeInformer: core.Nodes(), EnableDynamicProvisioning: true,
			})
			if err != nil {
				return nil, err
			}
			return c.Run, nil
		},
		begin: func(w *world) {
			immediate, waiting := storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer
			for name, mode := range map[string]*storagev1.VolumeBindingMode{"now": &immediate, "later": &waiting} {
				_, err := w.api.StorageV1().StorageClasses().Create(w.Context(), &storagev1.StorageClass{
					ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disk", VolumeBindingMode: mode,
				}, metav1.CreateOptions{})
				w.must(err)
			}
			_, err := w.api.StorageV1().StorageClasses().Create(w.Context(), &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "old"}, Provisioner: "kubernetes.io/host-path", VolumeBindingMode: &immediate,
			}, metav1.CreateOptions{})
			w.must(err)
		},
		step: volumeStep,
		// These are repeated with every resync, and with some changes.
		uncounted: []string{"ExternalProvisioning", "FailedBinding", "WaitForPodScheduled", "WaitForFirstConsumer", "VolumeFailedRecycle"},
		alike: func(obj map[string]any) {
			unstructured.RemoveNestedField(obj, "spec", "claimRef", "resourceVersion")
		},
		written: resources(corev1.SchemeGroupVersion, "persistentvolumes", "persistentvolumeclaims"),
		pauses:  []int{20, 35, 50, 80},
	}
	c.run(t)
}

func volumeStep(w *world) {
	volumes, err := w.api.CoreV1().PersistentVolumes().List(w.Context(), metav1.ListOptions{})
	w.must(err)
	claims, err := w.api.CoreV1().PersistentVolumeClaims(namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	switch n := w.IntN(100); {
	case n < 30 && len(volumes.Items) < 6, len(volumes.Items) == 0:
		w.createVolume()
	case n < 60 && len(claims.Items) < 5, len(claims.Items) == 0:
		w.createClaim()
	case n < 65:
		w.deleteVolume(pick(w, volumes.Items...))
	case n < 78:
		w.dropClaim(pick(w, claims.Items...))
	case n < 86:
		pv := pick(w, volumes.Items...)
		what := "free "
		if w.chance(2) {
			pv.Spec.ClaimRef = nil
		} else {
			what = "change policy of "
			pv.Spec.PersistentVolumeReclaimPolicy = w.policy()
		}
		_, err := w.api.CoreV1().PersistentVolumes().Update(w.Context(), &pv, metav1.UpdateOptions{})
		w.do(what+pv.Name, err)
	case n < 92:
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: w.next("pod")}, Spec: w.template(nil).Spec}
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pick(w, claims.Items...).Name}}}}
		_, err := w.api.CoreV1().Pods(namespace).Create(w.Context(), pod, metav1.CreateOptions{})
		w.do("create "+pod.Name+" "+text(pod.Spec.Volumes), err)
	default:
		w.provision(pick(w, claims.Items...))
	}
}

func (w *world) policy() corev1.PersistentVolumeReclaimPolicy {
	return pick(w, corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle)
}

func (w *world) class() string { return pick(w, "", "now", "later", "by-hand", "old") }

// size is different for every volume: which of two equal ones is taken is left to chance.
func (w *world) size() resource.Quantity {
	w.notes["size"]++
	return *resource.NewQuantity(int64(1+w.IntN(4))<<30+int64(w.notes["size"])<<20, resource.BinarySI)
}

func (w *world) createVolume() {
	w.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.next("pv"), Labels: map[string]string{"disk": pick(w, "ssd", "hdd")}}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: w.class(), AccessModes: w.modes(), Capacity: corev1.ResourceList{"storage": w.size()}, PersistentVolumeReclaimPolicy: w.policy(),
		PersistentVolumeSource: pick(w, corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "server", Path: "/"}},
			corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com/disk", VolumeHandle: "x"}}),
	}}
	if pv.Spec.CSI != nil && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle || pv.Spec.HostPath == nil && pv.Spec.NFS == nil && w.chance(2) {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	if w.chance(5) {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: fmt.Sprint("claim", w.IntN(5))}
	}
	if w.chance(5) {
		pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	}
	_, err := w.api.CoreV1().PersistentVolumes().Create(w.Context(), pv, metav1.CreateOptions{})
	w.do("create "+pv.Name+" "+text(pv), err)
}

func (w *world) modes() []corev1.PersistentVolumeAccessMode {
	return pick(w, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany},
		[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany})
}

func (w *world) createClaim() {
	w.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("claim", w.IntN(5))}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new(w.class()), AccessModes: w.modes(), Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": w.size()}},
	}}
	switch w.IntN(6) {
	case 0:
		claim.Spec.VolumeName = fmt.Sprint("pv", 1+w.IntN(w.serial+1))
	case 1:
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": pick(w, "ssd", "hdd")}}
	case 2:
		claim.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	}
	_, err := w.api.CoreV1().PersistentVolumeClaims(namespace).Create(w.Context(), claim, metav1.CreateOptions{})
	w.do("create "+claim.Name+" "+text(claim.Spec), err)
}

func (w *world) deleteVolume(pv corev1.PersistentVolume) {
	w.Helper()
	w.do("delete "+pv.Name, w.api.CoreV1().PersistentVolumes().Delete(w.Context(), pv.Name, metav1.DeleteOptions{}))
	now, err := w.api.CoreV1().PersistentVolumes().Get(w.Context(), pv.Name, metav1.GetOptions{})
	if err == nil {
		now.Finalizers = nil
		_, err = w.api.CoreV1().PersistentVolumes().Update(w.Context(), now, metav1.UpdateOptions{})
	}
	w.do("release "+pv.Name, err)
}

func (w *world) dropClaim(claim corev1.PersistentVolumeClaim) {
	w.Helper()
	claims := w.api.CoreV1().PersistentVolumeClaims(namespace)
	w.do("delete "+claim.Name, claims.Delete(w.Context(), claim.Name, metav1.DeleteOptions{}))
	now, err := claims.Get(w.Context(), claim.Name, metav1.GetOptions{})
	if err == nil { // as the protection controller does
		now.Finalizers = nil
		_, err = claims.Update(w.Context(), now, metav1.UpdateOptions{})
	}
	w.do("release "+claim.Name, err)
}

// provision makes a volume for a claim, as an external provisioner, or chooses a node for it, as the scheduler.
func (w *world) provision(claim corev1.PersistentVolumeClaim) {
	w.Helper()
	if claim.Annotations["volume.kubernetes.io/storage-provisioner"] == "" {
		if claim.Annotations == nil {
			claim.Annotations = map[string]string{}
		}
		claim.Annotations["volume.kubernetes.io/selected-node"] = "n1"
		_, err := w.api.CoreV1().PersistentVolumeClaims(namespace).Update(w.Context(), &claim, metav1.UpdateOptions{})
		w.do("choose a node for "+claim.Name, err)
		return
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.next("pv"), Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "example.com/disk"}}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: *claim.Spec.StorageClassName, AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, VolumeMode: claim.Spec.VolumeMode,
		ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: claim.Name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com/disk", VolumeHandle: "x"}},
	}}
	_, err := w.api.CoreV1().PersistentVolumes().Create(w.Context(), pv, metav1.CreateOptions{})
	w.do("provision "+pv.Name+" for "+claim.Name, err)
}
