package defaulttolerationseconds_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/defaulttolerationseconds"
)

func pod(tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{Tolerations: tolerations}}
}

func toleration(key string, effect corev1.TaintEffect, seconds int64) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect, TolerationSeconds: &seconds}
}

func TestTolerations(t *testing.T) {
	const evict = corev1.TaintEffectNoExecute
	notReady, unreachable := "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	noSchedule := corev1.Toleration{Key: notReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	zero, minute := int64(0), int64(60)
	for name, test := range map[string]struct {
		options     defaulttolerationseconds.Options
		given, want []corev1.Toleration
	}{
		"none":           {want: []corev1.Toleration{toleration(notReady, evict, 300), toleration(unreachable, evict, 300)}},
		"both":           {given: []corev1.Toleration{toleration(notReady, evict, 1), toleration(unreachable, "", 2)}, want: []corev1.Toleration{toleration(notReady, evict, 1), toleration(unreachable, "", 2)}},
		"one":            {given: []corev1.Toleration{toleration(unreachable, evict, 1)}, want: []corev1.Toleration{toleration(unreachable, evict, 1), toleration(notReady, evict, 300)}},
		"everything":     {given: []corev1.Toleration{everything}, want: []corev1.Toleration{everything}},
		"another effect": {given: []corev1.Toleration{noSchedule}, want: []corev1.Toleration{noSchedule, toleration(notReady, evict, 300), toleration(unreachable, evict, 300)}},
		"other seconds":  {options: defaulttolerationseconds.Options{NotReadySeconds: &zero, UnreachableSeconds: &minute}, want: []corev1.Toleration{toleration(notReady, evict, 0), toleration(unreachable, evict, 60)}},
	} {
		t.Run(name, func(t *testing.T) {
			p := defaulttolerationseconds.New(test.options)
			create, update := admissiontest.Create(t, pod(test.given...)), admissiontest.Update(t, pod(), pod(test.given...))
			admissiontest.TestPlugin(t, p, create, update)
			admissiontest.Admits(t, p, create, pod(test.want...))
			admissiontest.Admits(t, p, update, pod(test.want...))
		})
	}
}

func TestLeavesTheRestAlone(t *testing.T) {
	p := defaulttolerationseconds.New(defaulttolerationseconds.Options{})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	admissiontest.Admits(t, p, admissiontest.Create(t, node), node)
	admissiontest.Admits(t, p, admissiontest.Update(t, pod(), pod(), admissiontest.Subresource("status")), pod())
	admissiontest.Refuses(t, p, admissiontest.Create(t, pod(), func(r *admission.Request) { r.Object = node }), "expected *v1.Pod but got *v1.Node")
}

func Example() {
	plugin := defaulttolerationseconds.New(defaulttolerationseconds.Options{})
	pod := &corev1.Pod{}
	r := &admission.Request{Operation: admission.Create, Object: pod}
	r.Resource.Resource = "pods"
	if err := plugin.Admit(context.Background(), r); err != nil {
		fmt.Println(err)
	}
	for _, t := range pod.Spec.Tolerations {
		fmt.Println(t.Key, *t.TolerationSeconds)
	}
	// Output:
	// node.kubernetes.io/not-ready 300
	// node.kubernetes.io/unreachable 300
}
