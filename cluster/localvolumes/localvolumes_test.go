package localvolumes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/localvolumes"
	"github.com/keelson-dev/keelson/controllers/localprovisioner"
	"github.com/keelson-dev/keelson/kubelet/volume/claims"
)

// world is a cluster in a bubble whose nodes have volumes in name.
type world struct {
	*testing.T
	cs   kubernetes.Interface
	c    *cluster.Cluster
	dirs *localprovisioner.Names
}

func inBubble(t *testing.T, nodes cluster.Nodes, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dirs := &localprovisioner.Names{}
		o := localvolumes.Options{Directories: dirs}
		nodes.Count = 2
		c, err := cluster.Start(t.Context(), cluster.Options{
			Nodes: nodes, Extensions: []cluster.Extension{localvolumes.Extension(o)},
			Components: append(cluster.DefaultComponents(), localvolumes.Component(o)),
			OnMutation: func(err error) { t.Error(err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := c.WaitNodes(t.Context()); err != nil {
			t.Fatal(err)
		}
		cs, err := kubernetes.NewForConfig(c.Config())
		if err != nil {
			t.Fatal(err)
		}
		test(&world{t, cs, c, dirs})
	})
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// set creates a StatefulSet with a claim for each of its pods.
func (w *world) set(replicas int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	w.Helper()
	labels := map[string]string{"app": "db"}
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: "db",
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "db", Image: "db", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
		}},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		}}},
	}}
	for _, f := range change {
		f(s)
	}
	s, err := w.cs.AppsV1().StatefulSets("default").Create(w.Context(), s, metav1.CreateOptions{})
	w.check(err)
	return s
}

// scale changes the number of pods and lets time pass.
func (w *world) scale(replicas int) {
	w.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	_, err := w.cs.AppsV1().StatefulSets("default").Patch(w.Context(), "db", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	w.check(err)
	w.pass(2 * time.Minute)
}

// running describes the pods that are ready: their nodes and volumes.
func (w *world) running() map[string]string {
	w.Helper()
	pods, err := w.cs.CoreV1().Pods("default").List(w.Context(), metav1.ListOptions{})
	w.check(err)
	found := map[string]string{}
	for _, p := range pods.Items {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				found[p.Name] = p.Spec.NodeName + " " + w.mounted(&p)
			}
		}
	}
	return found
}

// mounted is the volume that a pod has on its node.
func (w *world) mounted(p *corev1.Pod) string {
	w.Helper()
	node, err := w.c.Node(p.Spec.NodeName)
	w.check(err)
	var names []string
	for _, m := range node.Volumes().Mounted(p.UID) {
		if m.Persistent != nil {
			names = append(names, m.Name())
		}
	}
	return strings.Join(names, ",")
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	w.Helper()
	c, err := w.cs.CoreV1().PersistentVolumeClaims("default").Get(w.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.check(err)
	return c
}

// TestStatefulSet: each pod gets a volume on its node, and the same one again after it was deleted or scaled away.
func TestStatefulSet(t *testing.T) {
	inBubble(t, cluster.Nodes{}, func(w *world) {
		w.set(2)
		w.pass(2 * time.Minute)
		before := w.running()
		if len(before) != 2 || before["db-0"] == before["db-1"] {
			w.Fatalf("running: %v", before)
		}
		for pod, at := range before {
			node, volume, _ := strings.Cut(at, " ")
			claim := w.claim("data-" + pod)
			if volume == "" || !w.dirs.Has(node, volume) || claim.Spec.VolumeName != volume || *claim.Spec.StorageClassName != localvolumes.Class {
				w.Errorf("%s has %q of claim %s at %s", pod, volume, claim.Spec.VolumeName, node)
			}
		}
		w.check(w.cs.CoreV1().Pods("default").Delete(w.Context(), "db-0", metav1.DeleteOptions{}))
		w.pass(2 * time.Minute)
		w.scale(0)
		if left := w.running(); len(left) > 0 {
			w.Errorf("still running: %v", left)
		}
		w.scale(2)
		if after := w.running(); fmt.Sprint(after) != fmt.Sprint(before) {
			w.Errorf("running: %v, want %v", after, before)
		}

		// A claim in use stays; afterwards its volume and directory go.
		w.check(w.cs.CoreV1().PersistentVolumeClaims("default").Delete(w.Context(), "data-db-1", metav1.DeleteOptions{}))
		w.pass(time.Minute)
		node, volume, _ := strings.Cut(before["db-1"], " ")
		if w.claim("data-db-1") == nil || !w.dirs.Has(node, volume) {
			w.Error("the claim of a running pod is gone")
		}
		w.scale(1)
		_, err := w.cs.CoreV1().PersistentVolumes().Get(w.Context(), volume, metav1.GetOptions{})
		if w.claim("data-db-1") != nil || w.dirs.Has(node, volume) || !apierrors.IsNotFound(err) {
			w.Errorf("left: claim %v, directory %v, volume %v", w.claim("data-db-1"), w.dirs.Has(node, volume), err)
		}
	})
}

// TestRetention: claims go with the pods that are scaled away, and with the set, if it says so, and then their
// directories do.
func TestRetention(t *testing.T) {
	inBubble(t, cluster.Nodes{}, func(w *world) {
		w.set(2, func(s *appsv1.StatefulSet) {
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType, WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
			}
		})
		w.pass(2 * time.Minute)
		before := w.running()
		if len(before) != 2 {
			w.Fatalf("running: %v", before)
		}
		gone := func(pod string) bool {
			node, volume, _ := strings.Cut(before[pod], " ")
			return w.claim("data-"+pod) == nil && !w.dirs.Has(node, volume)
		}
		w.scale(1)
		if !gone("db-1") || gone("db-0") {
			w.Errorf("scaled: db-1 gone: %v, db-0 gone: %v", gone("db-1"), gone("db-0"))
		}
		w.check(w.cs.AppsV1().StatefulSets("default").Delete(w.Context(), "db", metav1.DeleteOptions{}))
		w.pass(5 * time.Minute)
		if !gone("db-0") {
			w.Error("deleted: the claim or its directory is left")
		}
	})
}

