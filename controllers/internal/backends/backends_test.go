package backends_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/backends"
)

func TestPort(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	named := func(number int32, protocol corev1.Protocol) []corev1.ContainerPort {
		return []corev1.ContainerPort{{Name: "http", ContainerPort: number, Protocol: protocol}}
	}
	for name, tt := range map[string]struct {
		target intstr.IntOrString
		spec   corev1.PodSpec
		want   int32
	}{
		"number":         {intstr.FromInt32(81), corev1.PodSpec{}, 81},
		"name":           {intstr.FromString("http"), corev1.PodSpec{Containers: []corev1.Container{{}, {Ports: named(8080, corev1.ProtocolTCP)}}}, 8080},
		"other protocol": {intstr.FromString("http"), corev1.PodSpec{Containers: []corev1.Container{{Ports: named(8080, corev1.ProtocolUDP)}}}, 0},
		"sidecar":        {intstr.FromString("http"), corev1.PodSpec{InitContainers: []corev1.Container{{RestartPolicy: &always, Ports: named(9090, corev1.ProtocolTCP)}}}, 9090},
		"init container": {intstr.FromString("http"), corev1.PodSpec{InitContainers: []corev1.Container{{Ports: named(9090, corev1.ProtocolTCP)}}}, 0},
		"no such name":   {intstr.FromString("x"), corev1.PodSpec{Containers: []corev1.Container{{Ports: named(8080, corev1.ProtocolTCP)}}}, 0},
	} {
		got, ok := backends.Port(&corev1.Pod{Spec: tt.spec}, &corev1.ServicePort{TargetPort: tt.target, Protocol: corev1.ProtocolTCP})
		if got != tt.want || ok != (tt.want != 0) {
			t.Errorf("%s: %d, %t; want %d", name, got, ok, tt.want)
		}
	}
}

func TestTriggers(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", CreationTimestamp: metav1.NewTime(at(10))}}
	pod := func(name string, ready int64) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, LastTransitionTime: metav1.NewTime(at(ready))}}}}
	}
	triggers := backends.NewTriggers()
	for i, tt := range []struct {
		pods []*corev1.Pod
		want int64 // 0 is none
	}{
		{[]*corev1.Pod{pod("a", 20)}, 10}, // new: its creation
		{[]*corev1.Pod{pod("a", 20)}, 0},
		{[]*corev1.Pod{pod("a", 30), pod("b", 25)}, 25}, // the earliest change
		{[]*corev1.Pod{pod("a", 40), pod("b", 25)}, 40},
		{[]*corev1.Pod{pod("b", 25)}, 0},
	} {
		got := triggers.Time(service, tt.pods)
		if tt.want == 0 && !got.IsZero() || tt.want != 0 && !got.Equal(at(tt.want)) {
			t.Errorf("look %d: %v, want %d", i, got, tt.want)
		}
	}
	triggers.Forget(controllers.Key{Namespace: "ns", Name: "web"})
	if got := triggers.Time(service, nil); !got.Equal(at(10)) {
		t.Errorf("forgotten: %v", got)
	}
	const annotation = corev1.EndpointsLastChangeTriggerTime
	if got := backends.Annotate(nil, at(0)); got[annotation] != "1970-01-01T00:00:00Z" {
		t.Errorf("annotated %v", got)
	}
	if got := backends.Annotate(map[string]string{annotation: "x"}, time.Time{}); len(got) != 0 {
		t.Errorf("no trigger: %v", got)
	}
}
