package podresizevalidator_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/podresizevalidator"
	"github.com/keelson-dev/keelson/informer"
)

var _ podresizevalidator.Nodes = (*informer.Informer[*corev1.Node])(nil)

// nodes is a cache of the node "n", which has two CPUs and a GiB.
type nodes struct{ labels map[string]string }

func (n nodes) Get(namespace, name string) (*corev1.Node, bool) {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: n.labels}, Status: corev1.NodeStatus{Allocatable: resources("2", "1Gi")}}, namespace == "" && name == "n"
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

func pod(node string, generation int64, cpu, memory string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Generation: generation}, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: resources(cpu, memory)}}},
	}}
}

func TestPlugin(t *testing.T) {
	resize := admissiontest.Subresource("resize")
	linux, windows := nodes{map[string]string{corev1.LabelOSStable: "linux"}}, nodes{map[string]string{corev1.LabelOSStable: "windows"}}
	const scarce = `pods "p" is forbidden: node didn't have enough allocatable resources: `
	for name, c := range map[string]struct {
		nodes   nodes
		r       *admission.Request
		refused string
		cause   metav1.CauseType
	}{
		"all of the node": {linux, admissiontest.Update(t, pod("n", 1, "1", "1"), pod("n", 2, "2", "1Gi"), resize), "", ""},
		"too much CPU": {linux, admissiontest.Update(t, pod("n", 1, "1", "1"), pod("n", 2, "2001m", "1Gi"), resize),
			scarce + "cpu, requested: 2001, allocatable: 2000", podresizevalidator.ReasonNodeCapacity},
		"too much memory": {linux, admissiontest.Update(t, pod("n", 1, "1", "1"), pod("n", 2, "2", "1025Mi"), resize),
			scarce + "memory, requested: 1074790400, allocatable: 1073741824", podresizevalidator.ReasonNodeCapacity},
		"too much of both": {linux, admissiontest.Update(t, pod("n", 1, "1", "1"), pod("n", 2, "3", "2Gi"), resize),
			scarce + "cpu, requested: 3000, allocatable: 2000; memory, requested: 2147483648, allocatable: 1073741824", podresizevalidator.ReasonNodeCapacity},
		"another system": {windows, admissiontest.Update(t, pod("n", 1, "1", "1"), pod("n", 2, "2", "1"), resize),
			`pods "p" is forbidden: pod resize is only supported on linux nodes, node "n" is "windows"`, podresizevalidator.ReasonUnsupportedPlatform},
		"a system nobody tells": {nodes{}, admissiontest.Update(t, pod("n", 1, "1", "1"), pod("n", 2, "2", "1"), resize), "", ""},
		"a node that is gone":   {linux, admissiontest.Update(t, pod("m", 1, "1", "1"), pod("m", 2, "2", "1"), resize), `pods "p" is forbidden: node "m" not found`, ""},
		"no node":               {linux, admissiontest.Update(t, pod("", 1, "1", "1"), pod("", 2, "9", "1"), resize), "", ""},
		"the same spec":         {linux, admissiontest.Update(t, pod("n", 1, "9", "1"), pod("n", 1, "9", "1"), resize), "", ""},
		"no resize":             {linux, admissiontest.Update(t, pod("n", 1, "1", "1"), pod("n", 2, "9", "1")), "", ""},
		"another resource":      {linux, admissiontest.Update(t, pod("n", 1, "1", "1"), pod("n", 2, "9", "1"), resize, func(r *admission.Request) { r.Resource.Group = "x" }), "", ""},
		"no pod":                {linux, admissiontest.Update(t, pod("n", 1, "1", "1"), pod("n", 2, "9", "1"), resize, func(r *admission.Request) { r.Object = &corev1.Node{} }), "expected a pod but got a *v1.Node", ""},
		"no pod before":         {linux, admissiontest.Update(t, pod("n", 1, "1", "1"), pod("n", 2, "9", "1"), resize, func(r *admission.Request) { r.OldObject = &corev1.Node{} }), "expected an old pod but got a *v1.Node", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := podresizevalidator.New(c.nodes)
			if c.refused == "" {
				admissiontest.TestPlugin(t, p, c.r)
				admissiontest.Admits(t, p, c.r, c.r.Object)
				return
			}
			err := admissiontest.Refuses(t, p, c.r, c.refused)
			if c.cause != "" && (len(err.Causes) != 1 || err.Causes[0].Type != c.cause) {
				t.Errorf("causes %v", err.Causes)
			}
		})
	}
	if p := podresizevalidator.New(linux); p.Handles(admission.Create) || p.Handles(admission.Delete) {
		t.Error("it handles more than updates")
	}
}

func Example() {
	r := &admission.Request{
		Operation: admission.Update, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Subresource: "resize", Name: "p",
		OldObject: pod("n", 1, "1", "1"), Object: pod("n", 2, "64", "1"),
	}
	fmt.Println(podresizevalidator.New(nodes{}).Validate(context.Background(), r))
	// Output: pods "p" is forbidden: node didn't have enough allocatable resources: cpu, requested: 64000, allocatable: 2000
}
