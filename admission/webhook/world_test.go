package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/webhook"
	"github.com/keelson-dev/keelson/informer"
)

var (
	_ webhook.Configurations[*registrationv1.MutatingWebhookConfiguration] = (*informer.Informer[*registrationv1.MutatingWebhookConfiguration])(nil)
	_ webhook.Namespaces                                                   = (*informer.Informer[*corev1.Namespace])(nil)
)

// list is a cache that is a list.
type list[T any] []T

func (l *list[T]) List(string) []T { return *l }

// namespaces is a cache of namespaces by their names.
type namespaces map[string]map[string]string // to labels

func (n namespaces) Get(_, name string) (*corev1.Namespace, bool) {
	labels, ok := n[name]
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, ok
}

// reply is what a webhook answers: the response, or the whole body.
type reply func(ctx context.Context, r *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, string, error)

// world has webhooks, which are told apart by the names of their services, and both plugins.
type world struct {
	t          *testing.T
	mutating   list[*registrationv1.MutatingWebhookConfiguration]
	validating list[*registrationv1.ValidatingWebhookConfiguration]
	namespaces namespaces
	options    webhook.Options
	replies    map[string]reply // by service; without one, it allows the request

	mu          sync.Mutex
	calls       []string // the services, in the order in which they were called
	reviews     []string // what they got
	warnings    []string
	annotations []webhook.Annotation
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, namespaces: namespaces{"ns": {"team": "a"}}, replies: map[string]reply{}}
	w.options.Warn = func(_ context.Context, text string) { w.warnings = append(w.warnings, text) }
	w.options.Annotate = func(_ context.Context, a webhook.Annotation) { w.annotations = append(w.annotations, a) }
	return w
}

// plugins returns both plugins in a chain.
func (w *world) plugins() admission.Chain {
	return admission.Ordered(
		webhook.NewValidating(&w.validating, w.namespaces, webhook.CallerFunc(w.call), w.options),
		webhook.NewMutating(&w.mutating, w.namespaces, webhook.CallerFunc(w.call), w.options))
}

// run admits and validates a request.
func (w *world) run(r *admission.Request) error {
	return w.runIn(w.t.Context(), r)
}

func (w *world) runIn(ctx context.Context, r *admission.Request) error {
	plugins := w.plugins()
	if err := plugins.Admit(ctx, r); err != nil {
		return err
	}
	return plugins.Validate(ctx, r)
}

func (w *world) call(ctx context.Context, to *registrationv1.WebhookClientConfig, message []byte) ([]byte, error) {
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(message, review); err != nil {
		return nil, err
	}
	name := to.Service.Name
	w.mu.Lock()
	w.calls, w.reviews = append(w.calls, name), append(w.reviews, string(message))
	answer := w.replies[name]
	w.mu.Unlock()
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if answer != nil {
		own, body, err := answer(ctx, review)
		if err != nil || body != "" {
			return []byte(body), err
		}
		response = own
	}
	response.UID = review.Request.UID
	return json.Marshal(&admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
}

// says is a reply with a response.
func says(r admissionv1.AdmissionResponse) reply {
	return func(context.Context, *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, string, error) {
		return r.DeepCopy(), "", nil
	}
}

// patches is a reply with a patch.
func patches(format string, args ...any) reply {
	return says(admissionv1.AdmissionResponse{Allowed: true, Patch: fmt.Appendf(nil, format, args...), PatchType: new(admissionv1.PatchTypeJSONPatch)})
}

// fails is a reply that does not arrive.
func fails(err error) reply {
	return func(context.Context, *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, string, error) {
		return nil, "", err
	}
}

// hook is a webhook, as defaults leave it, that gets all requests at a service.
func hook(service string, changes ...func(*registrationv1.MutatingWebhook)) registrationv1.MutatingWebhook {
	h := registrationv1.MutatingWebhook{
		Name:         service + ".example.com",
		ClientConfig: registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{Namespace: "hooks", Name: service, Port: new(int32(443))}},
		Rules: []registrationv1.RuleWithOperations{{
			Operations: []registrationv1.OperationType{"*"},
			Rule:       registrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}, Scope: new(registrationv1.AllScopes)},
		}},
		FailurePolicy: new(registrationv1.Fail), MatchPolicy: new(registrationv1.Equivalent),
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
		SideEffects: new(registrationv1.SideEffectClassNone), TimeoutSeconds: new(int32(10)), AdmissionReviewVersions: []string{"v1"},
		ReinvocationPolicy: new(registrationv1.NeverReinvocationPolicy),
	}
	for _, change := range changes {
		change(&h)
	}
	return h
}

func ignore(h *registrationv1.MutatingWebhook) { h.FailurePolicy = new(registrationv1.Ignore) }
func ifNeeded(h *registrationv1.MutatingWebhook) {
	h.ReinvocationPolicy = new(registrationv1.IfNeededReinvocationPolicy)
}
func beta(h *registrationv1.MutatingWebhook) {
	h.AdmissionReviewVersions = []string{"v2", "v1beta1", "v1"}
}

func (w *world) mutate(configuration string, hooks ...registrationv1.MutatingWebhook) {
	w.mutating = append(w.mutating, &registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configuration}, Webhooks: hooks})
}

func (w *world) validate(configuration string, hooks ...registrationv1.MutatingWebhook) {
	c := &registrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configuration}}
	for _, h := range hooks {
		c.Webhooks = append(c.Webhooks, registrationv1.ValidatingWebhook{
			Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy, MatchPolicy: h.MatchPolicy,
			NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: h.SideEffects,
			TimeoutSeconds: h.TimeoutSeconds, AdmissionReviewVersions: h.AdmissionReviewVersions, MatchConditions: h.MatchConditions,
		})
	}
	w.validating = append(w.validating, c)
}

func pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "x"}}}
}

func labelled(labels map[string]string) runtime.Object {
	p := pod()
	p.Labels = labels
	return p
}
