package signature_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/schedulertest"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// Pods with equal signatures have equal fields, and vice versa.
func TestSignaturesDistinguishPods(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	type fields struct {
		requests    scheduler.Resources
		tolerations []corev1.Toleration
		selector    map[string]string
		affinity    *corev1.NodeAffinity
	}
	seen := map[string]fields{}
	for i := range 3000 {
		p := schedulertest.RandomPod(r, i)
		b, ok := signature.Requests(nil, p)
		if !ok {
			t.Fatalf("no signature of %s", p.Name)
		}
		b = signature.Tolerations(b, p)
		b = signature.NodeAffinity(b, p)
		f := fields{scheduler.Requests(p), p.Spec.Tolerations, p.Spec.NodeSelector, nil}
		if p.Spec.Affinity != nil {
			f.affinity = p.Spec.Affinity.NodeAffinity
		}
		if was, ok := seen[string(b)]; ok && !reflect.DeepEqual(was, f) {
			t.Fatalf("%q is %+v and %+v", b, was, f)
		}
		seen[string(b)] = f

		twin := p.DeepCopy()
		twin.Name, twin.Spec.NodeName = "twin", "node"
		again, _ := signature.Requests(nil, twin)
		again = signature.Tolerations(again, twin)
		if again = signature.NodeAffinity(again, twin); string(again) != string(b) {
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

// The boundaries between fields are unambiguous, whatever the fields contain.
func TestFieldsDoNotRunTogether(t *testing.T) {
	tolerating := func(n int) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Tolerations: make([]corev1.Toleration, n)}}
	}
	empty := func(b []byte, n int) []byte {
		for range n {
			b = signature.String(b, "")
		}
		return b
	}
	if a, b := empty(signature.Tolerations(nil, tolerating(1)), 4), empty(signature.Tolerations(nil, tolerating(2)), 0); string(a) == string(b) {
		t.Errorf("both are %q", a)
	}
	overhead := func(value string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Overhead: corev1.ResourceList{"cpu": resource.MustParse(value)}}}
	}
	of := func(p *corev1.Pod, s string) string {
		b, _ := signature.Requests(nil, p)
		return string(signature.String(b, s))
	}
	if a, b := of(overhead("1"), "12345678901"), of(overhead("11"), "1"); strings.HasPrefix(a, b) {
		t.Errorf("%q begins %q", b, a)
	}
	selecting := func(b []byte, n int) []byte {
		for range n {
			b = signature.NodeAffinity(b, &corev1.Pod{})
		}
		return b
	}
	if a, b := selecting(nil, 1), selecting(nil, 2); string(a) == string(b) {
		t.Errorf("both are %q", a)
	}
}

func TestNoSignatureAfterRunning(t *testing.T) {
	for name, p := range map[string]*corev1.Pod{
		"containers": {Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{}}}},
		"init":       {Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{}}}},
		"actual":     {Status: corev1.PodStatus{Resources: &corev1.ResourceRequirements{}}},
		"resources":  {Status: corev1.PodStatus{AllocatedResources: corev1.ResourceList{"cpu": resource.MustParse("1")}}},
		"resize":     {Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodResizePending}}}},
	} {
		if _, ok := signature.Requests(nil, p); ok {
			t.Errorf("%s: has a signature", name)
		}
	}
}

func requesting(pairs ...string) corev1.Container {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: l}}
}

// Each of these pods has a signature of its own.
func TestRequestsDistinguishContainers(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := requesting("cpu", "1")
	sidecar.RestartPolicy = &always
	one, two := requesting("cpu", "1"), requesting("memory", "1")
	both, whole := requesting("cpu", "1", "memory", "1"), requesting("cpu", "1").Resources
	apart(t, signature.Requests, map[string]corev1.PodSpec{
		"nothing":             {},
		"a container":         {Containers: []corev1.Container{{}}},
		"two containers":      {Containers: []corev1.Container{{}, {}}},
		"with CPU":            {Containers: []corev1.Container{one}},
		"with little CPU":     {Containers: []corev1.Container{requesting("cpu", "1m")}},
		"with least CPU":      {Containers: []corev1.Container{requesting("cpu", "2m")}},
		"with much":           {Containers: []corev1.Container{requesting("memory", "9223372036854775")}},
		"with more":           {Containers: []corev1.Container{requesting("memory", "9223372036854776")}},
		"with yet more":       {Containers: []corev1.Container{requesting("memory", "9223372036854777")}},
		"with immense":        {Containers: []corev1.Container{requesting("memory", "2305843009213693952")}},
		"with twice that":     {Containers: []corev1.Container{requesting("memory", "4611686018427387904")}},
		"init one":            {InitContainers: []corev1.Container{one}},
		"init both":           {InitContainers: []corev1.Container{both}},
		"init one by one":     {InitContainers: []corev1.Container{one, two}},
		"sidecar":             {InitContainers: []corev1.Container{sidecar}},
		"in one":              {Containers: []corev1.Container{both}},
		"in two":              {Containers: []corev1.Container{one, two}},
		"as a whole":          {Resources: &whole},
		"as overhead":         {Overhead: whole.Requests},
		"init and containers": {InitContainers: []corev1.Container{one}, Containers: []corev1.Container{two}},
	})
}

// apart checks that the signatures of pods differ, and are deterministic.
func apart(t *testing.T, of func([]byte, *corev1.Pod) ([]byte, bool), specs map[string]corev1.PodSpec) {
	t.Helper()
	seen := map[string]string{}
	for name, spec := range specs {
		b, ok := of(nil, &corev1.Pod{Spec: spec})
		if other := seen[string(b)]; !ok || other != "" {
			t.Errorf("%s: %q, as of %q; %v", name, b, other, ok)
		}
		seen[string(b)] = name
		for range 20 { // maps have no order
			if again, _ := of(nil, (&corev1.Pod{Spec: spec}).DeepCopy()); string(again) != string(b) {
				t.Fatalf("%s: %q, then %q", name, b, again)
			}
		}
	}
}

func TestNodeAffinityDistinguishesSelectors(t *testing.T) {
	of := func(b []byte, pod *corev1.Pod) ([]byte, bool) { return signature.NodeAffinity(b, pod), true }
	apart(t, of, map[string]corev1.PodSpec{
		"none":           {},
		"empty":          {NodeSelector: map[string]string{}},
		"one":            {NodeSelector: map[string]string{"a": "b"}},
		"another":        {NodeSelector: map[string]string{"a": "c"}},
		"many":           {NodeSelector: map[string]string{"a": "b", "b": "c", "c": "d", "d": "e", "e": "f", "f": "g"}},
		"affinity":       {Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}},
		"no restriction": {NodeSelector: map[string]string{"x": "y"}, Affinity: &corev1.Affinity{}},
	})
}

// Other parts of a pod's affinity do not affect the signature.
func TestOtherAffinityDoesNotCount(t *testing.T) {
	none := signature.NodeAffinity(nil, &corev1.Pod{})
	other := signature.NodeAffinity(nil, &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}}})
	if string(none) != string(other) {
		t.Errorf("%q and %q", none, other)
	}
}
