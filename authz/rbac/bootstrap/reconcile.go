package bootstrap

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authz/rbac"
)

// Change is what is needed to update an object to the policy.
type Change int

// Recreate is for a binding of another role: a binding's reference cannot be changed.
const (
	Nothing Change = iota
	Update
	Recreate
)

// ReconcileClusterRole compares a cluster role with the policy's and returns the updated role, without changing either.
// As upstream does at every start, it adds what is missing, removes nothing, and leaves alone roles annotated
// rbac.authorization.kubernetes.io/autoupdate=false. The rules of an aggregated role are left to the aggregation
// controller.
func ReconcileClusterRole(have, want *rbacv1.ClusterRole) (*rbacv1.ClusterRole, Change) {
	if protected(have) {
		return have, Nothing
	}
	next := have.DeepCopy()
	changed := reconcileMeta(next, want)
	if want.AggregationRule == nil {
		changed = addRules(&next.Rules, want.Rules) || changed
		if next.AggregationRule != nil {
			next.AggregationRule, changed = nil, true
		}
		return next, update(changed)
	}
	if next.AggregationRule == nil {
		next.AggregationRule = &rbacv1.AggregationRule{}
	}
	for _, selector := range want.AggregationRule.ClusterRoleSelectors {
		if !slices.ContainsFunc(next.AggregationRule.ClusterRoleSelectors, func(s metav1.LabelSelector) bool { return equality.Semantic.DeepEqual(s, selector) }) {
			next.AggregationRule.ClusterRoleSelectors = append(next.AggregationRule.ClusterRoleSelectors, *selector.DeepCopy())
			changed = true
		}
	}
	return next, update(changed)
}

// ReconcileRole is ReconcileClusterRole for a role in a namespace.
func ReconcileRole(have, want *rbacv1.Role) (*rbacv1.Role, Change) {
	if protected(have) {
		return have, Nothing
	}
	next := have.DeepCopy()
	changed := reconcileMeta(next, want)
	changed = addRules(&next.Rules, want.Rules) || changed
	return next, update(changed)
}

// ReconcileClusterRoleBinding is ReconcileClusterRole for a binding, to which it adds missing subjects. For a binding
// of another role it returns Recreate and want.
func ReconcileClusterRoleBinding(have, want *rbacv1.ClusterRoleBinding) (*rbacv1.ClusterRoleBinding, Change) {
	switch {
	case protected(have):
		return have, Nothing
	case have.RoleRef != want.RoleRef:
		return want, Recreate
	}
	next := have.DeepCopy()
	changed := reconcileMeta(next, want)
	changed = addSubjects(&next.Subjects, want.Subjects) || changed
	return next, update(changed)
}

// ReconcileRoleBinding is ReconcileClusterRoleBinding for a binding in a namespace.
func ReconcileRoleBinding(have, want *rbacv1.RoleBinding) (*rbacv1.RoleBinding, Change) {
	switch {
	case protected(have):
		return have, Nothing
	case have.RoleRef != want.RoleRef:
		return want, Recreate
	}
	next := have.DeepCopy()
	changed := reconcileMeta(next, want)
	changed = addSubjects(&next.Subjects, want.Subjects) || changed
	return next, update(changed)
}

func protected(obj metav1.Object) bool {
	return obj.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false"
}

func update(changed bool) Change {
	if changed {
		return Update
	}
	return Nothing
}

// reconcileMeta adds missing labels and annotations; existing ones keep their values.
func reconcileMeta(obj, want metav1.Object) bool {
	labels, moreLabels := merged(obj.GetLabels(), want.GetLabels())
	annotations, moreAnnotations := merged(obj.GetAnnotations(), want.GetAnnotations())
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
	return moreLabels || moreAnnotations
}

func merged(have, want map[string]string) (map[string]string, bool) {
	all := maps.Clone(want)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, have)
	if len(all) == len(have) {
		return have, false
	}
	return all, true
}

func addRules(rules *[]rbacv1.PolicyRule, want []rbacv1.PolicyRule) bool {
	missing := rbac.Uncovered(*rules, want)
	*rules = append(*rules, missing...)
	return len(missing) > 0
}

func addSubjects(subjects *[]rbacv1.Subject, want []rbacv1.Subject) bool {
	before := len(*subjects)
	for _, s := range want {
		if !slices.Contains(*subjects, s) {
			*subjects = append(*subjects, s)
		}
	}
	return len(*subjects) > before
}
