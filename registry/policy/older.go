package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/api/policy/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
)

// selectsLabel is what upstream put into selectors so that they mean the same in both versions: in
// v1beta1 an empty selector selects nothing, in v1 everything.
const selectsLabel = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

// olderBudgets is the version that servers stored until 1.24.
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

func selectorFromV1beta1(old *metav1.LabelSelector) *metav1.LabelSelector {
	only := func(operator metav1.LabelSelectorOperator) bool {
		return len(old.MatchLabels) == 0 && len(old.MatchExpressions) == 1 && old.MatchExpressions[0].Key == selectsLabel &&
			old.MatchExpressions[0].Operator == operator && len(old.MatchExpressions[0].Values) == 0
	}
	switch {
	case old == nil:
		return nil
	case len(old.MatchLabels)+len(old.MatchExpressions) == 0:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: selectsLabel, Operator: metav1.LabelSelectorOpExists}}}
	case only(metav1.LabelSelectorOpDoesNotExist):
		return &metav1.LabelSelector{}
	}
	out := old.DeepCopy()
	kept := out.MatchExpressions[:0]
	for _, e := range out.MatchExpressions {
		if e.Key != selectsLabel {
			kept = append(kept, e)
		}
	}
	out.MatchExpressions = kept
	return out
}
