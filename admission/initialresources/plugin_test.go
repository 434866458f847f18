package initialresources_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/initialresources"
	"github.com/keelson-dev/keelson/admission/initialresources/memory"
)

// asked is a history that notes what it is asked.
type asked struct {
	answer func(q initialresources.Query) (initialresources.Usage, error)
	asked  []string
}

func (a *asked) Usage(ctx context.Context, q initialresources.Query) (initialresources.Usage, error) {
	if _, ok := ctx.Deadline(); !ok {
		a.asked = append(a.asked, "without a deadline")
	}
	line := fmt.Sprintf("%s of %s in %q for %v", q.Resource, q.Image, q.Namespace, q.To.Sub(q.From))
	if q.AnyTag {
		line += ", any tag"
	}
	a.asked = append(a.asked, line)
	if d := time.Since(q.To); d < 0 || d > time.Minute || q.Percentile != 90 {
		a.asked = append(a.asked, fmt.Sprintf("%d percent, until %v ago", q.Percentile, d))
	}
	return a.answer(q)
}

func pod(change func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:1"}}}}
	if change != nil {
		change(&p.Spec)
	}
	return p
}

func newPlugin(t *testing.T, h initialresources.History, o initialresources.Options) *initialresources.Plugin {
	t.Helper()
	p, err := initialresources.New(h, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// TestWider: the history is asked for wider sets of measurements until there are thirty, or for all of them.
func TestWider(t *testing.T) {
	const week, month = "168h0m0s", "720h0m0s"
	wide := []string{`cpu of i:1 in "ns" for ` + week, `cpu of i:1 in "ns" for ` + month, `cpu of i:1 in "" for ` + week, `cpu of i:1 in "" for ` + month, `cpu of i:1 in "" for ` + month + ", any tag"}
	narrow := []string{wide[0], wide[1], `cpu of i:1 in "ns" for ` + month + ", any tag"}
	for name, test := range map[string]struct {
		only    bool
		samples []int // of each answer
		want    []string
		value   string // what is requested
	}{
		"at once":                {false, []int{30}, wide[:1], "1m"},
		"in a month":             {false, []int{29, 30}, wide[:2], "2m"},
		"elsewhere":              {false, []int{29, 29, 30}, wide[:3], "3m"},
		"elsewhere, in a month":  {false, []int{1, 1, 1, 30}, wide[:4], "4m"},
		"of other tags":          {false, []int{1, 1, 1, 1, 1}, wide, "5m"},
		"never":                  {false, []int{0, 0, 0, 0, 0}, wide, ""},
		"in the namespace alone": {true, []int{1, 1, 1}, narrow, "3m"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &asked{}
			h.answer = func(initialresources.Query) (initialresources.Usage, error) {
				return initialresources.Usage{Value: int64(len(h.asked)), Samples: test.samples[len(h.asked)-1]}, nil
			}
			p := newPlugin(t, h, initialresources.Options{NamespaceOnly: test.only})
			one := pod(func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = list("memory", "1Gi") })
			r := admissiontest.Create(t, one)
			if err := p.Admit(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(h.asked, test.want) {
				t.Errorf("asked for\n%s", strings.Join(h.asked, "\n"))
			}
			got, ok := r.Object.(*corev1.Pod).Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]
			if ok != (test.value != "") || ok && got.String() != test.value {
				t.Errorf("requests %v, want %q", got.String(), test.value)
			}
		})
	}
}

