package policy_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/policy"
)

// list is a cache that is a list.
type list[T any] []T

func (l *list[T]) List(string) []T { return *l }

// namespaces has ns, of team a.
type namespaces struct{}

func (namespaces) Get(_, name string) (*corev1.Namespace, bool) {
	if name != "ns" {
		return nil, false
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "a"}}}, true
}

// params are objects that parametrise policies, by "namespace/name".
type params struct {
	namespaced bool
	objects    map[string]runtime.Object
	err        error
}

func (p *params) Namespaced() bool { return p.namespaced }

func (p *params) Get(_ context.Context, namespace, name string) (runtime.Object, error) {
	if obj, ok := p.objects[namespace+"/"+name]; ok {
		return obj, p.err
	}
	return nil, p.err
}

func (p *params) List(_ context.Context, namespace string, selected labels.Selector) ([]runtime.Object, error) {
	var all []runtime.Object
	for _, name := range []string{"a", "b", "c"} {
		if obj, ok := p.objects[namespace+"/"+name]; ok && selected.Matches(labels.Set(obj.(metav1.Object).GetLabels())) {
			all = append(all, obj)
		}
	}
	return all, p.err
}

// world has policies and both plugins; what would evaluate expressions is the test.
type world struct {
	*testing.T
	validating list[*registrationv1.ValidatingAdmissionPolicy]
	mutating   list[*registrationv1.MutatingAdmissionPolicy]
	bindings   list[*registrationv1.ValidatingAdmissionPolicyBinding]
	mutatings  list[*registrationv1.MutatingAdmissionPolicyBinding]
	validate   func(name string, in *policy.Input, param runtime.Object) policy.Verdict
	matches    func(name string, in *policy.Input, param runtime.Object) (bool, error)
	mutate     func(name string, n int, in *policy.Input, param runtime.Object) (policy.Change, error)
	params     map[schema.GroupVersionKind]*params
	options    policy.Options

	log       strings.Builder
	compiled  []string
	warnings  []string
	annotated []string
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, params: map[schema.GroupVersionKind]*params{}}
	w.validate = func(string, *policy.Input, runtime.Object) policy.Verdict { return policy.Verdict{} }
	w.matches = func(string, *policy.Input, runtime.Object) (bool, error) { return true, nil }
	w.options = policy.Options{
		Params: func(kind schema.GroupVersionKind) (policy.Params, bool) {
			p, ok := w.params[kind]
			return p, ok
		},
		Warn:     func(_ context.Context, text string) { w.warnings = append(w.warnings, text) },
		Annotate: func(_ context.Context, key, value string) { w.annotated = append(w.annotated, key+"="+value) },
		Logger:   slog.New(slog.NewTextHandler(&w.log, nil)),
	}
	return w
}

func (w *world) validatingPlugin() *policy.Validating {
	return policy.NewValidating(&w.validating, &w.bindings, namespaces{}, func(p *registrationv1.ValidatingAdmissionPolicy) policy.Validator {
		w.compiled = append(w.compiled, p.Name)
		return policy.ValidatorFunc(func(_ context.Context, in *policy.Input, param runtime.Object) policy.Verdict {
			return w.validate(p.Name, in, param)
		})
	}, w.options)
}

// mutator is a compiled policy.
type mutator struct {
	*world
	name string
}

func (m mutator) Matches(_ context.Context, in *policy.Input, param runtime.Object) (bool, error) {
	return m.matches(m.name, in, param)
}

func (m mutator) Mutate(_ context.Context, n int, in *policy.Input, param runtime.Object) (policy.Change, error) {
	return m.mutate(m.name, n, in, param)
}

func (w *world) mutatingPlugin() *policy.Mutating {
	return policy.NewMutating(&w.mutating, &w.mutatings, namespaces{}, func(p *registrationv1.MutatingAdmissionPolicy) policy.Mutator {
		w.compiled = append(w.compiled, p.Name)
		return mutator{w, p.Name}
	}, w.options)
}

// selecting are constraints on operations on resources of a group, in a version.
func selecting(group, version string, resources ...string) *registrationv1.MatchResources {
	return &registrationv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
		ResourceRules: []registrationv1.NamedRuleWithOperations{{RuleWithOperations: registrationv1.RuleWithOperations{
			Operations: []registrationv1.OperationType{"*"},
			Rule:       registrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources},
		}}},
	}
}

func pods() *registrationv1.MatchResources { return selecting("", "v1", "pods") }

// add adds a policy that validates pods, with a binding of the same name that does something.
func (w *world) add(name string, change func(*registrationv1.ValidatingAdmissionPolicySpec, *registrationv1.ValidatingAdmissionPolicyBindingSpec), actions ...registrationv1.ValidationAction) {
	p := &registrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: registrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: pods()}}
	b := &registrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name + "-b"}, Spec: registrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ValidationActions: actions,
	}}
	if change != nil {
		change(&p.Spec, &b.Spec)
	}
	w.validating, w.bindings = append(w.validating, p), append(w.bindings, b)
}

// change adds a policy that changes pods, with a binding, and a number of mutations.
func (w *world) change(name string, mutations int, change func(*registrationv1.MutatingAdmissionPolicySpec, *registrationv1.MutatingAdmissionPolicyBindingSpec)) {
	p := &registrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: registrationv1.MutatingAdmissionPolicySpec{
		MatchConstraints: pods(), Mutations: make([]registrationv1.Mutation, mutations),
	}}
	b := &registrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name + "-b"}, Spec: registrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}}
	if change != nil {
		change(&p.Spec, &b.Spec)
	}
	w.mutating, w.mutatings = append(w.mutating, p), append(w.mutatings, b)
}

func pod() *admission.Request {
	return &admission.Request{
		Operation: admission.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: corev1.SchemeGroupVersion.WithResource("pods"),
		Namespace: "ns", Name: "p", Options: &metav1.CreateOptions{},
		Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "p"}}},
	}
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"kind": "limits"}}}
}

// wants compares texts.
func (w *world) wants(what string, got []string, want ...string) {
	w.Helper()
	if !slices.Equal(got, want) {
		w.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// fails compares an error; "" is none.
func (w *world) fails(what string, err error, want string) {
	w.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		w.Errorf("%s: %s\nwant %s", what, got, want)
	}
}

func describe(obj runtime.Object) string {
	if obj == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s", obj.GetObjectKind().GroupVersionKind().Kind, obj.(metav1.Object).GetName())
}
