package admit_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/webhook/handler"
	"github.com/keelson-dev/keelson/admission/webhook/inprocess"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/admit"
	"github.com/keelson-dev/keelson/cluster/admit/admittest"
)

var update = flag.Bool("update", false, "write what became of the cases in testdata as what they want")

// hooks are webhooks in this process.
func hooks() inprocess.Handlers {
	labels := admission.MutatorFunc("labels", func(_ context.Context, r *admission.Request) error {
		m := r.Object.(*corev1.ConfigMap)
		m.Labels = map[string]string{"checked": "true"}
		return nil
	}, admission.Create)
	names := admission.ValidatorFunc("names", func(_ context.Context, r *admission.Request) error {
		if r.Name == "bad" {
			return admission.Forbidden(r, "choose another name")
		}
		return nil
	}, admission.Create)
	return inprocess.Services(map[types.NamespacedName]http.Handler{
		{Namespace: "hooks", Name: "labels"}: handler.Mutating(labels, handler.Options{Scheme: scheme.Scheme}),
		{Namespace: "hooks", Name: "names"}:  handler.Validating(names, handler.Options{Scheme: scheme.Scheme}),
	})
}

func TestFiles(t *testing.T) {
	admittest.Files(t, "testdata/*.yaml", *update, admit.Options{Handlers: hooks(), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
}

// TestKept: what is told of a request that is not kept is what becomes of one that is.
func TestKept(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	// Names are random, and so are addresses: a dry run takes none.
	random := regexp.MustCompile(`kube-api-access-.....|"web-.....|10\.[0-9.]*`)
	text := func(r *admit.Result) string {
		var b strings.Builder
		for _, s := range r.Steps {
			fmt.Fprintln(&b, s, s.Changes())
		}
		fmt.Fprintln(&b, r.Refusal, r.Warnings, r.Annotations, r.Costs)
		return random.ReplaceAllString(b.String(), "?")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, err := admit.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			w, err := s.Start(t.Context(), admit.Options{Handlers: hooks()})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			cases, err := s.Cases()
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range cases {
				if c.Request.DryRun {
					continue
				}
				c.Request.Keep = false
				told, err := w.Ask(t.Context(), c.Request)
				if err != nil {
					t.Fatal(err)
				}
				c.Request.Keep = true
				kept, err := w.Ask(t.Context(), c.Request)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(text(kept), text(told)); d != "" {
					t.Errorf("%s (-kept +told):\n%s", c.Name, d)
				}
			}
		})
	}
}

// TestForms: requests in versions other than the stored one, in YAML for kinds without a Go type, and without any plugin.
func TestForms(t *testing.T) {
	w := start(t, admit.Options{Disable: append(cluster.StageNames(cluster.DefaultAdmission()),
		"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook")}, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cars.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: cars, kind: Car}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}]
`)
	ask := func(q admit.Request) (runtime.Object, string) {
		t.Helper()
		r, err := w.Ask(t.Context(), q)
		if err != nil || r.Refusal != nil {
			t.Fatal(r, err)
		}
		obj, err := r.Object()
		if err != nil {
			t.Fatal(err)
		}
		return obj, fmt.Sprint(r.Steps)
	}
	scaler := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	scaler.Spec.ScaleTargetRef, scaler.Spec.MaxReplicas = autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web", APIVersion: "apps/v1"}, 3
	if obj, _ := ask(admit.Request{Object: scaler}); obj.(*autoscalingv1.HorizontalPodAutoscaler).Spec.MaxReplicas != 3 {
		t.Errorf("%+v", obj)
	}
	obj, steps := ask(admit.Request{Text: []byte("apiVersion: example.com/v1\nkind: Car\nmetadata: {name: mine}\nspec: {color: red}\n"), Keep: true})
	if color := obj.(*unstructured.Unstructured).Object["spec"].(map[string]any)["color"]; color != "red" || steps != "[defaults prepare]" {
		t.Errorf("%v %s", obj, steps)
	}
	if obj, steps := ask(admit.Request{Object: obj, Operation: admission.Delete}); obj != nil || steps != "[]" {
		t.Errorf("%v %s", obj, steps)
	}
}

// TestState: objects are in the state with what a create does not take from clients.
// A plugin adds tolerations to the pod, which raises its generation.
func TestState(t *testing.T) {
	w := start(t, admit.Options{}, `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Namespace
  metadata: {name: default, uid: 01234567-89ab-cdef-0123-456789abcdef, labels: {team: a}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, uid: 11234567-89ab-cdef-0123-456789abcdef, generation: 7, creationTimestamp: "2026-01-01T00:00:00Z", deletionTimestamp: "2026-01-02T00:00:00Z",
    deletionGracePeriodSeconds: 30, resourceVersion: "12"}
  spec: {containers: [{name: web, image: "nginx:1.27"}]}
  status: {phase: Running}
