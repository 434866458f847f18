package cluster_test

import (
	"context"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/admission/policy/typecheck"
	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
	"github.com/keelson-dev/keelson/registry/apps"
)

// TestPolicyStatus: under its own user, the controller applies what is wrong with the types of a policy's expressions.
func TestPolicyStatus(t *testing.T) {
	docs := openapi.New(apps.Kinds(), openapi.Options{})
	var served []typecheck.Served
	for _, k := range apps.Kinds() {
		served = append(served, typecheck.Served{Kind: k.GroupVersion.WithKind(k.Names.Kind), Plural: k.Plural, Singular: k.Singular})
	}
	checker := typecheck.NewChecker(func() []typecheck.Served { return served }, func(_ context.Context, of schema.GroupVersion) ([]byte, error) {
		data, ok, err := docs.JSON(of)
		if err == nil && !ok {
			err = typecheck.ErrNoSchema
		}
		return data, err
	}, typecheck.Options{})
	compiler := typecheck.NewCompiler()
	c, err := cluster.Start(t.Context(), cluster.Options{
		Kinds: admissionregistration.PolicyKinds(admissionregistration.PolicyOptions{Compiler: func(composed bool) admissionregistration.Compiler {
			compile := compiler.Policy(composed)
			return func(e admissionregistration.Expression) error { return compile(typecheck.Expression(e)) }
		}}),
		Components: []component.Component{controllermanager.ValidatingAdmissionPolicyStatus(checker.Check)}, Disable: []string{"ServiceAccount"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	policies := client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	changes, err := policies.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
		}}}},
		Validations: []admissionv1.Validation{{Expression: "object.spec.replicsa < 5"}},
	}}
	if _, err := policies.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for e := range changes.ResultChan() {
		got, ok := e.Object.(*admissionv1.ValidatingAdmissionPolicy)
		if !ok {
			t.Fatalf("watched %+v", e.Object)
		}
		if got.Status.ObservedGeneration == 0 {
			continue
		}
		const want = "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replicsa'\n | object.spec.replicsa < 5\n | ...........^\n"
		if s := got.Status; s.ObservedGeneration != 1 || s.TypeChecking == nil || len(s.TypeChecking.ExpressionWarnings) != 1 ||
			s.TypeChecking.ExpressionWarnings[0] != (admissionv1.ExpressionWarning{FieldRef: "spec.validations[0].expression", Warning: want}) {
			t.Errorf("status %+v", got.Status)
		}
		if !slices.ContainsFunc(got.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
			return f.Manager == "validatingadmissionpolicy-status" && f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == "status"
		}) {
			t.Errorf("managed fields %+v", got.ManagedFields)
		}
		return
	}
	t.Error("the watch ended")
}
