package validation_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	api "k8s.io/kubernetes/pkg/apis/core"
	upstream "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
)

var (
	count = flag.Int("pods", 3000, "how many random pods")
	seed  = flag.Uint64("seed", 1, "where the random numbers begin")
)

func TestMain(m *testing.M) {
	capabilities.Setup(true, 0)
	m.Run()
}

func newFiller(n int) *filler {
	r := rand.New(rand.NewPCG(*seed, uint64(n)))
	return &filler{Rand: r, values: podValues(), dense: []float64{0.03, 0.1, 0.3, 0.5}[n%4]}
}

func randomPod(f *filler) *corev1.Pod {
	p := &corev1.Pod{}
	f.fill(reflect.ValueOf(&p.Spec).Elem(), "Spec")
	if len(p.Spec.Containers) == 0 && !f.chance(0.05) {
		p.Spec.Containers = make([]corev1.Container, 1+f.IntN(2))
		for i := range p.Spec.Containers {
			f.fill(reflect.ValueOf(&p.Spec.Containers[i]).Elem(), "Containers")
		}
	}
	f.fill(reflect.ValueOf(&p.Status).Elem(), "Status")
	p.ObjectMeta = metav1.ObjectMeta{Name: "web-1", Namespace: "default", UID: "u", ResourceVersion: "7", Generation: 3, Labels: map[string]string{"app": "web", "tier": "x"}}
	p.Annotations = randomAnnotations(f)
	return p
}

func randomAnnotations(f *filler) map[string]string {
	a := map[string]string{}
	for key, values := range map[string][]string{
		"seccomp.security.alpha.kubernetes.io/pod":           {"runtime/default", "unconfined", "localhost/x", "localhost/../x", "bad"},
		"container.seccomp.security.alpha.kubernetes.io/a":   {"docker/default", "unconfined", "localhost/x", "bad"},
		"container.apparmor.security.beta.kubernetes.io/a":   {"runtime/default", "unconfined", "localhost/a", "localhost/", "bad"},
		"container.apparmor.security.beta.kubernetes.io/web": {"runtime/default", "localhost/abc", ""},
		"controller.kubernetes.io/pod-deletion-cost":         {"1", "+1", "-5", "010", "x", "99999999999"},
		"scheduler.alpha.kubernetes.io/tolerations":          {`[{"key":"a","operator":"Exists"}]`, `[{"key":"","operator":"Bad"}]`, `[{"operator":"Lt","value":"x","key":"k"}]`},
		"kubernetes.io/config.mirror":                        {"x"},
		"pod.beta.kubernetes.io/init-containers":             {"[]"},
	} {
		if f.chance(f.dense / 3) {
			a[key] = pick(f, values...)
		}
	}
	return a
}

func podKind(t testing.TB) registry.Kind {
	kinds := core.Kinds(core.Options{})
	i := slices.IndexFunc(kinds, func(k registry.Kind) bool { return k.Plural == "pods" })
	if i < 0 {
		t.Fatal("no kind pods")
	}
	return kinds[i]
}