`)
	for _, want := range []string{
		`Namespace 01234567-89ab-cdef-0123-456789abcdef 0 map[team:a x:y] false`,
		`Pod 11234567-89ab-cdef-0123-456789abcdef 8 map[x:y] true`,
	} {
		kind, _, _ := strings.Cut(want, " ")
		named := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}, ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		if kind == "Namespace" {
			named.Name = "default"
		}
		r, err := w.Ask(t.Context(), admit.Request{Object: named, Operation: admission.Update, Patch: &client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"labels":{"x":"y"}}}`)}})
		if err != nil || r.Refusal != nil {
			t.Fatal(r, err)
		}
		obj, err := r.Object()
		if err != nil {
			t.Fatal(err)
		}
		m := obj.(metav1.Object)
		labels := m.GetLabels()
		delete(labels, "kubernetes.io/metadata.name")
		if got := fmt.Sprint(kind, " ", m.GetUID(), " ", m.GetGeneration(), " ", labels, " ", m.GetDeletionTimestamp() != nil); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if p, ok := obj.(*corev1.Pod); ok && (p.Status.Phase != corev1.PodRunning || *p.DeletionGracePeriodSeconds != 30 || p.CreationTimestamp.Year() != 2026 || p.CreationTimestamp.Month() != 1) {
			t.Errorf("%+v", p)
		}
	}
}

func start(t testing.TB, o admit.Options, state string) *admit.World {
	t.Helper()
	objects, err := admit.Decode([]byte(state))
	if err != nil {
		t.Fatal(err)
	}
	w, err := admit.Start(t.Context(), objects, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1.27"}}},
	}
}

// TestConcurrently: requests do not see each other.
func TestConcurrently(t *testing.T) {
	w := start(t, admit.Options{}, `
apiVersion: v1
kind: ResourceQuota
metadata: {name: one}
spec: {hard: {pods: "1"}}
`)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			r, err := w.Ask(t.Context(), admit.Request{Object: pod("web")})
			if err != nil || r.Refusal != nil || len(r.Steps) == 0 {
				t.Error(r, err)
				return
			}
			if obj, err := r.Object(); err != nil || obj.(*corev1.Pod).Spec.ServiceAccountName != "default" {
				t.Error(obj, err)
			}
		})
	}
	wg.Wait()
	r, err := w.Ask(t.Context(), admit.Request{Object: pod("web"), Keep: true})
	if err != nil || r.Refusal != nil {
		t.Fatal(r, err)
	}
	r, err = w.Ask(t.Context(), admit.Request{Object: pod("other")})
	if err != nil || r.Refusal == nil || r.Refusal.Plugin != "ResourceQuota" || r.Refusal.Rule != "one" || r.Refusal.Phase != admit.PhaseAdmit {
		t.Errorf("%v %v", r.Refusal, err)
	}
	if obj, err := r.Object(); obj != nil || err != nil {
		t.Error(obj, err)
	}
}

