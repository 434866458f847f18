package apiserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/apiserver"
)

const configMaps = "/api/v1/namespaces/default/configmaps"

// What a mutator puts in the place of the object is what is judged and stored.
func TestAdmissionReplacesObject(t *testing.T) {
	operations := []admission.Operation{admission.Create, admission.Update}
	replace := admission.MutatorFunc("Replace", func(_ context.Context, r *admission.Request) error {
		if c, ok := r.Object.(*corev1.ConfigMap); ok {
			replaced := c.DeepCopy()
			replaced.Data = map[string]string{"by": "the mutator"}
			r.Object = replaced
		}
		return nil
	}, operations...)
	judged := 0
	judge := admission.ValidatorFunc("Judge", func(_ context.Context, r *admission.Request) error {
		judged++
		if c := r.Object.(*corev1.ConfigMap); c.Data["by"] != "the mutator" || r.Name != "a" || r.Namespace != "default" {
			t.Errorf("%s: judged %v of %s/%s", r.Operation, c.Data, r.Namespace, r.Name)
		}
		if (r.OldObject == nil) != (r.Operation == admission.Create) {
			t.Errorf("%s: old object is %v", r.Operation, r.OldObject)
		}
		return nil
	}, operations...)
	config := serveWith(t, apiserver.Options{Admission: admission.Chain{replace, judge}})
	for _, step := range []struct {
		method, path, contentType, body string
		code                            int
	}{
		{"POST", configMaps, "", `{"metadata":{"name":"a"},"data":{"by":"the client"}}`, 201},
		{"PUT", configMaps + "/a", "", `{"metadata":{"name":"a","labels":{"x":"y"}}}`, 200},
		{"PATCH", configMaps + "/a", "application/merge-patch+json", `{"data":{"by":"a patch"}}`, 200},
		{"PUT", configMaps + "/a?dryRun=All", "", `{"metadata":{"name":"a"}}`, 200},
	} {
		code, _, body := do(t, config, step.method, step.path, step.contentType, step.body)
		var c corev1.ConfigMap
		if err := json.Unmarshal([]byte(body), &c); err != nil {
			t.Fatal(err)
		}
		if code != step.code || c.Data["by"] != "the mutator" {
			t.Errorf("%s: %d %s", step.method, code, body)
		}
	}
	if judged != 4 {
		t.Errorf("judged %d times, want 4", judged)
	}
}

func TestAdmissionLeavesNonsense(t *testing.T) {
	for name, object := range map[string]*corev1.Secret{"another kind": {}, "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			config := serveWith(t, apiserver.Options{Admission: admission.Chain{admission.MutatorFunc("Break", func(_ context.Context, r *admission.Request) error {
				r.Object = nil
				if object != nil {
					r.Object = object
				}
				return nil
			}, admission.Create)}})
			if code, _, body := do(t, config, "POST", configMaps, "", `{"metadata":{"name":"a"}}`); code != http.StatusInternalServerError || !strings.Contains(body, "instead of a ConfigMap") {
				t.Errorf("%d %s", code, body)
			}
			if code, _, _ := do(t, config, "GET", configMaps+"/a", "", ""); code != http.StatusNotFound {
				t.Errorf("it was stored: %d", code)
			}
		})
	}
}

func TestAdmissionRefuses(t *testing.T) {
	config := serveWith(t, apiserver.Options{Admission: admission.Chain{admission.ValidatorFunc("No", func(_ context.Context, r *admission.Request) error {
		return admission.Forbidden(r, "because")
	}, admission.Create, admission.Delete)}})
	code, _, body := do(t, config, "POST", configMaps, "", `{"metadata":{"name":"a"}}`)
	var status metav1.Status
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatal(err)
	}
	if code != http.StatusForbidden || status.Reason != metav1.StatusReasonForbidden || status.Message != `configmaps "a" is forbidden: because` {
		t.Errorf("%d %s", code, body)
	}
}
