package policy_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/policy"
)

type (
	validatingSpec    = registrationv1.ValidatingAdmissionPolicySpec
	validatingBinding = registrationv1.ValidatingAdmissionPolicyBindingSpec
)

const (
	deny  = registrationv1.Deny
	warn  = registrationv1.Warn
	audit = registrationv1.Audit
)

func failsOpen(p *validatingSpec, _ *validatingBinding) { p.FailurePolicy = new(registrationv1.Ignore) }

// TestActions: a binding says what becomes of a decision, unless it is a failure that the policy ignores.
func TestActions(t *testing.T) {
	for name, tt := range map[string]struct {
		decision  policy.Decision
		change    func(*validatingSpec, *validatingBinding)
		actions   []registrationv1.ValidationAction
		err       string
		warnings  []string
		annotated []string
	}{
		"allowed": {decision: policy.Decision{Allowed: true}, actions: []registrationv1.ValidationAction{deny, warn, audit}},
		"denied": {
			decision: policy.Decision{Message: "no"}, actions: []registrationv1.ValidationAction{deny},
			err: `pods "p" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'a-b' denied request: no`,
		},
		"warned": {
			decision: policy.Decision{Message: "no"}, actions: []registrationv1.ValidationAction{warn},
			warnings: []string{"Validation failed for ValidatingAdmissionPolicy 'a' with binding 'a-b': no"},
		},
		"audited": {
			decision: policy.Decision{Message: "no"}, actions: []registrationv1.ValidationAction{audit},
			annotated: []string{`validation.policy.admission.k8s.io/validation_failure=[{"message":"no","policy":"a","binding":"a-b","expressionIndex":0,"validationActions":["Audit"]}]`},
		},
		"failed": {
			decision: policy.Decision{Failed: true, Message: "odd"}, actions: []registrationv1.ValidationAction{deny},
			err: `pods "p" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'a-b' denied request: odd`,
		},
		"failed, ignored": {decision: policy.Decision{Failed: true, Message: "odd"}, change: failsOpen, actions: []registrationv1.ValidationAction{deny, warn, audit}},
		"denied by a policy that ignores failures": {
			decision: policy.Decision{Message: "no"}, change: failsOpen, actions: []registrationv1.ValidationAction{deny},
			err: `pods "p" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'a-b' denied request: no`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.add("a", tt.change, tt.actions...)
			w.validate = func(string, *policy.Input, runtime.Object) policy.Verdict {
				return policy.Verdict{Decisions: []policy.Decision{tt.decision}}
			}
			w.fails("error", w.validatingPlugin().Validate(t.Context(), pod()), tt.err)
			w.wants("warnings", w.warnings, tt.warnings...)
			w.wants("annotations", w.annotated, tt.annotated...)
		})
	}
}

// TestDenial: a refusal names the first policy and has the status of its reason.
func TestDenial(t *testing.T) {
	for reason, want := range map[metav1.StatusReason]string{
		"": "422 Invalid", metav1.StatusReasonInvalid: "422 Invalid", metav1.StatusReasonForbidden: "403 Forbidden",
		metav1.StatusReasonUnauthorized: "401 Unauthorized", metav1.StatusReasonRequestEntityTooLarge: "413 RequestEntityTooLarge",
		metav1.StatusReasonConflict: "422 Conflict",
	} {
		w := newWorld(t)
		w.add("b", nil, deny)
		w.add("a", nil, deny)
		w.validate = func(name string, _ *policy.Input, _ runtime.Object) policy.Verdict {
			return policy.Verdict{Decisions: []policy.Decision{{Allowed: true}, {Message: name, Reason: reason}, {Message: "more"}}}
		}
		err := w.validatingPlugin().Validate(t.Context(), pod())
		var denial *policy.Denial
		if !errors.As(err, &denial) || denial.Policy != "a" || denial.Binding != "a-b" {
			t.Fatalf("%+v", err)
		}
		s := denial.Status()
		if got := fmt.Sprintf("%d %s", s.Code, s.Reason); got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
		const message = "ValidatingAdmissionPolicy 'a' with binding 'a-b' denied request: a"
		if s.Message != `pods "p" is forbidden: `+message || len(s.Details.Causes) != 1 || s.Details.Causes[0].Message != message || s.Details.Kind != "pods" {
			t.Errorf("%+v", s)
		}
	}
}

