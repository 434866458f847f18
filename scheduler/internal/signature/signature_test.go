package signature_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/internal/signature"
	"github.com/keelson-dev/keelson/scheduler/schedulertest"
)

// Pods of one signature have the same fields; pods of the same fields have one signature.
func TestSignaturesTellPodsApart(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	type fields struct {
		requests    scheduler.Resources
		tolerations []corev1.Toleration
		selector    map[string]string
		affinity    *corev1.Affinity
	}
	seen := map[string]fields{}
	for i := range 3000 {
		p := schedulertest.RandomPod(r, i)
		b, ok := signature.Requests(nil, p)
		if !ok {
			t.Fatalf("no signature of %s", p.Name)
		}
		b = append(signature.Tolerations(append(b, 0xff), p), 0xff)
		if b, ok = signature.NodeAffinity(b, p); !ok {
			t.Fatalf("no signature of %s", p.Name)
		}
		f := fields{scheduler.Requests(p), p.Spec.Tolerations, p.Spec.NodeSelector, p.Spec.Affinity}
		if was, ok := seen[string(b)]; ok && !reflect.DeepEqual(was, f) {
			t.Fatalf("%q is %+v and %+v", b, was, f)
		}
		seen[string(b)] = f

		twin := p.DeepCopy()
		twin.Name, twin.Spec.NodeName = "twin", "node"
		again, _ := signature.Requests(nil, twin)
		again = append(signature.Tolerations(append(again, 0xff), twin), 0xff)
		if again, _ = signature.NodeAffinity(again, twin); string(again) != string(b) {
			t.Fatalf("%q of the twin of %q", again, b)
		}
	}
	if len(seen) < 300 {
		t.Errorf("only %d signatures", len(seen))
	}
}

func TestStringsDoNotRunTogether(t *testing.T) {
	if a, b := signature.String(signature.String(nil, "a"), "bc"), signature.String(signature.String(nil, "ab"), "c"); string(a) == string(b) {
		t.Errorf("both are %q", a)
	}
}

func TestPodsThatRanHaveNone(t *testing.T) {
	for name, p := range map[string]*corev1.Pod{
		"containers": {Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{}}}},
		"resources":  {Status: corev1.PodStatus{AllocatedResources: corev1.ResourceList{"cpu": resource.MustParse("1")}}},
		"resize":     {Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodResizePending}}}},
	} {
		if _, ok := signature.Requests(nil, p); ok {
			t.Errorf("%s: has a signature", name)
		}
	}
}