// TestPlugin: a plugin of one's own runs among the others, and is named.
func TestPlugin(t *testing.T) {
	tags := admission.ValidatorFunc("Tags", func(_ context.Context, r *admission.Request) error {
		if p, ok := r.Object.(*corev1.Pod); ok && strings.HasSuffix(p.Spec.Containers[0].Image, ":latest") {
			return admission.Forbidden(r, "no latest")
		}
		return nil
	}, admission.Create)
	w := start(t, admit.Options{Admission: admit.Plugins(tags)}, "")
	r, err := w.Ask(t.Context(), admit.Request{Text: []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: 'nginx:latest'}]}\n")})
	if err != nil || r.Refusal == nil || r.Refusal.String() != `admit Tags: pods "web" is forbidden: no latest` {
		t.Errorf("%v %v", r.Refusal, err)
	}
}

// TestChanges: what a plugin adds, removes and replaces is told by field; lists are compared from both ends.
func TestChanges(t *testing.T) {
	changes := admission.MutatorFunc("Changes", func(_ context.Context, r *admission.Request) error {
		m := r.Object.(*corev1.ConfigMap)
		m.Finalizers = append([]string{"a/b"}, m.Finalizers...)
		delete(m.Labels, "old")
		m.Labels["example.com/new"] = "x"
		m.Data["a"] = "<2>"
		return nil
	}, admission.Create)
	w := start(t, admit.Options{Admission: admit.Plugins(changes)}, "")
	r, err := w.Ask(t.Context(), admit.Request{Object: &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"old": "1", "same": "1"}, Finalizers: []string{"c/d", "e/f"}}, Data: map[string]string{"a": "1"},
	}})
	if err != nil || r.Refusal != nil {
		t.Fatal(r, err)
	}
	want := []admit.Change{
		{Path: "data.a", Before: "1", After: "<2>"}, {Path: "metadata.finalizers[0]", After: "a/b"},
		{Path: `metadata.labels["example.com/new"]`, After: "x"}, {Path: "metadata.labels.old", Before: "1"},
	}
	if d := cmp.Diff(want, r.Steps[1].Changes()); d != "" {
		t.Error(d)
	}
	const text = `[~ data.a: "1" -> "<2>" + metadata.finalizers[0]: "a/b" + metadata.labels["example.com/new"]: "x" - metadata.labels.old: "1"]`
	if got := fmt.Sprint(r.Steps[1].Changes()); got != text {
		t.Error(got)
	}
}

func TestErrors(t *testing.T) {
	w := start(t, admit.Options{}, "")
	for name, q := range map[string]admit.Request{
		"nothing":           {},
		"no kind":           {Text: []byte("metadata: {name: web}")},
		"no YAML":           {Text: []byte("a: [")},
		"an unknown kind":   {Text: []byte("apiVersion: example.com/v1\nkind: Car\nmetadata: {name: mine}")},
		"an operation":      {Object: pod("web"), Operation: admission.Connect},
		"a dry run to keep": {Object: pod("web"), Keep: true, DryRun: true},
		"both":              {Object: pod("web"), Text: []byte("{}")},
		"an unknown place":  {Object: pod("web"), Resource: corev1.SchemeGroupVersion.WithResource("cars")},
		"an unknown object": {Object: &metav1.Status{}},
	} {
		if r, err := w.Ask(t.Context(), q); !errors.Is(err, admit.ErrRequest) {
			t.Errorf("%s: %v %v", name, r, err)
		}
	}
	for name, state := range map[string]string{
		"an unknown field": "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\nspecs: {}\n",
		"an unknown kind":  "apiVersion: example.com/v1\nkind: Car\nmetadata: {name: mine}\n",
		"no kind":          "apiVersion: v1\nkind: ''\n",
		"invalid":          "apiVersion: v1\nkind: Namespace\nmetadata: {name: A}\n",
		"not stored":       "apiVersion: authorization.k8s.io/v1\nkind: SubjectAccessReview\nspec: {}\n",
		"names are taken": `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: as.example.com}
spec: &spec
  group: example.com
  scope: Cluster
  names: {plural: as, kind: A}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bs.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: bs, kind: A}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`,
	} {
		objects, err := admit.Decode([]byte(state))
		if err == nil {
			_, err = admit.Start(t.Context(), objects, admit.Options{})
			if !errors.Is(err, admit.ErrState) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := admit.Start(t.Context(), nil, admit.Options{Disable: []string{"None"}}); err == nil {
		t.Error("an unknown plugin was disabled")
	}
}