// TestManyFailures: the audit log gets fifty.
func TestManyFailures(t *testing.T) {
	for n, want := range map[int]int{50: 50, 51: 50} {
		w := newWorld(t)
		w.add("a", nil, audit)
		w.validate = func(string, *policy.Input, runtime.Object) policy.Verdict {
			return policy.Verdict{Decisions: make([]policy.Decision, n)}
		}
		w.fails("error", w.validatingPlugin().Validate(t.Context(), pod()), "")
		if got := strings.Count(w.annotated[0], `"policy":"a"`); got != want || strings.Contains(w.log.String(), "limit=50") != (n > 50) {
			t.Errorf("of %d, %d are noted; logged %q", n, got, w.log.String())
		}
	}
}

// TestAuditAnnotations: values are joined once each, and a failure counts as that of a policy.
func TestAuditAnnotations(t *testing.T) {
	w := newWorld(t)
	w.add("a", nil)
	for range 2 {
		w.bindings = append(w.bindings, &registrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("more", len(w.bindings))}, Spec: validatingBinding{PolicyName: "a"}})
	}
	calls := 0
	w.validate = func(string, *policy.Input, runtime.Object) policy.Verdict {
		calls++
		value := []string{"x", "y", "x"}[calls-1]
		return policy.Verdict{Annotations: []policy.AuditAnnotation{{Key: "k", Value: value}, {Key: "none"}, {Key: "long", Value: strings.Repeat("l", 10<<10+1)}}}
	}
	w.fails("error", w.validatingPlugin().Validate(t.Context(), pod()), "")
	w.wants("annotations", w.annotated, "a/k=x, y", "a/long="+strings.Repeat("l", 10<<10))

	for want, change := range map[string]func(*validatingSpec, *validatingBinding){
		"": failsOpen, `pods "p" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'a-b' denied request: odd`: nil,
	} {
		w := newWorld(t)
		w.add("a", change)
		w.validate = func(string, *policy.Input, runtime.Object) policy.Verdict {
			return policy.Verdict{Annotations: []policy.AuditAnnotation{{Key: "k", Error: "odd"}}}
		}
		w.fails("failed annotation", w.validatingPlugin().Validate(t.Context(), pod()), want)
		w.wants("annotations", w.annotated)
	}
}

func kind() *registrationv1.ParamKind {
	return &registrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
}

