package cluster_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func statefulSetOf(name string, replicas int32) *appsv1.StatefulSet {
	d := deploymentOf(name, replicas)
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.StatefulSetSpec{Replicas: &replicas, ServiceName: name, Selector: d.Spec.Selector, Template: d.Spec.Template},
	}
}

func (w *world) changeStatefulSet(name string, change func(*appsv1.StatefulSet)) {
	w.t.Helper()
	set, err := w.cs.AppsV1().StatefulSets("default").Get(w.ctx, name, metav1.GetOptions{})
	w.check(err)
	change(set)
	_, err = w.cs.AppsV1().StatefulSets("default").Update(w.ctx, set, metav1.UpdateOptions{})
	w.check(err)
}

// TestStatefulSet: the pods of a set run under its names, an update replaces them, and its end is theirs. Every component
// acts under its own user, and is refused nothing.
func TestStatefulSet(t *testing.T) {
	seen := newWitness()
	inBubble(t, seen.options(nodes(2)), func(t *testing.T, w *world) {
		state := func() (text string) {
			t.Helper()
			for _, pod := range w.listed("db") {
				text += fmt.Sprintf("%s %s %s %s, ", pod.Name, pod.Spec.Hostname, pod.Spec.Containers[0].Image, pod.Status.Phase)
			}
			set, err := w.cs.AppsV1().StatefulSets("default").Get(w.ctx, "db", metav1.GetOptions{})
			w.check(err)
			revisions, err := w.cs.AppsV1().ControllerRevisions("default").List(w.ctx, metav1.ListOptions{})
			w.check(err)
			s := set.Status
			return text + fmt.Sprintf("%d of %d available, %d updated, complete %t, %d revisions",
				s.AvailableReplicas, s.Replicas, s.UpdatedReplicas, s.CurrentRevision == s.UpdateRevision, len(revisions.Items))
		}
		want := func(text string) {
			t.Helper()
			if got := state(); got != text {
				t.Errorf("\n got %s\nwant %s", got, text)
			}
		}
		set := statefulSetOf("db", 2)
		set.Spec.Template.Spec.Containers[0].Image = "db:1"
		_, err := w.cs.AppsV1().StatefulSets("default").Create(w.ctx, set, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Minute)
		want("db-0 db-0 db:1 Running, db-1 db-1 db:1 Running, 2 of 2 available, 2 updated, complete true, 1 revisions")

		w.changeStatefulSet("db", func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = "db:2" })
		time.Sleep(2 * time.Minute)
		want("db-0 db-0 db:2 Running, db-1 db-1 db:2 Running, 2 of 2 available, 2 updated, complete true, 2 revisions")

		w.check(w.cs.AppsV1().StatefulSets("default").Delete(w.ctx, "db", metav1.DeleteOptions{}))
		time.Sleep(2 * time.Minute)
		revisions, err := w.cs.AppsV1().ControllerRevisions("default").List(w.ctx, metav1.ListOptions{})
		w.check(err)
		if pods := w.listed("db"); len(pods) > 0 || len(revisions.Items) > 0 {
			t.Errorf("left %d pods and %d revisions", len(pods), len(revisions.Items))
		}
		for _, bad := range seen.violations(t, w.c) {
			t.Error(bad)
		}
	})
}

// TestStatefulSetClaims: claims are made for a set, and go with it if its policy says so.
func TestStatefulSetClaims(t *testing.T) {
	seen := newWitness()
	inBubble(t, seen.options(nodes(1)), func(t *testing.T, w *world) {
		set := statefulSetOf("db", 2)
		set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		}
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}}
		_, err := w.cs.AppsV1().StatefulSets("default").Create(w.ctx, set, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Minute)
		claims := func() (text string) {
			t.Helper()
			list, err := w.cs.CoreV1().PersistentVolumeClaims("default").List(w.ctx, metav1.ListOptions{})
			w.check(err)
			for _, c := range list.Items {
				text += c.Name + " "
				for _, owner := range c.OwnerReferences {
					text += "of " + owner.Kind + " "
				}
			}
			return text
		}
		if got := claims(); got != "data-db-0 of StatefulSet data-db-1 of StatefulSet " {
			t.Errorf("claims %s", got)
		}
		for i, pod := range w.listed("db") {
			if v := pod.Spec.Volumes[0]; v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != fmt.Sprintf("data-db-%d", i) {
				t.Errorf("%s has the volume %+v", pod.Name, v)
			}
		}
		w.check(w.cs.AppsV1().StatefulSets("default").Delete(w.ctx, "db", metav1.DeleteOptions{}))
		time.Sleep(2 * time.Minute)
		if got := claims(); got != "" || len(w.listed("db")) > 0 {
			t.Errorf("left claims %s and %d pods", got, len(w.listed("db")))
		}
		for _, bad := range seen.violations(t, w.c) {
			t.Error(bad)
		}
	})
}

func withoutStatefulSet(w *world) {
	_, err := w.cs.AppsV1().StatefulSets("default").Create(w.ctx, statefulSetOf("db", 1), metav1.CreateOptions{})
	w.check(err)
	time.Sleep(time.Minute)
	set, err := w.cs.AppsV1().StatefulSets("default").Get(w.ctx, "db", metav1.GetOptions{})
	w.check(err)
	if set.Status.ObservedGeneration != 0 || len(w.listed("db")) > 0 {
		w.t.Errorf("somebody saw to the stateful set: %+v", set.Status)
	}
}
