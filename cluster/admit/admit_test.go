package admit_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/webhook/handler"
	"github.com/keelson-dev/keelson/admission/webhook/inprocess"
	"github.com/keelson-dev/keelson/cluster/admit"
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
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, err := admit.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			w, err := s.Start(t.Context(), admit.Options{Handlers: hooks(), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			}()
			outcomes, err := s.Run(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				text, err := s.Update(outcomes)
				if err == nil {
					err = os.WriteFile(file, text, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			for _, o := range outcomes {
				for _, d := range o.Differences {
					t.Errorf("%s:%d: %s: %s", file, o.Line, o.Name, d)
				}
			}
			// Nothing is rewritten that is as it was.
			text, err := s.Update(outcomes)
			before, readErr := os.ReadFile(file)
			if err != nil || readErr != nil || !bytes.Equal(text, before) {
				t.Errorf("an update changes the file: %v %v", err, readErr)
			}
		})
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

func TestErrors(t *testing.T) {
	w := start(t, admit.Options{}, "")
	for name, q := range map[string]admit.Request{
		"nothing":           {},
		"no kind":           {Text: []byte("metadata: {name: web}")},
		"no YAML":           {Text: []byte("a: [")},
		"an unknown kind":   {Text: []byte("apiVersion: example.com/v1\nkind: Car\nmetadata: {name: mine}")},
		"an operation":      {Object: pod("web"), Operation: admission.Connect},
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
