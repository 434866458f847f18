package extendedresourcetoleration_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/extendedresourcetoleration"
)

// container requests one of each.
func container(names ...corev1.ResourceName) corev1.Container {
	c := corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	for _, name := range names {
		c.Resources.Requests[name] = resource.MustParse("1")
	}
	return c
}

func pod(tolerations []corev1.Toleration, init, main corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{init}, Containers: []corev1.Container{main}, Tolerations: tolerations,
	}}
}

func device(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
}

func TestPlugin(t *testing.T) {
	p := extendedresourcetoleration.New()
	own := corev1.Toleration{Key: "mine", Operator: corev1.TolerationOpExists}
	timed := device("example.com/gpu")
	timed.TolerationSeconds = new(int64(5))
	other := device("example.com/gpu")
	other.Effect = corev1.TaintEffectNoExecute
	long := corev1.ResourceName("example.com/a123456789012345678901234567890123456789012345678901234567890123")
	for name, c := range map[string]struct {
		given      []corev1.Toleration
		init, main corev1.Container
		want       []corev1.Toleration
	}{
		"none":                  {[]corev1.Toleration{own}, container(), container("cpu", "memory", "hugepages-2Mi", "kubernetes.io/x", "x.kubernetes.io/y"), []corev1.Toleration{own}},
		"sorted":                {[]corev1.Toleration{own}, container("example.com/tpu"), container("example.com/gpu"), []corev1.Toleration{own, device("example.com/gpu"), device("example.com/tpu")}},
		"twice":                 {nil, container("example.com/gpu"), container("example.com/gpu"), []corev1.Toleration{device("example.com/gpu")}},
		"there already":         {[]corev1.Toleration{device("example.com/gpu")}, container(), container("example.com/gpu"), []corev1.Toleration{device("example.com/gpu")}},
		"replaced":              {[]corev1.Toleration{timed, own}, container(), container("example.com/gpu"), []corev1.Toleration{device("example.com/gpu"), own}},
		"both":                  {[]corev1.Toleration{timed, device("example.com/gpu")}, container(), container("example.com/gpu"), []corev1.Toleration{timed, device("example.com/gpu")}},
		"another effect":        {[]corev1.Toleration{other}, container(), container("example.com/gpu"), []corev1.Toleration{other, device("example.com/gpu")}},
		"names of quotas":       {nil, container(), container("requests.example.com/gpu"), nil},
		"names no quota counts": {nil, container(), container(long), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := admissiontest.Create(t, pod(c.given, c.init, c.main))
			admissiontest.TestPlugin(t, p, r)
			admissiontest.Admits(t, p, r, pod(c.want, c.init, c.main))
		})
	}
	gpu := pod(nil, container(), container("example.com/gpu"))
	admissiontest.Admits(t, p, admissiontest.Update(t, gpu, gpu), pod([]corev1.Toleration{device("example.com/gpu")}, container(), container("example.com/gpu")))
	admissiontest.Admits(t, p, admissiontest.Create(t, gpu, admissiontest.Subresource("status")), gpu)
	admissiontest.Admits(t, p, admissiontest.Create(t, gpu, func(r *admission.Request) { r.Resource.Group = "x" }), gpu)
	node := func(r *admission.Request) { r.Object = &corev1.Node{} }
	admissiontest.Refuses(t, p, admissiontest.Create(t, gpu, node), "expected *core.Pod but got *v1.Node")
	if p.Handles(admission.Delete) {
		t.Error("it handles deletes")
	}
}

func Example() {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("example.com/gpu")}}}
	r := &admission.Request{Operation: admission.Create, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Object: pod}
	fmt.Println(extendedresourcetoleration.New().Admit(context.Background(), r), pod.Spec.Tolerations[0].Key, pod.Spec.Tolerations[0].Operator)
	// Output: <nil> example.com/gpu Exists
}
