package policy_test

import (
	"errors"
	"fmt"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/policy"
)

type (
	mutatingSpec    = registrationv1.MutatingAdmissionPolicySpec
	mutatingBinding = registrationv1.MutatingAdmissionPolicyBindingSpec
)

// label is a patch that sets a label.
func label(key, value string) policy.Change {
	return policy.Change{Patch: fmt.Appendf(nil, `[{"op":"add","path":"/metadata/labels/%s","value":%q}]`, key, value)}
}

// TestMutations: what becomes of a change, and of failures.
func TestMutations(t *testing.T) {
	const denied = "policy 'a' with binding 'a-b' denied request: "
	for name, tt := range map[string]struct {
		change policy.Change
		err    error // of the evaluation
		match  error // of the conditions
		want   string
		labels string
	}{
		"patched":            {change: label("by", "a"), labels: "map[app:p by:a]"},
		"a test that fails":  {change: policy.Change{Patch: []byte(`[{"op":"test","path":"/metadata/name","value":"q"},{"op":"remove","path":"/metadata/labels"}]`)}, labels: "map[app:p]"},
		"no patch":           {change: policy.Change{Patch: []byte(`{`)}, want: denied + "JSON Patch: ", labels: "map[app:p]"},
		"a patch of nothing": {change: policy.Change{Patch: []byte(`[{"op":"remove","path":"/spec/none"}]`)}, want: denied + "JSON Patch: ", labels: "map[app:p]"},
		"unknown fields":     {change: policy.Change{Patch: []byte(`[{"op":"add","path":"/spec/odd","value":1}]`)}, want: `Internal error occurred: strict decoding error: unknown field "spec.odd"`, labels: "map[app:p]"},
		"a wrong type":       {change: policy.Change{Patch: []byte(`[{"op":"add","path":"/spec/nodeName","value":1}]`)}, want: "Internal error occurred: json: cannot unmarshal number", labels: "map[app:p]"},
		"another kind":       {change: policy.Change{Patch: []byte(`[{"op":"replace","path":"/kind","value":"Odd"}]`)}, want: `Internal error occurred: no kind "Odd" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"`, labels: "map[app:p]"},
		"merged":             {change: policy.Change{Apply: map[string]any{"by": "merge"}}, labels: "map[app:p by:merge]"},
		"not merged":         {change: policy.Change{Apply: map[string]any{"fail": "x"}}, want: denied + "error applying patch: cannot", labels: "map[app:p]"},
		"fails":              {err: errors.New("odd"), want: denied + "odd", labels: "map[app:p]"},
		"ends the request":   {err: apierrors.NewServiceUnavailable("wait"), want: "wait", labels: "map[app:p]"},
		"an internal error":  {err: admission.Internal(errors.New("odd")), want: "Internal error occurred: odd", labels: "map[app:p]"},
		"conditions fail":    {match: errors.New("odd"), want: denied + "odd", labels: "map[app:p]"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, open := range []bool{false, true} {
				w := newWorld(t)
				w.options.Merge = func(kind schema.GroupVersionKind, obj runtime.Object, config map[string]any) (runtime.Object, error) {
					if config["fail"] != nil || kind.Kind != "Pod" || obj.GetObjectKind().GroupVersionKind() != kind {
						return nil, errors.New("cannot")
					}
					p := obj.(*corev1.Pod).DeepCopy()
					p.Labels["by"] = config["by"].(string)
					return p, nil
				}
				defaulted := 0
				w.options.Default = func(kind schema.GroupVersionKind, obj runtime.Object) {
					defaulted++
					if kind.Kind != "Pod" || !obj.GetObjectKind().GroupVersionKind().Empty() {
						t.Errorf("defaults for %v: %v", kind, obj.GetObjectKind().GroupVersionKind())
					}
				}
				w.change("a", 1, func(p *mutatingSpec, _ *mutatingBinding) {
					if open {
						p.FailurePolicy = new(registrationv1.Ignore)
					}
				})
				w.matches = func(string, *policy.Input, runtime.Object) (bool, error) { return tt.match == nil, tt.match }
				w.mutate = func(string, int, *policy.Input, runtime.Object) (policy.Change, error) { return tt.change, tt.err }
				r := pod()
				err := w.mutatingPlugin().Admit(t.Context(), r)
				got, want := "", tt.want
				if err != nil {
					got = err.Error()
				}
				if open && len(want) > len(denied) && want[:len(denied)] == denied {
					want = ""
				}
				if len(got) < len(want) || got[:len(want)] != want || want == "" && got != "" {
					t.Errorf("%s\nwant %s", got, want)
				}
				if now := fmt.Sprint(r.Object.(*corev1.Pod).Labels); now != tt.labels || r.Object.(*corev1.Pod).Kind != "" {
					t.Errorf("labels %s, kind %q", now, r.Object.(*corev1.Pod).Kind)
				}
				if want := map[bool]int{tt.want == "": 1}[true]; defaulted != want {
					t.Errorf("defaults were set %d times", defaulted)
				}
			}
		})
	}
}

