package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// addLocalDisks creates the class "local", whose claims wait for their pods, and a volume of it on each of the nodes.
func (w *world) addLocalDisks(nodes ...string) {
	w.t.Helper()
	_, err := w.cs.StorageV1().StorageClasses().Create(w.ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	w.check(err)
	for i, node := range nodes {
		pv := localVolume(fmt.Sprintf("disk-%d", i))
		pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{node}
		_, err := w.cs.CoreV1().PersistentVolumes().Create(w.ctx, pv, metav1.CreateOptions{})
		w.check(err)
	}
	time.Sleep(10 * time.Second)
}

// localClaim makes a claim of the class "local".
func localClaim(name string) *corev1.PersistentVolumeClaim {
	claim := claimOf(name)
	claim.Spec.StorageClassName = ptr.To("local")
	return claim
}

// podWith makes a pod with a claim.
func podWith(name, claim string) *corev1.Pod {
	pod := testPod(name)
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return pod
}

// scheduled returns the node of a pod, or why it has none.
func (w *world) scheduled(name string) string {
	w.t.Helper()
	pod, err := w.pods.Get(w.ctx, name, metav1.GetOptions{})
	w.check(err)
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return pod.Spec.NodeName
}

// TestPodsGoWhereVolumesAre: each pod of a set gets a local volume and that volume's node; one is left without. The
// scheduler is refused nothing.
func TestPodsGoWhereVolumesAre(t *testing.T) {
	seen := newWitness()
	inBubble(t, seen.options(nodes(4)), func(t *testing.T, w *world) {
		w.addLocalDisks("node-1", "node-3")
		set := statefulSetOf("db", 3)
		set.Spec.PodManagementPolicy = "Parallel"
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{*localClaim("data")}
		_, err := w.cs.AppsV1().StatefulSets("default").Create(w.ctx, set, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Minute)
		found := map[string]string{}
		for i := range 3 {
			pod, err := w.pods.Get(w.ctx, fmt.Sprintf("db-%d", i), metav1.GetOptions{})
			w.check(err)
			claim, err := w.cs.CoreV1().PersistentVolumeClaims("default").Get(w.ctx, "data-"+pod.Name, metav1.GetOptions{})
			w.check(err)
			found[claim.Spec.VolumeName+" "+string(claim.Status.Phase)] = w.scheduled(pod.Name)
		}
		if found["disk-0 Bound"] != "node-1" || found["disk-1 Bound"] != "node-3" {
			t.Errorf("found %v", found)
		}
		const message = "0/4 nodes are available: 4 node(s) didn't find available persistent volumes to bind."
		if got := found[" Pending"]; !strings.HasPrefix(got, message) {
			t.Errorf("the one without a volume: %q", got)
		}
		// A volume for it wakes the one that waits.
		pv := localVolume("disk-9")
		_, err = w.cs.CoreV1().PersistentVolumes().Create(w.ctx, pv, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Minute)
		w.wantVolume("disk-9", "Bound")
		for _, bad := range seen.violations(t, w.c) {
			t.Error(bad)
		}
	})
}

// TestPodsRaceForAVolume: of two pods whose claims could have the same volume one gets it, and the other waits; it gets
// the next one.
func TestPodsRaceForAVolume(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		w.addLocalDisks("node-1")
		for _, name := range []string{"a", "b"} {
			_, err := w.cs.CoreV1().PersistentVolumeClaims("default").Create(w.ctx, localClaim(name), metav1.CreateOptions{})
			w.check(err)
			_, err = w.pods.Create(w.ctx, podWith(name, name), metav1.CreateOptions{})
			w.check(err)
		}
		time.Sleep(time.Minute)
		places := []string{w.scheduled("a"), w.scheduled("b")}
		first, second := places[0], places[1]
		if first != "node-1" {
			first, second = second, first
		}
		if first != "node-1" || !strings.HasPrefix(second, "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.") {
			t.Errorf("the places are %q", places)
		}
	})
}

// TestPodGoesWhileItsVolumeIsBound: without the binder, a pod waits for its volume, and its end frees the node. The
// volume stays the claim's.
func TestPodGoesWhileItsVolumeIsBound(t *testing.T) {
	o := nodes(1)
	o.Disable = []string{"persistentvolume-binder-controller"}
	inBubble(t, o, func(t *testing.T, w *world) {
		w.addLocalDisks("node-0")
		pv, err := w.cs.CoreV1().PersistentVolumes().Get(w.ctx, "disk-0", metav1.GetOptions{})
		w.check(err)
		pv.Status.Phase = corev1.VolumeAvailable
		_, err = w.cs.CoreV1().PersistentVolumes().UpdateStatus(w.ctx, pv, metav1.UpdateOptions{})
		w.check(err)
		_, err = w.cs.CoreV1().PersistentVolumeClaims("default").Create(w.ctx, localClaim("a"), metav1.CreateOptions{})
		w.check(err)
		_, err = w.pods.Create(w.ctx, podWith("a", "a"), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Minute)
		pod, err := w.pods.Get(w.ctx, "a", metav1.GetOptions{})
		w.check(err)
		if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "node-0" {
			t.Errorf("the pod is on %q, nominated for %q", pod.Spec.NodeName, pod.Status.NominatedNodeName)
		}
		w.check(w.pods.Delete(w.ctx, "a", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		_, err = w.pods.Create(w.ctx, podWith("again", "a"), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(9 * time.Minute)
		if got := w.scheduled("again"); got != "" {
			t.Errorf("the next pod: %q", got)
		}
		time.Sleep(2 * time.Minute)
		if got := w.scheduled("again"); got != `running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded` {
			t.Errorf("after ten minutes: %q", got)
		}
		pv, err = w.cs.CoreV1().PersistentVolumes().Get(w.ctx, "disk-0", metav1.GetOptions{})
		w.check(err)
		if ref := pv.Spec.ClaimRef; ref == nil || ref.Name != "a" {
			t.Errorf("the volume is reserved for %v", ref)
		}
	})
}