func internal(t testing.TB, p *corev1.Pod) *api.Pod {
	out := &api.Pod{}
	if err := upstream.Convert_v1_Pod_To_core_Pod(p.DeepCopy(), out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

func external(t testing.TB, p *api.Pod) *corev1.Pod {
	out := &corev1.Pod{}
	if err := upstream.Convert_core_Pod_To_v1_Pod(p.DeepCopy(), out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPodCreate(t *testing.T) {
	kind := podKind(t)
	each(t, func(t *testing.T, f *filler) {
		p := randomPod(f)
		theirs, ours := p.DeepCopy(), p.DeepCopy()
		upstream.SetObjectDefaults_Pod(theirs)
		kind.Rules.Default(ours)
		if !sameJSON(t, "defaults", theirs, ours) {
			return
		}
		in := internal(t, theirs)
		pod.Strategy.PrepareForCreate(t.Context(), in)
		kind.Rules.PrepareCreate(t.Context(), ours)
		if !sameJSON(t, "prepared", external(t, in), ours) {
			return
		}
		sameErrors(t, pod.Strategy.Validate(t.Context(), in), kind.Rules.Validate(ours))
	})
}

func TestPodUpdate(t *testing.T) {
	kind := podKind(t)
	each(t, func(t *testing.T, f *filler) {
		p, old := changedPod(f)
		ours, theirs, before := p.DeepCopy(), internal(t, p), internal(t, old)
		pod.Strategy.PrepareForUpdate(t.Context(), theirs, before)
		kind.Rules.PrepareUpdate(t.Context(), ours, old.DeepCopy())
		if !sameJSON(t, "prepared", external(t, theirs), ours) {
			return
		}
		sameErrors(t, pod.Strategy.ValidateUpdate(t.Context(), theirs, before), kind.Rules.ValidateUpdate(ours, old))
	})
}

func TestPodStatus(t *testing.T) {
	view := podKind(t).Sub.Views["status"]
	each(t, func(t *testing.T, f *filler) {
		p, old := changedPod(f)
		ours, theirs, before := p.DeepCopy(), internal(t, p), internal(t, old)
		pod.StatusStrategy.PrepareForUpdate(t.Context(), theirs, before)
		view.PrepareUpdate(t.Context(), ours, old.DeepCopy())
		if !sameJSON(t, "prepared", external(t, theirs), ours) {
			return
		}
		sameErrors(t, pod.StatusStrategy.ValidateUpdate(t.Context(), theirs, before), view.ValidateUpdate(ours, old))
	})
}

func TestPodEphemeralContainers(t *testing.T) {
	view := podKind(t).Sub.Views["ephemeralcontainers"]
	each(t, func(t *testing.T, f *filler) {
		p, old := changedPod(f)
		for range 2 {
			f.mutate(reflect.ValueOf(&p.Spec.EphemeralContainers).Elem(), "EphemeralContainers")
		}
		ours, theirs, before := p.DeepCopy(), internal(t, p), internal(t, old)
		pod.EphemeralContainersStrategy.PrepareForUpdate(t.Context(), theirs, before)
		view.PrepareUpdate(t.Context(), ours, old.DeepCopy())
		if !sameJSON(t, "prepared", external(t, theirs), ours) {
			return
		}
		sameErrors(t, pod.EphemeralContainersStrategy.ValidateUpdate(t.Context(), theirs, before), view.ValidateUpdate(ours, old))
	})
}

func TestPodResize(t *testing.T) {
	view := podKind(t).Sub.Views["resize"]
	each(t, func(t *testing.T, f *filler) {
		p, old := changedPod(f)
		for range 1 + f.IntN(3) {
			f.mutate(reflect.ValueOf(&p.Spec.Resources).Elem(), "Resources")
			if n := len(p.Spec.Containers); n > 0 {
				f.mutate(reflect.ValueOf(&p.Spec.Containers[f.IntN(n)].Resources).Elem(), "Resources")
			}
			if n := len(p.Spec.InitContainers); n > 0 {
				f.mutate(reflect.ValueOf(&p.Spec.InitContainers[f.IntN(n)].Resources).Elem(), "Resources")
			}
		}
		ours, theirs, before := p.DeepCopy(), internal(t, p), internal(t, old)
		pod.ResizeStrategy.PrepareForUpdate(t.Context(), theirs, before)
		view.PrepareUpdate(t.Context(), ours, old.DeepCopy())
		if !sameJSON(t, "prepared", external(t, theirs), ours) {
			return
		}
		sameErrors(t, pod.ResizeStrategy.ValidateUpdate(t.Context(), theirs, before), view.ValidateUpdate(ours, old))
	})
}

// changedPod returns a pod as a client would send it back and the pod before.
func changedPod(f *filler) (p, old *corev1.Pod) {
	old = randomPod(f)
	upstream.SetObjectDefaults_Pod(old)
	p = old.DeepCopy()
	for range f.IntN(4) {
		switch f.IntN(3) {
		case 0:
			f.mutate(reflect.ValueOf(&p.Spec).Elem(), "Spec")
		case 1:
			f.mutate(reflect.ValueOf(&p.Status).Elem(), "Status")
		case 2:
			small(f, p)
		}
	}
	if f.chance(0.2) {
		p.Annotations = randomAnnotations(f)
	}
	upstream.SetObjectDefaults_Pod(p)
	return p, old
}

// small makes a change that an update may make, or almost.
func small(f *filler, p *corev1.Pod) {
	s := &p.Spec
	switch f.IntN(6) {
	case 0:
		if len(s.Containers) > 0 {
			s.Containers[0].Image = f.text("", "Image")
		}
	case 1:
		s.ActiveDeadlineSeconds = pick(f, nil, ptr[int64](5), ptr[int64](500))
	case 2:
		s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: "k", Operator: "Exists"})
	case 3:
		if n := len(s.SchedulingGates); n > 0 {
			s.SchedulingGates = s.SchedulingGates[:n-1]
		}
	case 4:
		if s.NodeSelector == nil {
			s.NodeSelector = map[string]string{}
		}
		s.NodeSelector["added"] = "x"
	case 5:
		f.mutate(reflect.ValueOf(&s.Affinity).Elem(), "Affinity")
	}
}

func ptr[T any](v T) *T { return &v }

func each(t *testing.T, check func(*testing.T, *filler)) {
	failed := 0
	for n := range *count {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			check(t, newFiller(n))
			if t.Failed() {
				failed++
			}
		})
		if failed > 5 {
			t.Fatal("enough")
		}
	}
}

