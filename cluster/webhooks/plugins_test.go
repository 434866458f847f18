package webhooks_test

import (
	"context"
	"net/http"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/webhook/handler"
)

// owner is an admission plugin: it writes who created a config map into it, and refuses those that do not say it.
type owner struct{}

func (owner) Name() string                        { return "Owner" }
func (owner) Handles(op admission.Operation) bool { return op == admission.Create }

func (owner) Admit(_ context.Context, r *admission.Request) error {
	m, ok := r.Object.(*corev1.ConfigMap)
	if !ok {
		return admission.BadRequest("the object is a %T", r.Object)
	}
	if m.Data["anonymous"] == "" {
		m.Data = map[string]string{"owner": r.User.Name}
	}
	return nil
}

func (owner) Validate(_ context.Context, r *admission.Request) error {
	if m, ok := r.Object.(*corev1.ConfigMap); !ok || m.Data["owner"] != r.User.Name {
		return admission.Forbidden(r, "nobody owns it")
	}
	return nil
}

// TestPlugins: an admission plugin behind the name of a service is a webhook, without port, certificate or JSON.
func TestPlugins(t *testing.T) {
	o := handler.Options{Scheme: scheme.Scheme}
	c := start(t, handlers(map[string]http.Handler{"owner": handler.Mutating(owner{}, o), "judge": handler.Validating(owner{}, o)}))
	client := clientOf(t, c.Config())
	on := rules("", "v1", "configmaps", registrationv1.Create)
	register(t, client, mutating("owner", service("owner"), on), validating("judge", service("judge"), on))

	maps := client.CoreV1().ConfigMaps("default")
	if got, err := maps.Create(t.Context(), configMap("a", nil), metav1.CreateOptions{}); err != nil || got.Data["owner"] == "" {
		t.Errorf("created %+v, %v", got, err)
	}
	_, err := maps.Create(t.Context(), configMap("b", map[string]string{"anonymous": "yes"}), metav1.CreateOptions{})
	if want := `admission webhook "judge.example.com" denied the request: configmaps "b" is forbidden: nobody owns it`; err == nil || err.Error() != want {
		t.Errorf("without an owner: %v", err)
	}
}