// TestFilled: what a container does not say is filled in, and told.
func TestFilled(t *testing.T) {
	h := &asked{answer: func(q initialresources.Query) (initialresources.Usage, error) {
		if q.Image == "unknown" {
			return initialresources.Usage{}, nil
		}
		return initialresources.Usage{Value: map[corev1.ResourceName]int64{"cpu": 250, "memory": 1 << 30}[q.Resource], Samples: 100}, nil
	}}
	p := newPlugin(t, h, initialresources.Options{})
	one := pod(func(s *corev1.PodSpec) {
		s.InitContainers = []corev1.Container{{Name: "init", Image: "i:1"}}
		s.Containers = append(s.Containers,
			corev1.Container{Name: "cpu", Image: "i:1", Resources: corev1.ResourceRequirements{Requests: list("cpu", "1")}},
			corev1.Container{Name: "limit", Image: "i:1", Resources: corev1.ResourceRequirements{Limits: list("memory", "1Mi")}},
			corev1.Container{Name: "both", Image: "i:1", Resources: corev1.ResourceRequirements{Requests: list("cpu", "1", "memory", "1")}},
			corev1.Container{Name: "new", Image: "unknown"})
	})
	want := one.DeepCopy()
	want.Annotations = map[string]string{"kubernetes.io/initial-resources": "Initial Resources plugin set: cpu, memory request for init container init; cpu, memory request for container c; " +
		"memory request for container cpu; cpu request for container limit"}
	want.Spec.InitContainers[0].Resources.Requests = list("cpu", "250m", "memory", "1073741824")
	want.Spec.Containers[0].Resources.Requests = list("cpu", "250m", "memory", "1073741824")
	want.Spec.Containers[1].Resources.Requests = list("cpu", "1", "memory", "1073741824")
	want.Spec.Containers[2].Resources.Requests = list("cpu", "250m")
	admissiontest.Admits(t, p, admissiontest.Create(t, one), want)

	whole := pod(func(s *corev1.PodSpec) { s.Resources = &corev1.ResourceRequirements{Limits: list("memory", "2Gi")} })
	want = whole.DeepCopy()
	want.Annotations = map[string]string{"kubernetes.io/initial-resources": "Initial Resources plugin set: cpu request for container c"}
	want.Spec.Containers[0].Resources.Requests = list("cpu", "250m")
	admissiontest.Admits(t, p, admissiontest.Create(t, whole), want)
}

// TestOthers: other requests than creations of pods are left alone.
func TestOthers(t *testing.T) {
	h := &asked{}
	p := newPlugin(t, h, initialresources.Options{})
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "ns"}}
	admissiontest.Admits(t, p, admissiontest.Create(t, config), config)
	admissiontest.Admits(t, p, admissiontest.Create(t, pod(nil), admissiontest.Subresource("binding")), pod(nil))
	node := func(r *admission.Request) { r.Object = &corev1.Node{} }
	admissiontest.Refuses(t, p, admissiontest.Create(t, pod(nil), node), "Resource was marked with kind Pod but was unable to be converted")
	if p.Handles(admission.Update) || p.Handles(admission.Delete) || !p.Handles(admission.Create) || len(h.asked) > 0 {
		t.Errorf("asked %v", h.asked)
	}
}

// TestFailure: a history that fails keeps nobody from creating pods, and is asked no more for that one.
func TestFailure(t *testing.T) {
	var log bytes.Buffer
	h := &asked{answer: func(initialresources.Query) (initialresources.Usage, error) {
		return initialresources.Usage{Value: 7, Samples: 100}, errors.New("down")
	}}
	p := newPlugin(t, h, initialresources.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	r := admissiontest.Create(t, pod(func(s *corev1.PodSpec) { s.Containers = append(s.Containers, s.Containers[0]) }))
	if err := p.Admit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := r.Object.(*corev1.Pod); len(got.Spec.Containers[0].Resources.Requests) > 0 || len(got.Annotations) > 0 || len(h.asked) != 1 {
		t.Errorf("%+v, asked %v", got, h.asked)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "ns/p") || !strings.Contains(text, "down") {
		t.Errorf("log %s", text)
	}
}

// TestSlow: a history that does not answer is waited for only so long.
func TestSlow(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: 2 * time.Second, time.Millisecond: time.Millisecond, time.Minute: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			p, began := newPlugin(t, stuck{}, initialresources.Options{Timeout: given}), time.Now()
			if err := p.Admit(t.Context(), admissiontest.Create(t, pod(nil))); err != nil || time.Since(began) != want {
				t.Errorf("%v: took %v, %v", given, time.Since(began), err)
			}
		})
	}
}

type stuck struct{}