// TestMisconfigured: what keeps policies and bindings from being used, and that it does not matter if failures are ignored.
func TestMisconfigured(t *testing.T) {
	limits := func(namespaced bool) *params {
		return &params{namespaced: namespaced, objects: map[string]runtime.Object{"ns/a": configMap("ns", "a"), "/a": configMap("", "a")}}
	}
	ref := func(r registrationv1.ParamRef) func(*validatingSpec, *validatingBinding) {
		return func(p *validatingSpec, b *validatingBinding) { p.ParamKind, b.ParamRef = kind(), &r }
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "none"}}
	const ofPolicy, ofBinding = "failed to configure policy: ", "failed to configure binding: "
	for name, tt := range map[string]struct {
		change  func(*validatingSpec, *validatingBinding)
		params  *params
		request func(*admission.Request)
		want    string
	}{
		"no constraints":        {change: func(p *validatingSpec, _ *validatingBinding) { p.MatchConstraints = nil }, want: ofPolicy + "policy contained no match constraints, a required field"},
		"no namespace selector": {change: func(p *validatingSpec, _ *validatingBinding) { p.MatchConstraints.NamespaceSelector = nil }, want: ofPolicy + "a nil namespace selector was passed, please ensure selectors are initialized properly"},
		"no object selector":    {change: func(p *validatingSpec, _ *validatingBinding) { p.MatchConstraints.ObjectSelector = nil }, want: ofPolicy + "a nil object selector was passed, please ensure selectors are initialized properly"},
		"no object selector of a binding": {
			change: func(_ *validatingSpec, b *validatingBinding) {
				b.MatchResources = pods()
				b.MatchResources.ObjectSelector = nil
			},
			want: ofBinding + "a nil object selector was passed, please ensure selectors are initialized properly",
		},
		"unknown kind":       {change: ref(registrationv1.ParamRef{Name: "a"}), want: ofPolicy + "failed to find resource referenced by paramKind: '/v1, Kind=ConfigMap'"},
		"name and selector":  {change: ref(registrationv1.ParamRef{Name: "a", Selector: selector}), params: limits(true), want: ofBinding + "paramRef.name and paramRef.selector are mutually exclusive"},
		"neither":            {change: ref(registrationv1.ParamRef{}), params: limits(true), want: ofBinding + "one of name or selector must be provided"},
		"a namespace":        {change: ref(registrationv1.ParamRef{Name: "a", Namespace: "ns"}), params: limits(false), want: ofBinding + "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"},
		"no namespace":       {change: ref(registrationv1.ParamRef{Name: "a"}), params: limits(true), request: func(r *admission.Request) { r.Namespace = "" }, want: ofBinding + "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"},
		"none found":         {change: ref(registrationv1.ParamRef{Name: "b", ParameterNotFoundAction: new(registrationv1.DenyAction)}), params: limits(true), want: ofBinding + "no params found for policy binding with `Deny` parameterNotFoundAction"},
		"none selected":      {change: ref(registrationv1.ParamRef{Selector: selector, ParameterNotFoundAction: new(registrationv1.DenyAction)}), params: limits(false), want: ofBinding + "no params found for policy binding with `Deny` parameterNotFoundAction"},
		"none found, fine":   {change: ref(registrationv1.ParamRef{Name: "b", ParameterNotFoundAction: new(registrationv1.AllowAction)}), params: limits(true)},
		"none found, unsaid": {change: ref(registrationv1.ParamRef{Name: "b"}), params: limits(true)},
		"unreadable":         {change: ref(registrationv1.ParamRef{Name: "a"}), params: &params{namespaced: true, err: errors.New("down")}, want: ofBinding + "down"},
		"odd selector": {
			change: ref(registrationv1.ParamRef{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Odd"}}}}),
			params: limits(true), want: ofBinding + `"Odd" is not a valid label selector operator`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, open := range []bool{false, true} {
				w := newWorld(t)
				w.validate = func(string, *policy.Input, runtime.Object) policy.Verdict {
					t.Error("it is evaluated")
					return policy.Verdict{}
				}
				if tt.params != nil {
					w.params[corev1.SchemeGroupVersion.WithKind("ConfigMap")] = tt.params
				}
				w.add("a", func(p *validatingSpec, b *validatingBinding) {
					tt.change(p, b)
					if open {
						failsOpen(p, b)
					}
				}, deny)
				r := pod()
				if tt.request != nil {
					tt.request(r)
				}
				want := ""
				if tt.want != "" && !open {
					want = `pods "p" is forbidden: ValidatingAdmissionPolicy 'a' denied request: ` + tt.want
					if strings.HasPrefix(tt.want, ofBinding) {
						want = strings.Replace(want, "'a'", "'a' with binding 'a-b'", 1)
					}
				}
				w.fails("error", w.validatingPlugin().Validate(t.Context(), r), want)
			}
		})
	}
}

