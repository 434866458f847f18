package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/api/policy/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
)

// olderBudgets returns the version that servers stored until 1.24.
func olderBudgets() []registry.Older {
	return []registry.Older{{
		GroupVersion: v1beta1.SchemeGroupVersion,
		New:          func() runtime.Object { return &v1beta1.PodDisruptionBudget{} },
		ToStored:     func(obj runtime.Object) registry.Object { return budgetFromV1beta1(obj.(*v1beta1.PodDisruptionBudget)) },
	}}
}

func budgetFromV1beta1(old *v1beta1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	out := &policyv1.PodDisruptionBudget{
		ObjectMeta: old.ObjectMeta,
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: old.Spec.MinAvailable, Selector: selectorFromV1beta1(old.Spec.Selector), MaxUnavailable: old.Spec.MaxUnavailable,
			UnhealthyPodEvictionPolicy: (*policyv1.UnhealthyPodEvictionPolicyType)(old.Spec.UnhealthyPodEvictionPolicy),
		},
	}
	out.Status = policyv1.PodDisruptionBudgetStatus(old.Status)
	return out
}

// selectorFromV1beta1 returns the equivalent selector in v1, where an empty selector selects everything.
// Removing the reserved key leaves an empty selector where the old one selected everything.
func selectorFromV1beta1(old *metav1.LabelSelector) *metav1.LabelSelector {
	switch {
	case old == nil:
		return nil
	case len(old.MatchLabels)+len(old.MatchExpressions) == 0:
		return matchNone()
	}
	out := old.DeepCopy()
	stripReservedKey(out)
	return out
}
