package webhooks_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/admission/webhook/inprocess"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/webhooks"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/custom"
)

// start runs a cluster with webhooks and without controllers.
func start(t *testing.T, o webhooks.Options, kinds ...registry.Kind) *cluster.Cluster {
	t.Helper()
	w := webhooks.New(o)
	c, err := cluster.Start(t.Context(), cluster.Options{
		Components: []component.Component{}, Disable: []string{"ServiceAccount"}, Kinds: append(w.Kinds(), kinds...),
		Admission: append(cluster.DefaultAdmission(), w.Admission()...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// hook answers reviews, and records them.
type hook struct {
	answer func(q *admissionv1.AdmissionRequest, to *admissionv1.AdmissionResponse)

	mu   sync.Mutex
	seen []*admissionv1.AdmissionRequest
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.seen = append(h.seen, review.Request)
	h.mu.Unlock()
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	h.answer(review.Request, review.Response)
	review.Request = nil
	_ = json.NewEncoder(w).Encode(&review)
}

func (h *hook) requests() []*admissionv1.AdmissionRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen
}

func patch(to *admissionv1.AdmissionResponse, text string) {
	to.Patch, to.PatchType = []byte(text), new(admissionv1.PatchTypeJSONPatch)
}

func refuse(to *admissionv1.AdmissionResponse, message string) {
	to.Allowed, to.Result = false, &metav1.Status{Message: message}
}

func service(name string) registrationv1.WebhookClientConfig {
	return registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{Namespace: "default", Name: name}}
}

func rules(group, version, resource string, operations ...registrationv1.OperationType) []registrationv1.RuleWithOperations {
	return []registrationv1.RuleWithOperations{{
		Operations: operations, Rule: registrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
	}}
}

func validating(name string, at registrationv1.WebhookClientConfig, rules []registrationv1.RuleWithOperations, conditions ...registrationv1.MatchCondition) *registrationv1.ValidatingWebhookConfiguration {
	return &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name: name + ".example.com", ClientConfig: at, Rules: rules, MatchConditions: conditions,
			SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func mutating(name string, at registrationv1.WebhookClientConfig, rules []registrationv1.RuleWithOperations) *registrationv1.MutatingWebhookConfiguration {
	return &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []registrationv1.MutatingWebhook{{
			Name: name + ".example.com", ClientConfig: at, Rules: rules,
			SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func register(t *testing.T, client kubernetes.Interface, configurations ...any) {
	t.Helper()
	api := client.AdmissionregistrationV1()
	for _, c := range configurations {
		var err error
		switch c := c.(type) {
		case *registrationv1.ValidatingWebhookConfiguration:
			_, err = api.ValidatingWebhookConfigurations().Create(t.Context(), c, metav1.CreateOptions{})
		case *registrationv1.MutatingWebhookConfiguration:
			_, err = api.MutatingWebhookConfigurations().Create(t.Context(), c, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func handlers(of map[string]http.Handler) webhooks.Options {
	named := map[types.NamespacedName]http.Handler{}
	for name, h := range of {
		named[types.NamespacedName{Namespace: "default", Name: name}] = h
	}
	return webhooks.Options{Handlers: inprocess.Services(named)}
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

// A webhook of either kind works as soon as its configuration is stored, until it is deleted.
func TestInProcess(t *testing.T) {
	defaults := &hook{answer: func(_ *admissionv1.AdmissionRequest, to *admissionv1.AdmissionResponse) {
		patch(to, `[{"op":"add","path":"/data/by","value":"the webhook"}]`)
	}}
	judge := &hook{answer: func(q *admissionv1.AdmissionRequest, to *admissionv1.AdmissionResponse) {
		var c corev1.ConfigMap
		if err := json.Unmarshal(q.Object.Raw, &c); err != nil || c.Data["by"] != "the webhook" {
			refuse(to, "nobody set by")
		}
		if c.Data["bad"] != "" {
			refuse(to, "it is bad")
		}
	}}
	c := start(t, handlers(map[string]http.Handler{"defaults": defaults, "judge": judge}))
	client := clientOf(t, c.Config())
	maps := client.CoreV1().ConfigMaps("default")
	on := rules("", "v1", "configmaps", registrationv1.Create)
	register(t, client, mutating("defaults", service("defaults"), on), validating("judge", service("judge"), on))

	got, err := maps.Create(t.Context(), configMap("a", map[string]string{"x": "y"}), metav1.CreateOptions{})
	if err != nil || got.Data["by"] != "the webhook" {
		t.Fatalf("created %+v, %v", got, err)
	}
	_, err = maps.Create(t.Context(), configMap("b", map[string]string{"bad": "yes"}), metav1.CreateOptions{})
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) || status.Status().Code != http.StatusBadRequest || err.Error() != `admission webhook "judge.example.com" denied the request: it is bad` {
		t.Errorf("a bad one: %v", err)
	}
	if q := judge.requests()[0]; q.UserInfo.Username == "" || q.Kind.Kind != "ConfigMap" || q.Name != "a" || q.Namespace != "default" || q.RequestKind == nil || *q.RequestKind != q.Kind {
		t.Errorf("reviewed %+v", q)
	}
	if err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "judge", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err = maps.Create(t.Context(), configMap("b", map[string]string{"bad": "yes"}), metav1.CreateOptions{}); err != nil {
		t.Errorf("without the configuration: %v", err)
	}
}

// An event is sent as events.k8s.io/v1 or v1: a webhook gets it in the version that its rules name.
func TestVersions(t *testing.T) {
	seen := &hook{answer: func(_ *admissionv1.AdmissionRequest, to *admissionv1.AdmissionResponse) {
		patch(to, `[{"op":"replace","path":"/note","value":"changed"}]`)
	}}
	c := start(t, handlers(map[string]http.Handler{"hook": seen}))
	client := clientOf(t, c.Config())
	register(t, client, mutating("hook", service("hook"), rules("events.k8s.io", "v1", "events", registrationv1.Create)))
	got, err := client.CoreV1().Events("default").Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"}, Message: "original",
	}, metav1.CreateOptions{})
	if err != nil || got.Message != "changed" {
		t.Fatalf("created %+v, %v", got, err)
	}
	q := seen.requests()[0]
	if q.Kind.Group != "events.k8s.io" || q.RequestKind.Group != "" || !strings.Contains(string(q.Object.Raw), `"apiVersion":"events.k8s.io/v1"`) {
		t.Errorf("reviewed %+v: %s", q, q.Object.Raw)
	}
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}, color: {type: string, default: red}}}}}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}, color: {type: string}}}}}}}
`

// Custom objects are like others to webhooks: in their versions, with defaults after a change, pruned.
func TestCustomObjects(t *testing.T) {
	crds, err := custom.Read([]byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	resource, err := custom.New(crds[0], custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	change := &hook{answer: func(_ *admissionv1.AdmissionRequest, to *admissionv1.AdmissionResponse) {
		patch(to, `[{"op":"replace","path":"/spec","value":{"size":7,"unknown":1}}]`)
	}}
	judge := &hook{answer: func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse) {}}
	c := start(t, handlers(map[string]http.Handler{"change": change, "judge": judge}), resource.Kind())
	client := clientOf(t, c.Config())
	register(t, client,
		mutating("change", service("change"), rules("example.com", "v1", "widgets", registrationv1.Create)),
		validating("judge", service("judge"), rules("example.com", "*", "widgets", registrationv1.Create)))
	all, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	widgets := all.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}).Namespace("default")
	sent := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v2", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": map[string]any{"size": int64(1)},
	}}
	got, err := widgets.Create(t.Context(), sent, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if spec, _ := json.Marshal(got.Object["spec"]); string(spec) != `{"color":"red","size":7}` || got.GetAPIVersion() != "example.com/v2" {
		t.Errorf("created %s in %s", spec, got.GetAPIVersion())
	}
	if q := change.requests()[0]; q.Kind.Version != "v1" || q.RequestKind.Version != "v2" || !strings.Contains(string(q.Object.Raw), `"apiVersion":"example.com/v1"`) {
		t.Errorf("reviewed %+v: %s", q, q.Object.Raw)
	}
	if q := judge.requests()[0]; q.Kind.Version != "v2" || !strings.Contains(string(q.Object.Raw), `"apiVersion":"example.com/v2"`) {
		t.Errorf("reviewed %+v: %s", q, q.Object.Raw)
	}
}

// Over TLS, by URL and by service, whose endpoints are called.
func TestRemote(t *testing.T) {
	h := &hook{answer: func(_ *admissionv1.AdmissionRequest, to *admissionv1.AdmissionResponse) { refuse(to, "no") }}
	server := httptest.NewTLSServer(h)
	defer server.Close()
	var dialed []string
	c := start(t, webhooks.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed = append(dialed, address)
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}})
	client := clientOf(t, c.Config())
	maps := client.CoreV1().ConfigMaps("default")
	at := registrationv1.WebhookClientConfig{
		URL: new(server.URL), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	register(t, client, validating("url", at, rules("", "v1", "configmaps", registrationv1.Create)))
	if _, err := maps.Create(t.Context(), configMap("a", nil), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "denied the request: no") {
		t.Errorf("by URL: %v", err)
	}
	if err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "url", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "hook-1", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Port: new(int32(8443))}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	register(t, client, validating("service", service("hook"), rules("", "v1", "configmaps", registrationv1.Create)))
	_, err := maps.Create(t.Context(), configMap("a", nil), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "certificate") || dialed[len(dialed)-1] != "10.1.2.3:8443" {
		t.Errorf("by service: %v, dialed %v", err, dialed)
	}
}

// Match conditions are CEL, with the objects, the request and what its user may do.
func TestMatchConditions(t *testing.T) {
	h := &hook{answer: func(_ *admissionv1.AdmissionRequest, to *admissionv1.AdmissionResponse) { refuse(to, "no") }}
	c := start(t, handlers(map[string]http.Handler{"hook": h}))
	client := clientOf(t, c.Config())
	maps := client.CoreV1().ConfigMaps("default")
	for name, tt := range map[string]struct {
		expression string
		refused    string // part of the error, if the object is refused
	}{
		"object":    {"object.data.a == 'b'", "denied the request: no"},
		"type":      {"object.kind == 'ConfigMap' && object.apiVersion == 'v1'", "denied the request: no"},
		"no object": {"oldObject == null", "denied the request: no"},
		"request":   {"request.operation == 'CREATE' && request.name == 'c' && request.options.fieldManager == 'me' && request.namespace == 'default'", "denied the request: no"},
		"not":       {"object.data.a == 'c'", ""},
		"fails":     {"object.data.none == 'c'", "no such key: none"},
		"may":       {"authorizer.group('').resource('secrets').check('get').allowed()", "denied the request: no"},
		"group":     {"'system:masters' in request.userInfo.groups", "denied the request: no"},
	} {
		t.Run(name, func(t *testing.T) {
			register(t, client, validating("hook", service("hook"), rules("", "v1", "configmaps", registrationv1.Create), registrationv1.MatchCondition{Name: "c", Expression: tt.expression}))
			_, err := maps.Create(t.Context(), configMap("c", map[string]string{"a": "b"}), metav1.CreateOptions{FieldManager: "me"})
			switch {
			case tt.refused == "" && err != nil, tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)):
				t.Errorf("%v, want %q", err, tt.refused)
			}
			if err == nil {
				if err := maps.Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "hook", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	for expression, want := range map[string]string{
		"1 + 1":      "must evaluate to bool",
		"object.a =": "Syntax error",
		"nothing.a":  "undeclared reference to 'nothing'",
	} {
		bad := validating("bad", service("hook"), rules("", "v1", "configmaps", registrationv1.Create), registrationv1.MatchCondition{Name: "c", Expression: expression})
		_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), bad, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "webhooks[0].matchConditions[0].expression: Invalid value") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

// In a bubble, a webhook that does not answer costs its time-out in virtual time.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		c := start(t, handlers(map[string]http.Handler{"hook": h}))
		client := clientOf(t, c.Config())
		register(t, client, validating("hook", service("hook"), rules("", "v1", "configmaps", registrationv1.Create)))
		began := time.Now()
		_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a", nil), metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), `failed calling webhook "hook.example.com"`) || time.Since(began) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
