package generate

import (
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Namespace makes what kubectl create namespace NAME makes.
func Namespace(name string) (*corev1.Namespace, error) {
	if err := checkName("namespace", name, validation.ValidateNamespaceName); err != nil {
		return nil, err
	}
	return &corev1.Namespace{TypeMeta: typeMeta(corev1.SchemeGroupVersion, "Namespace"), ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// ServiceAccount makes what kubectl create serviceaccount NAME makes.
func ServiceAccount(name string) (*corev1.ServiceAccount, error) {
	if err := checkName("serviceaccount", name, validation.ValidateServiceAccountName); err != nil {
		return nil, err
	}
	return &corev1.ServiceAccount{
		TypeMeta: typeMeta(corev1.SchemeGroupVersion, "ServiceAccount"), ObjectMeta: metav1.ObjectMeta{Name: name},
	}, nil
}

// QuotaOptions are the flags of kubectl create quota.
type QuotaOptions struct {
	Hard   string // limits: "pods=10,cpu=4"
	Scopes string // "BestEffort,NotTerminating"
}

// Quota makes what kubectl create quota NAME makes.
func Quota(name string, o QuotaOptions) (*corev1.ResourceQuota, error) {
	if err := checkName("quota", name, validation.NameIsDNSSubdomain); err != nil {
		return nil, err
	}
	hard, err := Resources(o.Hard)
	if err != nil {
		return nil, err
	}
	quota := &corev1.ResourceQuota{
		TypeMeta:   typeMeta(corev1.SchemeGroupVersion, "ResourceQuota"),
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
	}
	if o.Scopes == "" {
		return quota, nil
	}
	for scope := range strings.SplitSeq(o.Scopes, ",") {
		if scope == "" {
			return nil, errors.New(`invalid resource quota scope ""`)
		}
		quota.Spec.Scopes = append(quota.Spec.Scopes, corev1.ResourceQuotaScope(scope))
	}
	return quota, nil
}

// PodDisruptionBudgetOptions are the flags of kubectl create poddisruptionbudget.
type PodDisruptionBudgetOptions struct {
	Selector                     string // of the pods: "app=web"; required
	MinAvailable, MaxUnavailable string // a number or a percentage; one of them is required
}

// PodDisruptionBudget makes what kubectl create poddisruptionbudget NAME makes.
func PodDisruptionBudget(name string, o PodDisruptionBudgetOptions) (*policyv1.PodDisruptionBudget, error) {
	if err := checkName("poddisruptionbudget", name, validation.NameIsDNSSubdomain); err != nil {
		return nil, err
	}
	switch {
	case o.Selector == "":
		return nil, errors.New("a selector must be specified")
	case o.MinAvailable == "" && o.MaxUnavailable == "":
		return nil, errors.New("one of min-available or max-unavailable must be specified")
	case o.MinAvailable != "" && o.MaxUnavailable != "":
		return nil, errors.New("min-available and max-unavailable cannot be both specified")
	}
	selector, err := metav1.ParseToLabelSelector(o.Selector)
	if err != nil {
		return nil, err
	}
	budget := &policyv1.PodDisruptionBudget{
		TypeMeta:   typeMeta(policyv1.SchemeGroupVersion, "PodDisruptionBudget"),
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector},
	}
	if budget.Spec.MinAvailable, err = amount("min-available", o.MinAvailable); err != nil {
		return nil, err
	}
	if budget.Spec.MaxUnavailable, err = amount("max-unavailable", o.MaxUnavailable); err != nil {
		return nil, err
	}
	return budget, nil
}

// amount reads "10" or "30%"; no text is none.
func amount(flag, text string) (*intstr.IntOrString, error) {
	if text == "" {
		return nil, nil
	}
	digits := strings.TrimSuffix(text, "%")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return nil, errors.New("invalid format specified for " + flag)
	}
	value := intstr.Parse(text)
	return &value, nil
}

// PriorityClassOptions are the flags of kubectl create priorityclass.
type PriorityClassOptions struct {
	Value            int32                   // higher is more important
	GlobalDefault    bool                    // whether it is for pods without a class
	Description      string                  // for users
	PreemptionPolicy corev1.PreemptionPolicy // PreemptLowerPriority when empty
}

// PriorityClass makes what kubectl create priorityclass NAME makes.
func PriorityClass(name string, o PriorityClassOptions) (*schedulingv1.PriorityClass, error) {
	if err := checkName("priorityclass", name, validation.NameIsDNSSubdomain); err != nil {
		return nil, err
	}
	policy := o.PreemptionPolicy
	if policy == "" {
		policy = corev1.PreemptLowerPriority
	}
	return &schedulingv1.PriorityClass{
		TypeMeta:   typeMeta(schedulingv1.SchemeGroupVersion, "PriorityClass"),
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Value:      o.Value, GlobalDefault: o.GlobalDefault, Description: o.Description, PreemptionPolicy: &policy,
	}, nil
}
