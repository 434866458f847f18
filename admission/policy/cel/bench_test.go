package cel_test

import (
	"context"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/policy"
	"github.com/keelson-dev/keelson/admission/policy/cel"
	"github.com/keelson-dev/keelson/authn"
)

// list is a cache that is a list.
type list[T any] []T

func (l list[T]) List(string) []T { return l }

// namespaces is a cache that has every namespace.
type namespaces struct{}

func (namespaces) Get(_, name string) (*corev1.Namespace, bool) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "a"}}}, true
}

// constraints select creates and updates of pods.
func constraints() *registrationv1.MatchResources {
	return &registrationv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}, MatchPolicy: new(registrationv1.Equivalent),
		ResourceRules: []registrationv1.NamedRuleWithOperations{{RuleWithOperations: registrationv1.RuleWithOperations{
			Operations: []registrationv1.OperationType{"CREATE", "UPDATE"},
			Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}}},
	}
}

// pod returns the creation of a pod.
func pod() *admission.Request {
	return &admission.Request{
		Operation: admission.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: corev1.SchemeGroupVersion.WithResource("pods"),
		Namespace: "default", Name: "p", Options: &metav1.CreateOptions{},
		User: &authn.Identity{Name: "ann", Groups: []string{"system:authenticated"}},
		Object: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", Labels: map[string]string{"app": "p"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "a", Image: "registry.example.com/a:1"}, {Name: "b", Image: "registry.example.com/b:1"},
			}},
		},
	}
}

func validating(expressions ...string) *policy.Validating {
	p := &registrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: registrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: constraints()},
	}
	for _, text := range expressions {
		p.Spec.Validations = append(p.Spec.Validations, registrationv1.Validation{Expression: text})
	}
	b := &registrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec:       registrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ValidationActions: []registrationv1.ValidationAction{registrationv1.Deny}},
	}
	return policy.NewValidating(list[*registrationv1.ValidatingAdmissionPolicy]{p}, list[*registrationv1.ValidatingAdmissionPolicyBinding]{b},
		namespaces{}, cel.New(cel.Options{}).Validating, policy.Options{})
}

// BenchmarkThreeExpressions is a policy of three expressions, on the creation of a pod.
func BenchmarkThreeExpressions(b *testing.B) {
	p, r := validating(
		"object.metadata.labels.app == object.metadata.name",
		"object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
		"!has(object.spec.hostNetwork) || !object.spec.hostNetwork",
	), pod()
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Validate(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUnmatched is a policy that does not concern the request.
func BenchmarkUnmatched(b *testing.B) {
	p, r := validating("true"), pod()
	r.Resource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Validate(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompile is the first use of a policy, by a compiler that has compiled others.
func BenchmarkCompile(b *testing.B) {
	compiler := cel.New(cel.Options{})
	p := &registrationv1.ValidatingAdmissionPolicy{Spec: registrationv1.ValidatingAdmissionPolicySpec{
		Validations: []registrationv1.Validation{{Expression: "object.metadata.labels.app == object.metadata.name"}},
	}}
	for name, variables := range map[string][]registrationv1.Variable{"plain": nil, "variables": {{Name: "a", Expression: "object.metadata"}}} {
		p.Spec.Variables = variables
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				compiler.Validating(p)
			}
		})
	}
}
