package cel_test

import (
	"context"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/policy/cel"
)

// hook is a plugin behind the policies that changes the object and asks for a second pass.
type hook struct{}

func (hook) Name() string                     { return "Hook" }
func (hook) Handles(admission.Operation) bool { return true }
func (hook) Admit(_ context.Context, r *admission.Request) error {
	r.Object.(*corev1.Pod).Annotations = map[string]string{"by": "the hook"}
	return nil
}

func (h hook) AdmitFirst(ctx context.Context, r *admission.Request) (admission.Reinvocation, error) {
	return admission.Reinvocation{Needed: true}, h.Admit(ctx, r)
}

// A policy that could not do anything in the first pass runs again if others have changed the object since.
func TestRunsAgainAfterOthers(t *testing.T) {
	for policy, want := range map[registrationv1.ReinvocationPolicyType]string{
		registrationv1.IfNeededReinvocationPolicy: "the hook", registrationv1.NeverReinvocationPolicy: "",
	} {
		p := mutating(cel.New(cel.Options{}), &registrationv1.MutatingAdmissionPolicy{Spec: registrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy: new(registrationv1.Ignore), ReinvocationPolicy: policy,
			Mutations: []registrationv1.Mutation{{PatchType: registrationv1.PatchTypeJSONPatch, JSONPatch: &registrationv1.JSONPatch{
				Expression: `[JSONPatch{op: "add", path: "/metadata/labels/by", value: object.metadata.annotations.by}]`,
			}}},
		}})
		r := pod()
		if err := (admission.Chain{p, hook{}}).Admit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if got := r.Object.(*corev1.Pod).Labels["by"]; got != want {
			t.Errorf("%s: labelled %q", policy, got)
		}
	}
}
