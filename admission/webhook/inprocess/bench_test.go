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
			plugin := webhook.NewValidating(configurations{{ObjectMeta: metav1.ObjectMeta{Name: "hooks"}, Webhooks: []registrationv1.ValidatingWebhook{forPods()}}},
				namespaces{}, caller, webhook.Options{})
			r := createPod()
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
