package inprocess_test

import (
	"context"
	"net/http"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/webhook"
	"github.com/keelson-dev/keelson/admission/webhook/handler"
	"github.com/keelson-dev/keelson/admission/webhook/inprocess"
)

// panics is an admission plugin.
type panics struct{}

func (panics) Name() string                                       { return "Panics" }
func (panics) Handles(admission.Operation) bool                   { return true }
func (panics) Admit(context.Context, *admission.Request) error    { panic("oh") }
func (panics) Validate(context.Context, *admission.Request) error { panic("oh") }

// TestPanickingPlugin: a plugin behind a service name that panics is a webhook that cannot be called: the failure policy says
// what that means.
func TestPanickingPlugin(t *testing.T) {
	for policy, want := range map[registrationv1.FailurePolicyType]string{
		registrationv1.Ignore: "",
		registrationv1.Fail:   `Internal error occurred: failed calling webhook "hook.example.com": failed to call webhook: the webhook panicked: oh`,
	} {
		validating := forPods()
		validating.FailurePolicy = &policy
		hooks := configurations{{ObjectMeta: metav1.ObjectMeta{Name: "hooks"}, Webhooks: []registrationv1.ValidatingWebhook{validating}}}
		validator := webhook.NewValidating(hooks, namespaces{}, only(handler.Validating(panics{}, handler.Options{})), webhook.Options{})
		if got := text(validator.Validate(t.Context(), createPod())); got != want {
			t.Errorf("validating, %s: %q instead of %q", policy, got, want)
		}
		mutating := mutators{{ObjectMeta: metav1.ObjectMeta{Name: "hooks"}, Webhooks: []registrationv1.MutatingWebhook{{
			Name: validating.Name, ClientConfig: validating.ClientConfig, Rules: validating.Rules, FailurePolicy: &policy,
			MatchPolicy: validating.MatchPolicy, NamespaceSelector: validating.NamespaceSelector, ObjectSelector: validating.ObjectSelector,
			SideEffects: validating.SideEffects, TimeoutSeconds: validating.TimeoutSeconds, AdmissionReviewVersions: validating.AdmissionReviewVersions,
			ReinvocationPolicy: new(registrationv1.NeverReinvocationPolicy),
		}}}}
		mutator := webhook.NewMutating(mutating, namespaces{}, only(handler.Mutating(panics{}, handler.Options{})), webhook.Options{})
		if got := text(mutator.Admit(t.Context(), createPod())); got != want {
			t.Errorf("mutating, %s: %q instead of %q", policy, got, want)
		}
	}
}

// mutators is a cache of configurations.
type mutators []*registrationv1.MutatingWebhookConfiguration

func (m mutators) List(string) []*registrationv1.MutatingWebhookConfiguration { return m }

func only(h http.Handler) webhook.Caller {
	return inprocess.New(func(*registrationv1.WebhookClientConfig) http.Handler { return h }, inprocess.Options{})
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// forPods is a webhook for the creation of pods.
func forPods() registrationv1.ValidatingWebhook {
	return registrationv1.ValidatingWebhook{
		Name: "hook.example.com", ClientConfig: *service("ns", "hook", nil, nil),
		Rules: []registrationv1.RuleWithOperations{{
			Operations: []registrationv1.OperationType{registrationv1.Create},
			Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: new(registrationv1.AllScopes)},
		}},
		FailurePolicy: new(registrationv1.Fail), MatchPolicy: new(registrationv1.Equivalent),
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
		SideEffects: new(registrationv1.SideEffectClassNone), TimeoutSeconds: new(int32(10)), AdmissionReviewVersions: []string{"v1"},
	}
}

// createPod is a request to create a small pod.
func createPod() *admission.Request {
	return &admission.Request{
		Operation: admission.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: corev1.SchemeGroupVersion.WithResource("pods"),
		Namespace: "default", Name: "a", Options: &metav1.CreateOptions{},
		Object: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		},
	}
}
