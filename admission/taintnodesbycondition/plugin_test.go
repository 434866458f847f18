package taintnodesbycondition_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/taintnodesbycondition"
)

func node(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: taints}}
}

func TestPlugin(t *testing.T) {
	p := taintnodesbycondition.New()
	notReady := corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}
	other := corev1.Taint{Key: "mine", Value: "x", Effect: corev1.TaintEffectNoSchedule}
	evicts := corev1.Taint{Key: notReady.Key, Effect: corev1.TaintEffectNoExecute}
	valued := corev1.Taint{Key: notReady.Key, Value: "x", Effect: corev1.TaintEffectNoSchedule}
	for name, test := range map[string]struct{ given, want *corev1.Node }{
		"none":               {node(), node(notReady)},
		"another":            {node(other), node(other, notReady)},
		"of another effect":  {node(evicts), node(evicts, notReady)},
		"the same":           {node(notReady), node(notReady)},
		"of whichever value": {node(valued), node(valued)},
	} {
		t.Run(name, func(t *testing.T) {
			admissiontest.Admits(t, p, admissiontest.Create(t, test.given), test.want)
		})
	}
	admissiontest.Admits(t, p, admissiontest.Update(t, node(notReady), node()), node()) // a removed taint stays removed
	admissiontest.Admits(t, p, admissiontest.Create(t, node(), admissiontest.Subresource("status")), node())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	admissiontest.Admits(t, p, admissiontest.Create(t, pod), pod)
	strange := admissiontest.Create(t, node(), func(r *admission.Request) { r.Object = pod })
	admissiontest.Refuses(t, p, strange, `nodes "n" is forbidden: unexpected type *v1.Pod`)
	admissiontest.TestPlugin(t, p, admissiontest.Create(t, node()), admissiontest.Create(t, node(other)))
}

func Example() {
	node := &corev1.Node{}
	r := &admission.Request{Operation: admission.Create, Object: node}
	r.Resource.Resource = "nodes"
	fmt.Println(taintnodesbycondition.New().Admit(context.Background(), r), node.Spec.Taints[0].ToString())
	// Output: <nil> node.kubernetes.io/not-ready:NoSchedule
}