// TestParams: with which objects a policy is evaluated. They name their type; what is shared is not changed.
func TestParams(t *testing.T) {
	untyped := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "u", "labels": map[string]any{"kind": "limits"}}}}
	here, there := configMap("ns", "a"), configMap("other", "a")
	all := map[string]runtime.Object{"ns/a": here, "ns/b": untyped, "other/a": there, "/a": here}
	limits := &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "limits"}}
	for name, tt := range map[string]struct {
		ref        *registrationv1.ParamRef
		namespaced bool
		of         *registrationv1.ParamKind
		want       []string
	}{
		"no kind":              {ref: &registrationv1.ParamRef{Name: "a"}, want: []string{"none"}},
		"no reference":         {of: kind(), want: []string{"none"}},
		"by name":              {&registrationv1.ParamRef{Name: "a"}, true, kind(), []string{"ConfigMap a"}},
		"in another namespace": {&registrationv1.ParamRef{Name: "a", Namespace: "other"}, true, kind(), []string{"ConfigMap a"}},
		"in none":              {&registrationv1.ParamRef{Name: "a"}, false, kind(), []string{"ConfigMap a"}},
		"selected":             {&registrationv1.ParamRef{Selector: limits}, true, kind(), []string{"ConfigMap a", "ConfigMap u"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.params[corev1.SchemeGroupVersion.WithKind("ConfigMap")] = &params{namespaced: tt.namespaced, objects: all}
			w.add("a", func(p *validatingSpec, b *validatingBinding) { p.ParamKind, b.ParamRef = tt.of, tt.ref }, deny)
			w.add("also", func(p *validatingSpec, b *validatingBinding) { p.ParamKind, b.ParamRef = tt.of, tt.ref }, deny)
			var got []string
			w.validate = func(name string, _ *policy.Input, param runtime.Object) policy.Verdict {
				if name == "a" {
					got = append(got, describe(param))
				}
				return policy.Verdict{}
			}
			w.fails("error", w.validatingPlugin().Validate(t.Context(), pod()), "")
			w.wants("parameters", got, tt.want...)
			if here.Kind != "" || untyped.GetKind() != "" {
				t.Error("a shared object was changed")
			}
		})
	}
}