// TestRefusals: the message is that of the first policy that failed, and each is a cause.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.change("b", 2, nil)
	w.change("a", 0, func(p *mutatingSpec, _ *mutatingBinding) { p.MatchConstraints = nil })
	w.change("c", 1, func(_ *mutatingSpec, b *mutatingBinding) {
		b.MatchResources = pods()
		b.MatchResources.ObjectSelector = nil
	})
	w.change("elsewhere", 1, func(_ *mutatingSpec, b *mutatingBinding) { b.MatchResources = selecting("", "v1", "secrets") })
	w.change("param", 1, func(p *mutatingSpec, b *mutatingBinding) {
		p.ParamKind, b.ParamRef = kind(), &registrationv1.ParamRef{}
	})
	w.params[corev1.SchemeGroupVersion.WithKind("ConfigMap")] = &params{namespaced: true}
	w.mutate = func(name string, n int, _ *policy.Input, _ runtime.Object) (policy.Change, error) {
		return policy.Change{}, fmt.Errorf("%s %d", name, n)
	}
	var denial *policy.Denial
	if err := w.mutatingPlugin().Admit(t.Context(), pod()); !errors.As(err, &denial) {
		t.Fatal(err)
	}
	var causes []string
	for _, c := range denial.Result.Details.Causes {
		causes = append(causes, c.Message)
	}
	w.wants("causes", causes,
		`policy "a" denied request: failed to configure policy: policy contained no match constraints, a required field`,
		"policy 'c' with binding 'c-b' denied request: failed to configure binding: a nil object selector was passed, please ensure selectors are initialized properly",
		"policy 'param' with binding 'param-b' denied request: failed to configure binding: one of name or selector must be provided",
		"policy 'b' with binding 'b-b' denied request: b 0", "policy 'b' with binding 'b-b' denied request: b 1")
	if s := denial.Result; denial.Policy != "a" || denial.Binding != "" || s.Message != causes[0] || s.Reason != metav1.StatusReasonForbidden || s.Code != 403 {
		t.Errorf("%+v", denial)
	}
	w.mutating = w.mutating[:1]
	if err := w.mutatingPlugin().Admit(t.Context(), pod()); !errors.As(err, &denial) || denial.Policy != "b" || denial.Binding != "b-b" || denial.Result.Reason != metav1.StatusReasonInvalid {
		t.Errorf("%+v", err)
	}
}

// TestParamsOfMutations: those with a Go type do not name it, as upstream has it; each is an invocation of its own.
func TestParamsOfMutations(t *testing.T) {
	w := newWorld(t)
	untyped := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "u"}}}
	w.params[corev1.SchemeGroupVersion.WithKind("ConfigMap")] = &params{namespaced: true, objects: map[string]runtime.Object{"ns/a": configMap("ns", "a"), "ns/b": untyped}}
	w.change("a", 1, func(p *mutatingSpec, b *mutatingBinding) {
		p.ParamKind, b.ParamRef = kind(), &registrationv1.ParamRef{Selector: &metav1.LabelSelector{}}
	})
	var got []string
	w.mutate = func(_ string, _ int, in *policy.Input, param runtime.Object) (policy.Change, error) {
		got = append(got, describe(param)+fmt.Sprint(in.Object.(*corev1.Pod).Labels, in.Namespace.Name))
		return label("by", param.(metav1.Object).GetName()), nil
	}
	w.fails("error", w.mutatingPlugin().Admit(t.Context(), pod()), "")
	w.wants("parameters", got, " amap[app:p]ns", "ConfigMap umap[app:p by:a]ns")
}

// TestAgain: in the second round, those run again that may, if something has changed since.
func TestAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		between func(*corev1.Pod) // the rounds
		changes bool              // the policies change anything
		needed  bool
		want    string
	}{
		"nothing changed":  {want: "[never again]"},
		"others changed":   {between: func(p *corev1.Pod) { p.Labels["x"] = "y" }, want: "[never again again]"},
		"policies changed": {changes: true, needed: true, want: "[never again again]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.change("never", 1, nil)
			w.change("again", 1, func(p *mutatingSpec, _ *mutatingBinding) {
				p.ReinvocationPolicy = registrationv1.IfNeededReinvocationPolicy
			})
			w.mutating[0].Name, w.mutatings[0].Spec.PolicyName = "0never", "0never"
			var ran []string
			w.mutate = func(name string, _ int, _ *policy.Input, _ runtime.Object) (policy.Change, error) {
				if name == "0never" {
					name = "never"
				}
				ran = append(ran, name)
				if !tt.changes {
					return policy.Change{}, errors.New("none")
				}
				return label(name, "x"), nil
			}
			for _, m := range w.mutating {
				m.Spec.FailurePolicy = new(registrationv1.Ignore)
			}
			r := pod()
			again, err := w.mutatingPlugin().AdmitFirst(t.Context(), r)
			w.fails("first", err, "")
			if again.Needed != tt.needed {
				t.Errorf("needed: %t", again.Needed)
			}
			if tt.between != nil {
				r.Object = r.Object.DeepCopyObject()
				tt.between(r.Object.(*corev1.Pod))
			}
			w.fails("second", again.Again(t.Context(), r), "")
			if got := fmt.Sprint(ran); got != tt.want {
				t.Errorf("ran %s, want %s", got, tt.want)
			}
		})
	}
}

