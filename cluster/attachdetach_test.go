package cluster_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/attachdetach"
)

// csiVolume makes a volume of a CSI driver, and csiPod a pod that has it, by the claim, on a node without a kubelet.
func csiVolume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "h-" + name}},
		},
	}
}

func (w *world) csiPod(name, claim string) {
	w.t.Helper()
	if _, err := w.cs.CoreV1().Nodes().Get(w.ctx, "far", metav1.GetOptions{}); err != nil {
		_, err := w.cs.CoreV1().Nodes().Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "far"}}, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Second)
	}
	pod := testPod(name)
	pod.Spec.NodeName = "far"
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	_, err := w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
	w.check(err)
	time.Sleep(10 * time.Second)
}

// TestAttachDetach: a volume is attached to the node of a pod that has it, which the pod and the node's status say, and
// detached when the pod is gone.
func TestAttachDetach(t *testing.T) {
	seen := newWitness()
	inBubble(t, seen.options(nodes(0)), func(t *testing.T, w *world) {
		w.addVolume(csiVolume("disk"), claimOf("data"))
		w.csiPod("db", "data")
		all := w.cs.StorageV1().VolumeAttachments()
		va, err := all.Get(w.ctx, attachdetach.AttachmentName("h-disk", "disk.example.com", "far"), metav1.GetOptions{})
		w.check(err)
		if va.Spec.Attacher != "disk.example.com" || va.Spec.NodeName != "far" || *va.Spec.Source.PersistentVolumeName != "disk" {
			t.Errorf("attachment: %+v", va.Spec)
		}
		va.Status.Attached = true
		_, err = all.UpdateStatus(w.ctx, va, metav1.UpdateOptions{})
		w.check(err)
		time.Sleep(time.Second)
		reported := func() []corev1.AttachedVolume {
			node, err := w.cs.CoreV1().Nodes().Get(w.ctx, "far", metav1.GetOptions{})
			w.check(err)
			return node.Status.VolumesAttached
		}
		if got := reported(); len(got) != 1 || got[0] != (corev1.AttachedVolume{Name: "kubernetes.io/csi/disk.example.com^h-disk"}) {
			t.Errorf("reported: %+v", got)
		}
		events, err := w.cs.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{})
		w.check(err)
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == "SuccessfulAttachVolume" && e.InvolvedObject.Name == "db" && e.Source.Component == "attachdetach-controller" &&
				e.Message == `AttachVolume.Attach succeeded for volume "disk" `
		}) {
			t.Errorf("no event in %+v", events.Items)
		}
		w.check(w.pods.Delete(w.ctx, "db", *metav1.NewDeleteOptions(0)))
		time.Sleep(time.Second)
		left, err := all.List(w.ctx, metav1.ListOptions{})
		if w.check(err); len(left.Items) > 0 || len(reported()) > 0 {
			t.Errorf("left: %+v, reported %+v", left.Items, reported())
		}
		if !seen.wrote("system:serviceaccount:kube-system:attachdetach-controller") {
			t.Error("the controller did not act as itself")
		}
		for _, bad := range seen.violations(t, w.c) {
			t.Error(bad)
		}
	})
}

// TestVolumeExpand: a claim that grows is told who has to expand its volume.
func TestVolumeExpand(t *testing.T) {
	inBubble(t, nodes(0), func(t *testing.T, w *world) {
		if got := w.expanding(); !slices.Equal(got, []string{"waiting for an external controller to expand this PVC"}) {
			t.Errorf("events: %q", got)
		}
	})
}

// expanding has a claim grow and returns what it was told.
func (w *world) expanding() []string {
	w.t.Helper()
	_, err := w.cs.StorageV1().StorageClasses().Create(w.ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "growing"}, Provisioner: "disk.example.com", AllowVolumeExpansion: new(true),
	}, metav1.CreateOptions{})
	w.check(err)
	volume, claim := csiVolume("disk"), claimOf("data")
	volume.Spec.StorageClassName, claim.Spec.StorageClassName = "growing", new("growing")
	w.addVolume(volume, claim)
	bound, err := w.cs.CoreV1().PersistentVolumeClaims("default").Get(w.ctx, "data", metav1.GetOptions{})
	w.check(err)
	bound.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("9Gi")
	_, err = w.cs.CoreV1().PersistentVolumeClaims("default").Update(w.ctx, bound, metav1.UpdateOptions{})
	w.check(err)
	time.Sleep(10 * time.Second)
	events, err := w.cs.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{})
	w.check(err)
	var told []string
	for _, e := range events.Items {
		if e.Reason == "ExternalExpanding" && e.Source.Component == "volume_expand" {
			told = append(told, e.Message)
		}
	}
	return told
}

// Checks of what is missing without a component.

func withoutAttachDetach(w *world) {
	w.addVolume(csiVolume("disk"), claimOf("data"))
	w.csiPod("db", "data")
	all, err := w.cs.StorageV1().VolumeAttachments().List(w.ctx, metav1.ListOptions{})
	if err != nil || len(all.Items) > 0 {
		w.t.Errorf("somebody attached volumes: %v %v", all.Items, err)
	}
}

func withoutVolumeExpand(w *world) {
	if told := w.expanding(); len(told) > 0 {
		w.t.Errorf("somebody told the claim: %q", told)
	}
}
