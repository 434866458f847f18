package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cluster"
)

// zoned returns options for three nodes, the last of them in a zone of its own.
func zoned() cluster.Options {
	return cluster.Options{Nodes: cluster.Nodes{Count: 3, Prepare: func(n *corev1.Node) {
		zone := "a"
		if n.Name == "node-2" {
			zone = "b"
		}
		metav1.SetMetaDataLabel(&n.ObjectMeta, corev1.LabelTopologyZone, zone)
	}}}
}

// TestAntiAffinity: a deployment whose pods stay apart has one on each node, and one pod too many waits until another is
// deleted.
func TestAntiAffinity(t *testing.T) {
	cs := clientset(t, start(t, zoned()).Config())
	eventually(t, "nodes take pods", func() error {
		nodes, err := cs.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range nodes.Items {
			if len(n.Spec.Taints) > 0 {
				return fmt.Errorf("%s has taints %v", n.Name, n.Spec.Taints)
			}
		}
		if len(nodes.Items) < 3 {
			return fmt.Errorf("there are %d nodes", len(nodes.Items))
		}
		return nil
	})
	d := deploymentOf("web", 4)
	d.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: d.Spec.Selector}},
	}}
	if _, err := cs.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const message = "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules."
	var waiting string
	eventually(t, "one pod on each node, one waits", func() error {
		pods, err := podsOf(t.Context(), cs, "web")
		if err != nil {
			return err
		}
		on := map[string]int{}
		for _, p := range pods {
			on[p.Spec.NodeName]++
			for _, c := range p.Status.Conditions {
				if p.Spec.NodeName == "" && c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable && strings.HasPrefix(c.Message, message) {
					waiting = p.Name
				}
			}
		}
		if fmt.Sprint(on) != "map[:1 node-0:1 node-1:1 node-2:1]" || waiting == "" {
			return fmt.Errorf("%v, waiting: %q", on, waiting)
		}
		return nil
	})
	eventually(t, "an event", func() error {
		events, err := cs.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedScheduling,involvedObject.name=" + waiting})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.HasPrefix(e.Message, message) }) {
			return fmt.Errorf("events are %v", events.Items)
		}
		return nil
	})
	three := []byte(`{"spec":{"replicas":3}}`)
	if _, err := cs.AppsV1().Deployments("default").Patch(t.Context(), "web", types.MergePatchType, three, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "three pods run", running(t.Context(), cs, "web", 3))
}

// TestSpreadByZone: both zones have as many pods of a deployment, though one has more nodes.
func TestSpreadByZone(t *testing.T) {
	cs := clientset(t, start(t, zoned()).Config())
	d := deploymentOf("web", 6)
	d.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: d.Spec.Selector,
	}}
	if _, err := cs.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "six pods run", running(t.Context(), cs, "web", 6))
	pods, err := podsOf(t.Context(), cs, "web")
	if err != nil {
		t.Fatal(err)
	}
	inB := 0
	for _, p := range pods {
		if p.Spec.NodeName == "node-2" {
			inB++
		}
	}
	if inB != 3 {
		t.Errorf("%d of 6 pods are in zone b", inB)
	}
}
