package policies_test

import (
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func jsonPatch(expression string) registrationv1.Mutation {
	return registrationv1.Mutation{PatchType: registrationv1.PatchTypeJSONPatch, JSONPatch: &registrationv1.JSONPatch{Expression: expression}}
}

func apply(expression string) registrationv1.Mutation {
	return registrationv1.Mutation{PatchType: registrationv1.PatchTypeApplyConfiguration, ApplyConfiguration: &registrationv1.ApplyConfiguration{Expression: expression}}
}

// mutating returns a policy for writes of config maps.
func mutating(name string, mutations ...registrationv1.Mutation) *registrationv1.MutatingAdmissionPolicy {
	return &registrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: registrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: on("configmaps", registrationv1.Create, registrationv1.Update), Mutations: mutations,
			ReinvocationPolicy: registrationv1.NeverReinvocationPolicy,
		},
	}
}

// boundMutating returns a binding of a policy, of the same name.
func boundMutating(policy string) *registrationv1.MutatingAdmissionPolicyBinding {
	return &registrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy}, Spec: registrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy},
	}
}
