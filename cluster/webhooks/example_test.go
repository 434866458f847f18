package webhooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/admission/webhook/inprocess"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/webhooks"
)

// A webhook in this process, behind the name of a service, has the last word on config maps.
func Example() {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "not today"}}
		_ = json.NewEncoder(w).Encode(&review)
	})
	hooks := webhooks.New(webhooks.Options{Handlers: inprocess.Services(map[types.NamespacedName]http.Handler{
		{Namespace: "default", Name: "policy"}: refuse,
	})})
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.Options{Kinds: hooks.Kinds(), Admission: append(cluster.DefaultAdmission(), hooks.Admission()...)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	none := registrationv1.SideEffectClassNone
	_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "policy"},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name: "policy.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{Namespace: "default", Name: "policy"}},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}
	_, err = client.CoreV1().ConfigMaps("default").Create(ctx, m, metav1.CreateOptions{})
	fmt.Println(err)
	// Output: admission webhook "policy.example.com" denied the request: not today
}