// TestInput: what expressions see, in the version that the policy selects.
func TestInput(t *testing.T) {
	old := schema.GroupVersion{Group: "", Version: "v0"}
	convert := func(obj runtime.Object) (runtime.Object, error) {
		p := obj.(*corev1.Pod).DeepCopy()
		if p.Name == "unconvertible" {
			return nil, errors.New("odd")
		}
		p.Annotations = map[string]string{"version": "v0"}
		return p, nil
	}
	versions := []admission.Version{
		{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: corev1.SchemeGroupVersion.WithResource("pods")},
		{Kind: old.WithKind("Pod"), Resource: old.WithResource("pods"), FromStored: convert, ToStored: convert},
	}
	equivalent := func(version string, names ...string) *registrationv1.MatchResources {
		m := selecting("", version, "pods")
		m.MatchPolicy = new(registrationv1.Equivalent)
		m.ResourceRules[0].ResourceNames = names
		return m
	}
	exact := selecting("", "v0", "pods")
	exact.MatchPolicy = new(registrationv1.Exact)
	all := pods()
	all.ResourceRules = nil
	without := pods()
	without.ExcludeResourceRules = without.ResourceRules
	withoutOld := equivalent("v1")
	withoutOld.ExcludeResourceRules = exact.ResourceRules
	teamB := pods()
	teamB.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
	labelled := pods()
	labelled.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "q"}}
	unconvertible := func(r *admission.Request) { r.Object.(*corev1.Pod).Name = "unconvertible" }
	for name, tt := range map[string]struct {
		of, bound *registrationv1.MatchResources
		request   func(*admission.Request)
		want      string // "" if it is not evaluated
		err       string
	}{
		"as asked":               {of: pods(), want: "v1 Pod p, none, CreateOptions, ns"},
		"no rules":               {of: all, want: "v1 Pod p, none, CreateOptions, ns"},
		"another version":        {of: equivalent("v0"), want: "v0 Pod p as v0, none, CreateOptions, ns"},
		"another version, exact": {of: exact},
		"by its name":            {of: equivalent("v0", "o", "p"), want: "v0 Pod p as v0, none, CreateOptions, ns"},
		"another name":           {of: equivalent("v1", "o")},
		"excluded":               {of: without},
		"excluded as another":    {of: withoutOld},
		"of another team":        {of: teamB},
		"with other labels":      {of: labelled},
		"bound":                  {of: pods(), bound: pods(), want: "v1 Pod p, none, CreateOptions, ns"},
		"bound in another":       {of: pods(), bound: equivalent("v0"), want: "v1 Pod p, none, CreateOptions, ns"},
		"not bound":              {of: pods(), bound: labelled},
		"unconvertible":          {of: equivalent("v0"), request: unconvertible, err: `pods "p" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'a-b' denied request: failed to configure binding: failed to convert object version: odd`},
		"unconvertible before": {of: equivalent("v0"), request: func(r *admission.Request) {
			r.OldObject = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "unconvertible"}}
		}, err: `pods "p" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'a-b' denied request: failed to configure binding: failed to convert object version: odd`},
		"deleted":           {of: pods(), request: func(r *admission.Request) { r.Object, r.OldObject = nil, r.Object }, want: "v1 none, Pod p, CreateOptions, ns"},
		"no such namespace": {of: pods(), request: func(r *admission.Request) { r.Namespace = "gone" }, err: `namespaces "gone" not found`},
		"cluster-scoped":    {of: pods(), request: func(r *admission.Request) { r.Namespace = "" }, want: "v1 Pod p, none, CreateOptions, -"},
		"a namespace is in no one": {of: selecting("", "v1", "namespaces"), request: func(r *admission.Request) {
			r.Kind, r.Resource = corev1.SchemeGroupVersion.WithKind("Namespace"), corev1.SchemeGroupVersion.WithResource("namespaces")
			r.Namespace, r.Object = "ns", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
		}, want: "v1 Namespace ns, none, CreateOptions, -"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.options.Versions = func(schema.GroupVersionResource, string) []admission.Version { return versions }
			change := func(p *validatingSpec, b *validatingBinding) { p.MatchConstraints, b.MatchResources = tt.of, tt.bound }
			w.add("a", change, deny)
			w.add("also", change, deny)
			var inputs []*policy.Input
			w.validate = func(_ string, in *policy.Input, _ runtime.Object) policy.Verdict {
				inputs = append(inputs, in)
				return policy.Verdict{}
			}
			r := pod()
			if tt.request != nil {
				tt.request(r)
			}
			w.fails("error", w.validatingPlugin().Validate(t.Context(), r), tt.err)
			if len(inputs) == 0 {
				if tt.want != "" {
					t.Error("it is not evaluated")
				}
				return
			}
			in := inputs[0]
			object, ns := describe(in.Object), "-"
			if p, ok := in.Object.(*corev1.Pod); ok && p.Annotations["version"] != "" {
				object += " as " + p.Annotations["version"]
			}
			if in.Namespace != nil {
				ns = in.Namespace.Name
			}
			got := fmt.Sprintf("%s %s, %s, %s, %s", in.Version.Kind.Version, object, describe(in.OldObject), in.Options.GetObjectKind().GroupVersionKind().Kind, ns)
			if got != tt.want || len(inputs) != 2 || inputs[1] != in || in.Request != r {
				t.Errorf("%s\nwant %s; %d inputs", got, tt.want, len(inputs))
			}
			if p, ok := r.Object.(*corev1.Pod); ok && p.Kind != "" {
				t.Error("the request was changed")
			}
		})
	}
}

// TestExempt: policies do not judge policies, nor who may do what.
func TestExempt(t *testing.T) {
	for resource, want := range map[schema.GroupVersionResource]bool{
		registrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"):       false,
		registrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings"): false,
		registrationv1.SchemeGroupVersion.WithResource("mutatingadmissionpolicies"):         false,
		registrationv1.SchemeGroupVersion.WithResource("mutatingadmissionpolicybindings"):   false,
		registrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"):   true,
		{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}:    false,
		{Group: "example.com", Version: "v1", Resource: "validatingadmissionpolicies"}:      true,
	} {
		w := newWorld(t)
		w.add("a", func(p *validatingSpec, _ *validatingBinding) { p.MatchConstraints = selecting("*", "*", "*") }, deny)
		w.change("a", 1, func(p *mutatingSpec, _ *mutatingBinding) { p.MatchConstraints = selecting("*", "*", "*") })
		evaluated, changed := false, false
		w.validate = func(string, *policy.Input, runtime.Object) policy.Verdict {
			evaluated = true
			return policy.Verdict{}
		}
		w.matches = func(string, *policy.Input, runtime.Object) (bool, error) {
			changed = true
			return false, nil
		}
		r := pod()
		r.Resource = resource
		w.fails("error", w.validatingPlugin().Validate(t.Context(), r), "")
		w.fails("error", w.mutatingPlugin().Admit(t.Context(), r), "")
		if evaluated != want || changed != want {
			t.Errorf("%v: evaluated %t, %t", resource, evaluated, changed)
		}
	}
}

