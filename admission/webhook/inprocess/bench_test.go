package inprocess_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/webhook"
	"github.com/keelson-dev/keelson/admission/webhook/handler"
	"github.com/keelson-dev/keelson/admission/webhook/inprocess"
)

// configurations is a cache of one configuration.
type configurations []*registrationv1.ValidatingWebhookConfiguration

func (c configurations) List(string) []*registrationv1.ValidatingWebhookConfiguration { return c }

// namespaces has every namespace.
type namespaces struct{}

func (namespaces) Get(_, name string) (*corev1.Namespace, bool) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, true
}

// BenchmarkValidate measures the validating plugin with one webhook, which allows a small pod: a handler that reads the whole
// review, and an admission plugin in the webhook's place.
func BenchmarkValidate(b *testing.B) {
	hook := registrationv1.ValidatingWebhook{
		Name: "hook.example.com", ClientConfig: *service("ns", "hook", nil, nil),
		Rules: []registrationv1.RuleWithOperations{{
			Operations: []registrationv1.OperationType{registrationv1.Create},
			Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: new(registrationv1.AllScopes)},
		}},
		FailurePolicy: new(registrationv1.Fail), MatchPolicy: new(registrationv1.Equivalent),
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
		SideEffects: new(registrationv1.SideEffectClassNone), TimeoutSeconds: new(int32(10)), AdmissionReviewVersions: []string{"v1"},
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		b.Fatal(err)
	}
	for name, h := range map[string]http.Handler{
		"handler": http.HandlerFunc(allow),
		"plugin":  handler.Validating(allowAll{}, handler.Options{Scheme: scheme}),
	} {
		b.Run(name, func(b *testing.B) {
			caller := inprocess.New(func(*registrationv1.WebhookClientConfig) http.Handler { return h }, inprocess.Options{})
			plugin := webhook.NewValidating(configurations{{ObjectMeta: metav1.ObjectMeta{Name: "hooks"}, Webhooks: []registrationv1.ValidatingWebhook{hook}}},
				namespaces{}, caller, webhook.Options{})
			r := &admission.Request{
				Operation: admission.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: corev1.SchemeGroupVersion.WithResource("pods"),
				Namespace: "default", Name: "a", Options: &metav1.CreateOptions{},
				Object: &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Labels: map[string]string{"app": "web"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
				},
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := plugin.Validate(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// allow reads a review and allows its request.
func allow(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct{ UID string }
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, review.Request.UID)
}

// allowAll is an admission plugin.
type allowAll struct{}

func (allowAll) Name() string                                       { return "AllowAll" }
func (allowAll) Handles(admission.Operation) bool                   { return true }
func (allowAll) Validate(context.Context, *admission.Request) error { return nil }
