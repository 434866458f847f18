package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
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

// Plugins see what is sent in a further version in the stored one, and what the client asked for.
func TestAdmissionOfVersions(t *testing.T) {
	var seen []string
	config := serveWith(t, apiserver.Options{Admission: admission.Chain{admission.ValidatorFunc("See", func(_ context.Context, r *admission.Request) error {
		if _, ok := r.Object.(*corev1.Event); ok {
			seen = append(seen, fmt.Sprintf("%s as %s, %s", r.Kind, r.RequestedKind, r.RequestedResource))
		}
		return nil
	}, admission.Create)}})
	for path, body := range map[string]string{
		"/api/v1/namespaces/default/events":                `{"metadata":{"name":"a"},"involvedObject":{"namespace":"default"}}`,
		"/apis/events.k8s.io/v1/namespaces/default/events": `{"metadata":{"name":"b"},"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"a.b/c","reportingInstance":"c","action":"A","reason":"R","type":"Normal","regarding":{"namespace":"default"}}`,
	} {
		if code, _, answer := do(t, config, "POST", path, "", body); code != http.StatusCreated {
			t.Fatalf("%d %s", code, answer)
		}
	}
	slices.Sort(seen)
	want := []string{
		"/v1, Kind=Event as /, Kind=, /, Resource=",
		"/v1, Kind=Event as events.k8s.io/v1, Kind=Event, events.k8s.io/v1, Resource=events",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}
