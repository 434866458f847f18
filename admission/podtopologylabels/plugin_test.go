package podtopologylabels_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/podtopologylabels"
	"github.com/keelson-dev/keelson/informer"
)

var _ podtopologylabels.Nodes = (*informer.Informer[*corev1.Node])(nil)

// nodes is a cache of the node "n" with these labels.
type nodes map[string]string

func (n nodes) Get(namespace, name string) (*corev1.Node, bool) {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: n}}, namespace == "" && name == "n"
}

func pod(node string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: labels}, Spec: corev1.PodSpec{NodeName: node}}
}

func binding(kind, node string, labels map[string]string) *corev1.Binding {
	return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: labels}, Target: corev1.ObjectReference{Kind: kind, Name: node}}
}

func TestPlugin(t *testing.T) {
	type labels = map[string]string
	both := labels{"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}
	full := nodes{"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "topology.kubernetes.io/rack": "x", "a": "b"}
	bind := func(r *admission.Request) {
		r.Resource.Resource, r.Subresource = "pods", "binding"
	}
	for name, c := range map[string]struct {
		nodes nodes
		r     *admission.Request
		want  admissiontest.Object
	}{
		"a binding":         {full, admissiontest.Create(t, binding("Node", "n", nil), bind), binding("Node", "n", both)},
		"its own labels":    {full, admissiontest.Create(t, binding("Node", "n", labels{"x": "y", "topology.kubernetes.io/zone": "q"}), bind), binding("Node", "n", labels{"x": "y", "topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"})},
		"a zone only":       {nodes{"topology.kubernetes.io/zone": ""}, admissiontest.Create(t, binding("Node", "n", nil), bind), binding("Node", "n", labels{"topology.kubernetes.io/zone": ""})},
		"no labels":         {nodes{"a": "b"}, admissiontest.Create(t, binding("Node", "n", nil), bind), binding("Node", "n", nil)},
		"another node":      {full, admissiontest.Create(t, binding("Node", "m", nil), bind), binding("Node", "m", nil)},
		"no node":           {full, admissiontest.Create(t, binding("Rack", "n", nil), bind), binding("Rack", "n", nil)},
		"a pod on a node":   {full, admissiontest.Create(t, pod("n", labels{"x": "y"})), pod("n", labels{"x": "y", "topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"})},
		"a pod":             {full, admissiontest.Create(t, pod("", nil)), pod("", nil)},
		"its status":        {full, admissiontest.Create(t, pod("n", nil), admissiontest.Subresource("status")), pod("n", nil)},
		"another resource":  {full, admissiontest.Create(t, pod("n", nil), func(r *admission.Request) { r.Resource.Group = "x" }), pod("n", nil)},
		"bindings, the old": {full, admissiontest.Create(t, binding("Node", "n", nil)), binding("Node", "n", nil)},
	} {
		t.Run(name, func(t *testing.T) {
			p := podtopologylabels.New(c.nodes)
			admissiontest.TestPlugin(t, p, c.r)
			admissiontest.Admits(t, p, c.r, c.want)
		})
	}
	p := podtopologylabels.New(full)
	for message, r := range map[string]*admission.Request{
		"expected Pod but got *v1.Binding": admissiontest.Create(t, binding("Node", "n", nil), bind, admissiontest.Subresource("")),
		"expected Binding but got Pod":     admissiontest.Create(t, pod("n", nil), admissiontest.Subresource("binding")),
	} {
		if _, err := admissiontest.Run(t, p, r); err == nil || err.Error() != message {
			t.Errorf("got %v, want %s", err, message)
		}
	}
	if p.Handles(admission.Update) {
		t.Error("it handles updates")
	}
}

func Example() {
	b := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	r := &admission.Request{Operation: admission.Create, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Subresource: "binding", Object: b}
	fmt.Println(podtopologylabels.New(nodes{corev1.LabelTopologyZone: "europe-1b"}).Admit(context.Background(), r), b.Labels)
	// Output: <nil> map[topology.kubernetes.io/zone:europe-1b]
}
