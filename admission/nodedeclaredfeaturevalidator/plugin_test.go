package nodedeclaredfeaturevalidator_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/nodedeclaredfeaturevalidator"
	"github.com/keelson-dev/keelson/informer"
)

var _ nodedeclaredfeaturevalidator.Nodes = (*informer.Informer[*corev1.Node])(nil)

// nodes is a cache of the node "n", which declares these features.
type nodes []string

func (n nodes) Get(namespace, name string) (*corev1.Node, bool) {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{DeclaredFeatures: n}}, namespace == "" && name == "n"
}

// pod has resources of its own.
func pod(node string, generation int64, cpu string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Generation: generation}, Spec: corev1.PodSpec{
		NodeName:  node,
		Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}},
	}}
}

const feature = "InPlacePodLevelResourcesVerticalScaling"

func TestPlugin(t *testing.T) {
	resize := admissiontest.Subresource("resize")
	const lacking = `pods "p" is forbidden: pod update requires features ` + feature + ` which are not available on node "n"`
	for name, c := range map[string]struct {
		nodes   nodes
		r       *admission.Request
		refused string
	}{
		"declared":       {nodes{feature, "x"}, admissiontest.Update(t, pod("n", 1, "1"), pod("n", 2, "2"), resize), ""},
		"not declared":   {nodes{"x"}, admissiontest.Update(t, pod("n", 1, "1"), pod("n", 2, "2"), resize), lacking},
		"a plain update": {nil, admissiontest.Update(t, pod("n", 1, "1"), pod("n", 2, "2")), lacking},
		"nothing needed": {nil, admissiontest.Update(t, pod("n", 1, "1"), pod("n", 2, "1")), ""},
		"the same spec":  {nil, admissiontest.Update(t, pod("n", 1, "1"), pod("n", 1, "2")), ""},
		"no node":        {nil, admissiontest.Update(t, pod("", 1, "1"), pod("", 2, "2")), ""},
		"a node that is gone": {nil, admissiontest.Update(t, pod("m", 1, "1"), pod("m", 2, "2")),
			`pods "p" is forbidden: node "m" not found`},
		"nothing needed of it": {nil, admissiontest.Update(t, pod("m", 1, "1"), pod("m", 2, "1")), ""},
		"a status":             {nil, admissiontest.Update(t, pod("n", 1, "1"), pod("n", 2, "2"), admissiontest.Subresource("status")), ""},
		"another resource":     {nil, admissiontest.Update(t, pod("n", 1, "1"), pod("n", 2, "2"), func(r *admission.Request) { r.Resource.Group = "x" }), ""},
		"no pod": {nil, admissiontest.Update(t, pod("n", 1, "1"), pod("n", 2, "2"), func(r *admission.Request) { r.Object = &corev1.Node{} }),
			"expected a pod but got a *v1.Node"},
		"no pod before": {nil, admissiontest.Update(t, pod("n", 1, "1"), pod("n", 2, "2"), func(r *admission.Request) { r.OldObject = &corev1.Node{} }),
			"expected an old pod but got a *v1.Node"},
	} {
		t.Run(name, func(t *testing.T) {
			p := nodedeclaredfeaturevalidator.New(c.nodes)
			if c.refused != "" {
				admissiontest.Refuses(t, p, c.r, c.refused)
				return
			}
			admissiontest.TestPlugin(t, p, c.r)
			admissiontest.Admits(t, p, c.r, c.r.Object)
		})
	}
	if p := nodedeclaredfeaturevalidator.New(nil); p.Handles(admission.Create) || p.Handles(admission.Delete) {
		t.Error("it handles more than updates")
	}
}

func Example() {
	p := nodedeclaredfeaturevalidator.New(nodes{})
	r := &admission.Request{
		Operation: admission.Update, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Subresource: "resize", Name: "p",
		OldObject: pod("n", 1, "1"), Object: pod("n", 2, "2"),
	}
	fmt.Println(p.Validate(context.Background(), r))
	// Output: pods "p" is forbidden: pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node "n"
}
