package validatingadmissionpolicystatus_test

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/validatingadmissionpolicystatus"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
)

// patcher is a client of which only patches matter.
type patcher func(t client.Target, p client.Patch, o metav1.PatchOptions) error

func (f patcher) Patch(_ context.Context, t client.Target, p client.Patch, o metav1.PatchOptions) (runtime.Object, error) {
	return nil, f(t, p, o)
}

func resource() (gvr string) { return "validatingadmissionpolicies" }

// accepting makes kinds that accept all expressions.
func accepting() admissionregistration.PolicyOptions {
	return admissionregistration.PolicyOptions{Compiler: func(bool) admissionregistration.Compiler {
		return func(admissionregistration.Expression) error { return nil }
	}}
}

func policy(name string) *admissionv1.ValidatingAdmissionPolicy {
	return &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
		}}}},
		Validations: []admissionv1.Validation{{Expression: "object.spec.replicsa < 5"}},
	}}
}

// A new policy gets a status.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	api, err := controllerstest.New(controllerstest.Options{
		Kinds: admissionregistration.PolicyKinds(accepting()), Objects: []informer.Object{policy("small")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := validatingadmissionpolicystatus.Sources{Policies: informer.New(
		controllerstest.Source[*admissionv1.ValidatingAdmissionPolicy](api, admissionv1.SchemeGroupVersion.WithResource(resource())), informer.Options{})}
	check := func(context.Context, *admissionv1.ValidatingAdmissionPolicy) ([]admissionv1.ExpressionWarning, error) {
		return []admissionv1.ExpressionWarning{{FieldRef: "spec.validations[0].expression", Warning: "undefined field 'replicsa'"}}, nil
	}
	c := validatingadmissionpolicystatus.New(in, patcher(func(t client.Target, p client.Patch, _ metav1.PatchOptions) error {
		fmt.Println(t.Name, t.Subresource, string(p.Data))
		stop()
		return nil
	}), check)
	fmt.Println(lifecycle.Group(api, in.Policies, controllers.NewLoop(c, controllers.Options{})).Run(ctx))
	// Output:
	// small status {"kind":"ValidatingAdmissionPolicy","apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"small"},"status":{"observedGeneration":1,"typeChecking":{"expressionWarnings":[{"fieldRef":"spec.validations[0].expression","warning":"undefined field 'replicsa'"}]}}}
	// <nil>
}