func (stuck) Usage(ctx context.Context, _ initialresources.Query) (initialresources.Usage, error) {
	<-ctx.Done()
	return initialresources.Usage{}, ctx.Err()
}

func TestPercentile(t *testing.T) {
	for _, percentile := range []int{-1, 101} {
		if _, err := initialresources.New(nil, initialresources.Options{Percentile: percentile}); !errors.Is(err, initialresources.ErrPercentile) {
			t.Errorf("%d: %v", percentile, err)
		}
	}
	h := &asked{answer: func(q initialresources.Query) (initialresources.Usage, error) {
		return initialresources.Usage{Value: int64(q.Percentile), Samples: 100}, nil
	}}
	for given, want := range map[int]string{0: "90m", 1: "1m", 100: "100m"} {
		r := admissiontest.Create(t, pod(nil))
		if err := newPlugin(t, h, initialresources.Options{Percentile: given}).Admit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if got := r.Object.(*corev1.Pod).Spec.Containers[0].Resources.Requests.Cpu().String(); got != want {
			t.Errorf("%d: %s", given, got)
		}
	}
}

// TestNearestRank: a percentile is one of the values, which need no order.
func TestNearestRank(t *testing.T) {
	for _, c := range []struct {
		values  []int64
		percent int
		want    initialresources.Usage
	}{
		{nil, 90, initialresources.Usage{}},
		{[]int64{7}, 1, initialresources.Usage{Value: 7, Samples: 1}},
		{[]int64{7}, 100, initialresources.Usage{Value: 7, Samples: 1}},
		{[]int64{30, 10, 20}, 0, initialresources.Usage{Value: 10, Samples: 3}},
		{[]int64{30, 10, 20}, 33, initialresources.Usage{Value: 10, Samples: 3}},
		{[]int64{30, 10, 20}, 34, initialresources.Usage{Value: 20, Samples: 3}},
		{[]int64{30, 10, 20}, 66, initialresources.Usage{Value: 20, Samples: 3}},
		{[]int64{30, 10, 20}, 67, initialresources.Usage{Value: 30, Samples: 3}},
		{[]int64{30, 10, 20}, 100, initialresources.Usage{Value: 30, Samples: 3}},
		{[]int64{30, 10, 20}, 200, initialresources.Usage{Value: 30, Samples: 3}},
	} {
		if got := initialresources.Percentile(slices.Clone(c.values), c.percent); got != c.want {
			t.Errorf("%d of %v: %+v, want %+v", c.percent, c.values, got, c.want)
		}
	}
}

func TestContract(t *testing.T) {
	p := newPlugin(t, memory.New(memory.Options{}), initialresources.Options{})
	admissiontest.TestPlugin(t, p, admissiontest.Create(t, pod(nil)))
	known := &asked{answer: func(initialresources.Query) (initialresources.Usage, error) {
		return initialresources.Usage{Value: 1, Samples: 30}, nil
	}}
	r := admissiontest.Create(t, pod(nil))
	first, err := admissiontest.Run(t, newPlugin(t, known, initialresources.Options{}), r) // twice, in a row
	if err != nil || len(first.(*corev1.Pod).Annotations) != 1 {
		t.Errorf("%v, %v", first, err)
	}
}

func TestRepository(t *testing.T) {
	for image, want := range map[string]string{
		"nginx": "nginx", "nginx:1": "nginx", "a/nginx:1": "a/nginx", "h:5000/nginx": "h:5000/nginx", "h:5000/nginx:1@sha256:ab": "h:5000/nginx", "nginx@sha256:ab": "nginx", "": "",
	} {
		if got := initialresources.Repository(image); got != want {
			t.Errorf("%s: %s", image, got)
		}
	}
}

func Example() {
	h := memory.New(memory.Options{})
	for used := range int64(50) {
		h.Add(memory.Sample{Namespace: "shop", Image: "nginx:1.27", Resource: corev1.ResourceMemory, Value: used << 20, At: time.Now()})
	}
	p, err := initialresources.New(h, initialresources.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Name())
	// Output: InitialResources
}
