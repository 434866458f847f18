package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/webhook"
)

// configurations is a cache that never changes.
type configurations []*registrationv1.ValidatingWebhookConfiguration

func (c configurations) List(string) []*registrationv1.ValidatingWebhookConfiguration { return c }

func Example() {
	// In a server, an informer of configurations, one of namespaces, and a Caller that knows the network.
	hooks := configurations{{
		ObjectMeta: metav1.ObjectMeta{Name: "policy"},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name: "names.example.com", AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}}
	caller := webhook.CallerFunc(func(_ context.Context, _ *registrationv1.WebhookClientConfig, review []byte) ([]byte, error) {
		var r admissionv1.AdmissionReview
		if err := json.Unmarshal(review, &r); err != nil {
			return nil, err
		}
		r.Response = &admissionv1.AdmissionResponse{UID: r.Request.UID, Result: &metav1.Status{Message: "a short name, please"}}
		return json.Marshal(&r)
	})
	plugin := webhook.NewValidating(hooks, nil, caller, webhook.Options{})

	r := &admission.Request{Operation: admission.Create, Name: "a-very-long-name", Object: &corev1.Pod{}}
	r.Resource.Version, r.Resource.Resource = "v1", "pods"
	fmt.Println(plugin.Validate(context.Background(), r))
	// Output: admission webhook "names.example.com" denied the request: a short name, please
}