// sameJSON compares two pods without the times of conditions.
func sameJSON(t *testing.T, what string, theirs, ours any) bool {
	t.Helper()
	a, b := text(t, theirs), text(t, ours)
	if a != b {
		t.Errorf("%s differ:\n%s", what, firstDifference(a, b))
	}
	return a == b
}

func text(t *testing.T, v any) string {
	if p, ok := v.(*corev1.Pod); ok {
		p = p.DeepCopy()
		for i := range p.Status.Conditions {
			p.Status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		v = p
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func firstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			from := max(0, i-8)
			return "theirs:\n" + strings.Join(as[from:min(i+5, len(as))], "\n") + "\nours:\n" + strings.Join(bs[from:min(i+5, len(bs))], "\n")
		}
	}
	return "one is longer"
}

// sameErrors compares errors by type, field, value and detail, in any order.
func sameErrors(t *testing.T, theirs, ours field.ErrorList) {
	t.Helper()
	a, b := lines(theirs), lines(ours)
	for _, line := range a {
		if i := slices.Index(b, line); i >= 0 {
			b = slices.Delete(b, i, i+1)
		} else {
			t.Errorf("missing: %s", line)
		}
	}
	for _, line := range b {
		t.Errorf("not theirs: %s", line)
	}
}

func lines(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		out = append(out, string(e.Type)+" "+e.Error())
	}
	return out
}

// TestGolden compares the expectations of podspec's own tests with the API server.
func TestGolden(t *testing.T) {
	const dir = "../../podspec/testdata/"
	for file, judge := range map[string]func(docs []string) field.ErrorList{
		"create": func(docs []string) field.ErrorList {
			p := golden(t, docs[0], named())
			if p.Name == "" { // podspec judges it before it has one
				p.Name = p.GenerateName + "x"
			}
			return pod.Strategy.Validate(t.Context(), internal(t, p))
		},
		"update":    updates(t, pod.Strategy.ValidateUpdate),
		"status":    updates(t, pod.StatusStrategy.ValidateUpdate),
		"ephemeral": updates(t, pod.EphemeralContainersStrategy.ValidateUpdate),
		"resize":    updates(t, pod.ResizeStrategy.ValidateUpdate),
	} {
		text, err := os.ReadFile(dir + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "### ") {
			title, rest, ok := strings.Cut(part, "\n")
			if !ok {
				continue
			}
			t.Run(file+"/"+title, func(t *testing.T) {
				docs := strings.Split(rest, "---\n")
				want := strings.FieldsFunc(docs[len(docs)-1], func(r rune) bool { return r == '\n' })
				var got []string
				for _, err := range judge(docs) {
					got = append(got, strings.ReplaceAll(err.Error(), "\n", `\n`))
				}
				slices.Sort(want)
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("the API server says\n%s\nand we\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	}
}

func updates(t *testing.T, judge func(context.Context, runtime.Object, runtime.Object) field.ErrorList) func([]string) field.ErrorList {
	return func(docs []string) field.ErrorList {
		old := golden(t, docs[0], named())
		return judge(t.Context(), internal(t, golden(t, docs[1], old)), internal(t, old))
	}
}

func named() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", ResourceVersion: "1"}}
}

// golden merges a document into a pod, like podspec's tests.
func golden(t *testing.T, doc string, base *corev1.Pod) *corev1.Pod {
	p := base.DeepCopy()
	if err := yaml.UnmarshalStrict([]byte(doc), p); err != nil {
		t.Fatal(err)
	}
	if p.Spec.Containers == nil {
		p.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
	}
	upstream.SetObjectDefaults_Pod(p)
	return p
}
