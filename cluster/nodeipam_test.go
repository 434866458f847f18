package cluster_test

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/controllers/nodeipam"
)

// TestNodeIPAM: nodes get networks beside those that others have; nothing is refused to the controller.
func TestNodeIPAM(t *testing.T) {
	seen := newWitness()
	o := seen.options(nodes(2)) // 10.64.0.0/24 and 10.64.1.0/24
	o.Components = append(cluster.DefaultComponents(), controllermanager.NodeIPAM(nodeipam.Options{
		Networks: []netip.Prefix{netip.MustParsePrefix("10.64.0.0/22")}, Services: []netip.Prefix{netip.MustParsePrefix("10.64.2.0/24")},
	}))
	inBubble(t, o, func(t *testing.T, w *world) {
		for _, name := range []string{"late", "later"} {
			_, err := w.cs.CoreV1().Nodes().Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			w.check(err)
			time.Sleep(time.Minute)
		}
		for name, want := range map[string]string{"node-0": "10.64.0.0/24", "node-1": "10.64.1.0/24", "late": "10.64.3.0/24", "later": ""} {
			node, err := w.cs.CoreV1().Nodes().Get(w.ctx, name, metav1.GetOptions{})
			w.check(err)
			if node.Spec.PodCIDR != want {
				t.Errorf("node %s has %q, want %q", name, node.Spec.PodCIDR, want)
			}
		}
		events, err := w.cs.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=later,reason=CIDRNotAvailable"})
		w.check(err)
		if len(events.Items) == 0 || events.Items[0].Source.Component != "cidrAllocator" {
			t.Errorf("events: %v", events.Items)
		}
		if !seen.wrote("system:serviceaccount:kube-system:node-controller") {
			t.Error("the controller did not act as itself")
		}
		for _, bad := range seen.violations(t, w.c) {
			t.Error(bad)
		}
	})
}
