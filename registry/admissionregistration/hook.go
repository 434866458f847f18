package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hook is a webhook of either kind; it shares the memory of the webhook it was made of.
type hook struct {
	admissionv1.ValidatingWebhook
	reinvocation *admissionv1.ReinvocationPolicyType // nil in validating webhooks
}

func hooksOf[W any](webhooks []W, of func(W) hook) []hook {
	hooks := make([]hook, len(webhooks))
	for i, w := range webhooks {
		hooks[i] = of(w)
	}
	return hooks
}

func hookOfValidating(w admissionv1.ValidatingWebhook) hook { return hook{ValidatingWebhook: w} }

func hookOfMutating(w admissionv1.MutatingWebhook) hook {
	return hook{admissionv1.ValidatingWebhook{
		Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
		NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
		TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
	}, w.ReinvocationPolicy}
}

// defaultTimeout is in seconds.
const defaultTimeout = 10

func defaultMutating(w *admissionv1.MutatingWebhook) {
	unset(&w.FailurePolicy, admissionv1.Fail)
	unset(&w.MatchPolicy, admissionv1.Equivalent)
	unset(&w.NamespaceSelector, metav1.LabelSelector{})
	unset(&w.ObjectSelector, metav1.LabelSelector{})
	unset(&w.TimeoutSeconds, defaultTimeout)
	unset(&w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
	defaultCommon(&w.ClientConfig, w.Rules)
}

func defaultValidating(w *admissionv1.ValidatingWebhook) {
	unset(&w.FailurePolicy, admissionv1.Fail)
	unset(&w.MatchPolicy, admissionv1.Equivalent)
	unset(&w.NamespaceSelector, metav1.LabelSelector{})
	unset(&w.ObjectSelector, metav1.LabelSelector{})
	unset(&w.TimeoutSeconds, defaultTimeout)
	defaultCommon(&w.ClientConfig, w.Rules)
}

func defaultCommon(c *admissionv1.WebhookClientConfig, rules []admissionv1.RuleWithOperations) {
	if c.Service != nil {
		unset(&c.Service.Port, 443)
	}
	for i := range rules {
		unset(&rules[i].Scope, admissionv1.AllScopes)
	}
}

// unset sets a field that is nil.
func unset[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