// TestStoredVersion: a change is made in the version that the policy selects, and stored in the other.
func TestStoredVersion(t *testing.T) {
	old := schema.GroupVersion{Version: "v0"}
	for want, fails := range map[string]bool{"": false, "Internal error occurred: failed to convert object: odd": true} {
		w := newWorld(t)
		w.options.Versions = func(schema.GroupVersionResource, string) []admission.Version {
			return []admission.Version{{
				Kind: old.WithKind("Pod"), Resource: old.WithResource("pods"),
				FromStored: func(obj runtime.Object) (runtime.Object, error) { return obj.DeepCopyObject(), nil },
				ToStored: func(obj runtime.Object) (runtime.Object, error) {
					if fails {
						return nil, errors.New("odd")
					}
					p := obj.(*corev1.Pod).DeepCopy()
					p.Labels["stored"] = "yes"
					return p, nil
				},
			}}
		}
		w.change("a", 1, func(p *mutatingSpec, _ *mutatingBinding) {
			p.MatchConstraints = selecting("", "v0", "pods")
			p.MatchConstraints.MatchPolicy = new(registrationv1.Equivalent)
		})
		w.mutate = func(string, int, *policy.Input, runtime.Object) (policy.Change, error) { return label("by", "a"), nil }
		r := pod()
		w.fails("error", w.mutatingPlugin().Admit(t.Context(), r), want)
		if got := fmt.Sprint(r.Object.(*corev1.Pod).Labels); !fails && got != "map[app:p by:a stored:yes]" {
			t.Errorf("labels %s", got)
		}
	}
}

// TestUntyped: objects of custom kinds keep the name of their type, and only have it if they had.
func TestUntyped(t *testing.T) {
	for _, named := range []bool{false, true} {
		w := newWorld(t)
		w.change("a", 1, nil)
		w.mutate = func(_ string, _ int, in *policy.Input, _ runtime.Object) (policy.Change, error) {
			if in.Object.GetObjectKind().GroupVersionKind().Kind != "Pod" {
				t.Error("expressions see no kind")
			}
			return label("by", "a"), nil
		}
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "p", "labels": map[string]any{}}}}
		if named {
			u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		}
		r := pod()
		r.Object = u
		w.fails("error", w.mutatingPlugin().Admit(t.Context(), r), "")
		got := r.Object.(*unstructured.Unstructured)
		_, has := got.Object["kind"]
		_, version := got.Object["apiVersion"]
		if got.GetLabels()["by"] != "a" || has != named || version != named {
			t.Errorf("named %t: %v", named, got.Object)
		}
	}
}

// TestNoObject: there is nothing to change of what is only connected to.
func TestNoObject(t *testing.T) {
	w := newWorld(t)
	w.change("a", 1, nil)
	w.mutate = func(string, int, *policy.Input, runtime.Object) (policy.Change, error) {
		t.Error("it is evaluated")
		return policy.Change{}, nil
	}
	r := pod()
	r.Operation, r.Object = admission.Connect, nil
	w.fails("error", w.mutatingPlugin().Admit(t.Context(), r), "")
	if p := w.mutatingPlugin(); p.Handles(admission.Delete) || !p.Handles(admission.Create) || !p.Handles(admission.Connect) || p.Name() != "MutatingAdmissionPolicy" {
		t.Error("it handles the wrong operations")
	}
	if p := w.validatingPlugin(); !p.Handles(admission.Delete) || p.Name() != "ValidatingAdmissionPolicy" {
		t.Error("it does not handle all operations")
	}
}

// TestWithoutOptions: policies work without options, but there are no parameters, and nothing is merged.
func TestWithoutOptions(t *testing.T) {
	w := newWorld(t)
	w.options = policy.Options{}
	w.add("a", nil, warn, audit)
	w.validate = func(string, *policy.Input, runtime.Object) policy.Verdict {
		return policy.Verdict{Decisions: make([]policy.Decision, 60)}
	}
	w.fails("validating", w.validatingPlugin().Validate(t.Context(), pod()), "")
	w.change("a", 1, nil)
	w.mutate = func(string, int, *policy.Input, runtime.Object) (policy.Change, error) {
		return policy.Change{Apply: map[string]any{"a": "b"}}, nil
	}
	w.fails("merging", w.mutatingPlugin().Admit(t.Context(), pod()),
		"error applying patch: Resource kind /v1, Kind=Pod not found. There can be a delay between when CustomResourceDefinitions are created and when they are available.")
	w.mutating[0] = w.mutating[0].DeepCopy()
	w.mutating[0].Spec.ParamKind = kind()
	w.fails("parameters", w.mutatingPlugin().Admit(t.Context(), pod()),
		`policy "a" denied request: failed to configure policy: failed to find resource referenced by paramKind: '/v1, Kind=ConfigMap'`)
}