// TestMountFails: a pod whose volume cannot be mounted waits, with events, until it can.
func TestMountFails(t *testing.T) {
	var fails atomic.Bool
	fails.Store(true)
	inBubble(t, cluster.Nodes{Mount: func(_ context.Context, _ string, m claims.Mount) error {
		if fails.Load() && m.Persistent != nil {
			return errors.New("input/output error")
		}
		return nil
	}}, func(w *world) {
		w.set(1)
		w.pass(5 * time.Minute)
		if ready := w.running(); len(ready) > 0 {
			w.Fatalf("running: %v", ready)
		}
		events, err := w.cs.CoreV1().Events("default").List(w.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=db-0,reason=FailedMount"})
		w.check(err)
		want := fmt.Sprintf("MountVolume.SetUp failed for volume %q : input/output error", w.claim("data-db-0").Spec.VolumeName)
		// The kubelet may have seen the pod before the claim's status said that it is bound.
		told := slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Message == want && e.Count >= 5 })
		other := slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Message != want && !strings.Contains(e.Message, "PVC is not bound")
		})
		if !told || other {
			w.Errorf("events %+v, want %s", events.Items, want)
		}
		fails.Store(false)
		w.pass(3 * time.Minute)
		if ready := w.running(); len(ready) != 1 {
			w.Errorf("running: %v", ready)
		}
	})
}

// TestNodeRestarts: what a pod has mounted outlives the kubelet of a simulated node, like its containers.
func TestNodeRestarts(t *testing.T) {
	var mounts atomic.Int32
	inBubble(t, cluster.Nodes{Mount: func(_ context.Context, _ string, m claims.Mount) error {
		if m.Persistent != nil {
			mounts.Add(1)
		}
		return nil
	}}, func(w *world) {
		w.set(1)
		w.pass(2 * time.Minute)
		before := w.running()
		name, _, _ := strings.Cut(before["db-0"], " ")
		node, err := w.c.Node(name)
		w.check(err)
		node.Stop()
		node.Start()
		w.pass(2 * time.Minute)
		if after := w.running(); len(after) != 1 || after["db-0"] != before["db-0"] || mounts.Load() != 1 {
			w.Errorf("running %v, want %v; mounted %d times", after, before, mounts.Load())
		}
	})
}

// TestClass: the class that is there stays as it is, and may be one among others.
func TestClass(t *testing.T) {
	inBubble(t, cluster.Nodes{}, func(w *world) {
		class, err := w.cs.StorageV1().StorageClasses().Get(w.Context(), localvolumes.Class, metav1.GetOptions{})
		w.check(err)
		if class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" || class.Provisioner != "keelson.dev/local" ||
			*class.VolumeBindingMode != "WaitForFirstConsumer" || *class.ReclaimPolicy != "Delete" {
			w.Errorf("%+v", class)
		}
	})
}
