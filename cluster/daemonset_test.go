package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func daemonSetOf(name string) *appsv1.DaemonSet {
	d := deploymentOf(name, 0)
	return &appsv1.DaemonSet{ObjectMeta: d.ObjectMeta, Spec: appsv1.DaemonSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template}}
}

func (w *world) createDaemonSet(set *appsv1.DaemonSet) {
	w.t.Helper()
	_, err := w.cs.AppsV1().DaemonSets("default").Create(w.ctx, set, metav1.CreateOptions{})
	w.check(err)
}

func (w *world) daemonSet(name string) *appsv1.DaemonSet {
	w.t.Helper()
	set, err := w.cs.AppsV1().DaemonSets("default").Get(w.ctx, name, metav1.GetOptions{})
	w.check(err)
	return set
}

func (w *world) changeDaemonSet(name string, change func(*appsv1.DaemonSet)) {
	w.t.Helper()
	set := w.daemonSet(name)
	change(set)
	_, err := w.cs.AppsV1().DaemonSets("default").Update(w.ctx, set, metav1.UpdateOptions{})
	w.check(err)
}

// onNodes fails unless the pods of an app run on these nodes, one on each, and all are of the image.
func (w *world) onNodes(app, image string, want ...string) {
	w.t.Helper()
	var got []string
	for _, pod := range w.running(app, len(want), image) {
		got = append(got, pod.Spec.NodeName)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s runs on %q, want %q", app, got, want)
	}
}

// wantDaemonSet fails unless so many nodes are to run a pod, all of which do.
func (w *world) wantDaemonSet(name string, nodes int32) {
	w.t.Helper()
	set := w.daemonSet(name)
	s := set.Status
	if s.DesiredNumberScheduled != nodes || s.CurrentNumberScheduled != nodes || s.NumberReady != nodes || s.NumberAvailable != nodes ||
		s.UpdatedNumberScheduled != nodes || s.NumberMisscheduled != 0 || s.NumberUnavailable != 0 || s.ObservedGeneration != set.Generation {
		w.t.Errorf("want %d nodes: %+v", nodes, s)
	}
}

// TestDaemonSet: a daemon set has a pod on every node, whatever becomes of the node, until the set is deleted.
func TestDaemonSet(t *testing.T) {
	inBubble(t, nodes(3), func(t *testing.T, w *world) {
		w.createDaemonSet(daemonSetOf("log"))
		time.Sleep(10 * time.Second)
		w.onNodes("log", "nginx", "node-0", "node-1", "node-2")
		w.wantDaemonSet("log", 3)

		// An unschedulable node gets its pod again.
		_, err := w.cs.CoreV1().Nodes().Patch(w.ctx, "node-2", types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
		w.check(err)
		time.Sleep(time.Second)
		for _, pod := range w.listed("log") {
			if pod.Spec.NodeName == "node-2" {
				w.check(w.pods.Delete(w.ctx, pod.Name, metav1.DeleteOptions{}))
			}
		}
		time.Sleep(10 * time.Second)
		w.onNodes("log", "nginx", "node-0", "node-1", "node-2")

		// A node that is silent keeps its pod; one that is removed does not, and gets another when it is back.
		w.silence("node-1", 10*time.Minute)
		if n := len(w.listed("log")); n != 3 {
			t.Errorf("%d pods while a node is silent", n)
		}
		w.check(w.cs.CoreV1().Nodes().Delete(w.ctx, "node-1", metav1.DeleteOptions{}))
		time.Sleep(2 * time.Minute)
		w.onNodes("log", "nginx", "node-0", "node-2")
		w.wantDaemonSet("log", 2)
		back, err := w.c.Node("node-1")
		w.check(err)
		back.Start()
		time.Sleep(time.Minute)
		w.onNodes("log", "nginx", "node-0", "node-1", "node-2")
		w.wantDaemonSet("log", 3)

		w.check(w.cs.AppsV1().DaemonSets("default").Delete(w.ctx, "log", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		revisions, err := w.cs.AppsV1().ControllerRevisions("default").List(w.ctx, metav1.ListOptions{})
		w.check(err)
		if n := len(w.listed("log")); n != 0 || len(revisions.Items) != 0 {
			t.Errorf("left %d pods and %d revisions", n, len(revisions.Items))
		}
	})
}

// TestDaemonSetRollout: a new template replaces the pods as far as the set allows, under a new revision, to which it can go
// back.
func TestDaemonSetRollout(t *testing.T) {
	for _, tt := range []struct {
		unavailable, surge intstr.IntOrString
		most, least        int
	}{
		{intstr.FromInt32(1), intstr.FromInt32(0), 3, 2}, {intstr.FromInt32(0), intstr.FromInt32(1), 4, 3},
	} {
		t.Run(fmt.Sprintf("unavailable %s surge %s", tt.unavailable.String(), tt.surge.String()), func(t *testing.T) {
			inBubble(t, nodes(3), func(t *testing.T, w *world) {
				set := daemonSetOf("log")
				set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &tt.unavailable, MaxSurge: &tt.surge}
				w.createDaemonSet(set)
				time.Sleep(10 * time.Second)
				b := w.observe("log")
				w.changeDaemonSet("log", func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.Containers[0].Image = "nginx:2" })
				time.Sleep(2 * time.Minute)
				b.stop()
				w.onNodes("log", "nginx:2", "node-0", "node-1", "node-2")
				w.wantDaemonSet("log", 3)
				if b.most != tt.most || b.least != tt.least {
					t.Errorf("at most %d pods and at least %d available (%s), want %d and %d", b.most, b.least, b.at, tt.most, tt.least)
				}
				w.changeDaemonSet("log", func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.Containers[0].Image = "nginx" })
				time.Sleep(2 * time.Minute)
				w.onNodes("log", "nginx", "node-0", "node-1", "node-2")
				revisions, err := w.cs.AppsV1().ControllerRevisions("default").List(w.ctx, metav1.ListOptions{})
				w.check(err)
				var numbers []int64
				for _, r := range revisions.Items {
					numbers = append(numbers, r.Revision)
				}
				slices.Sort(numbers)
				if !slices.Equal(numbers, []int64{2, 3}) {
					t.Errorf("revisions %v", numbers)
				}
			})
		})
	}
}

// TestDaemonSetEvents: its events come from upstream's source.
func TestDaemonSetEvents(t *testing.T) {
	inBubble(t, nodes(1), func(t *testing.T, w *world) {
		w.createDaemonSet(daemonSetOf("log"))
		time.Sleep(10 * time.Second)
		list, err := w.cs.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=DaemonSet"})
		w.check(err)
		if len(list.Items) != 1 {
			t.Fatalf("%d events", len(list.Items))
		}
		e := list.Items[0]
		if e.Type != corev1.EventTypeNormal || e.Reason != "SuccessfulCreate" || e.Source.Component != "daemonset-controller" || !strings.HasPrefix(e.Message, "Created pod: log-") {
			t.Errorf("event %+v", e)
		}
	})
}