// TestCompiledOnce: a policy is compiled when it is first needed, and again once it is another; policies without bindings
// never, and a binding counts from when it is there.
func TestCompiledOnce(t *testing.T) {
	w := newWorld(t)
	w.add("b", nil, deny)
	w.add("a", nil, deny)
	w.add("elsewhere", func(p *validatingSpec, _ *validatingBinding) { p.MatchConstraints = selecting("", "v1", "secrets") }, deny)
	unbound := w.bindings[1]
	w.bindings = append(w.bindings[:1:1], w.bindings[2])
	plugin := w.validatingPlugin()
	var evaluated []string
	w.validate = func(name string, _ *policy.Input, _ runtime.Object) policy.Verdict {
		evaluated = append(evaluated, name)
		return policy.Verdict{}
	}
	expect := func(what, compiled, ran string) {
		t.Helper()
		w.compiled, evaluated = nil, nil
		w.fails(what, plugin.Validate(t.Context(), pod()), "")
		if got, now := fmt.Sprint(w.compiled), fmt.Sprint(evaluated); got != compiled || now != ran {
			t.Errorf("%s: compiled %s, evaluated %s", what, got, now)
		}
	}
	expect("first", "[b]", "[b]")
	expect("again", "[]", "[b]")
	w.bindings = append(w.bindings, unbound)
	expect("bound", "[a]", "[a b]")
	w.bindings = append(w.bindings, &registrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "0"}, Spec: validatingBinding{PolicyName: "b"}})
	expect("bound twice", "[]", "[a b b]")
	w.validating[0] = w.validating[0].DeepCopy()
	expect("updated", "[b]", "[a b b]")
	w.validating = w.validating[1:]
	expect("gone", "[]", "[a]")
	w.validating = nil
	expect("all gone", "[]", "[]")
}

// keyed is an object that is no struct.
type keyed map[string]string

func (k keyed) GetObjectKind() schema.ObjectKind                 { return k }
func (k keyed) DeepCopyObject() runtime.Object                   { return maps.Clone(k) }
func (k keyed) SetGroupVersionKind(kind schema.GroupVersionKind) { k["kind"] = kind.Kind }
func (k keyed) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Kind: k["kind"]}
}

// TestOddParams: a parameter that cannot be named without changing what is shared stays as it is.
func TestOddParams(t *testing.T) {
	of := keyed{}
	for _, shared := range []runtime.Object{of, &of} {
		w := newWorld(t)
		w.params[corev1.SchemeGroupVersion.WithKind("ConfigMap")] = &params{namespaced: true, objects: map[string]runtime.Object{"ns/a": shared}}
		w.add("a", func(p *validatingSpec, b *validatingBinding) {
			p.ParamKind, b.ParamRef = kind(), &registrationv1.ParamRef{Name: "a"}
		}, deny)
		evaluated := 0
		w.validate = func(_ string, _ *policy.Input, param runtime.Object) policy.Verdict {
			if evaluated++; fmt.Sprintf("%T", param) != fmt.Sprintf("%T", shared) {
				t.Errorf("%T became %T", shared, param)
			}
			return policy.Verdict{}
		}
		w.fails("error", w.validatingPlugin().Validate(t.Context(), pod()), "")
		if evaluated != 1 || len(of) != 0 {
			t.Errorf("%T: evaluated %d times, has become %v", shared, evaluated, of)
		}
	}
}
