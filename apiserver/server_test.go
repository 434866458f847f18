package apiserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// serve starts a server of the core, apps and coordination kinds over a memory store, and returns how to
// reach it.
func serve(t testing.TB) *rest.Config {
	t.Helper()
	return serveWith(t, apiserver.Options{})
}

func serveWith(t testing.TB, o apiserver.Options) *rest.Config {
	t.Helper()
	return serveKinds(t, registry.Options{Identifiers: registry.Seeded(1)}, o)
}

func serveKinds(t testing.TB, ro registry.Options, o apiserver.Options) *rest.Config {
	t.Helper()
	return serveStore(t, memory.New(memory.Options{}), ro, o)
}

func serveStore(t testing.TB, store storage.Store, ro registry.Options, o apiserver.Options) *rest.Config {
	t.Helper()
	kinds := slices.Concat(core.Kinds(core.Options{}), apps.Kinds(), coordination.Kinds())
	reg, err := registry.New(store, kinds, ro)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	if o.Authorizer == nil {
		o.Authorizer = alwaysallow.New()
	}
	transport := apiserver.NewTransport(apiserver.New(reg, o), nil)
	t.Cleanup(func() {
		transport.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &rest.Config{Host: "http://keelson", Transport: transport, QPS: -1}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
}

func TestObjectLife(t *testing.T) {
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(contentType, func(t *testing.T) {
			config := serve(t)
			config.ContentType = contentType
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			pods := client.CoreV1().Pods("default")
			w, err := pods.Watch(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()

			created, err := pods.Create(ctx, pod("web"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if created.UID == "" || created.ResourceVersion == "" || created.Status.Phase != corev1.PodPending || created.Spec.RestartPolicy != corev1.RestartPolicyAlways {
				t.Errorf("system fields or defaults are missing: %+v", created)
			}
			if _, err := pods.Create(ctx, pod("web"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
				t.Errorf("second create: %v", err)
			}
			patched, err := pods.Patch(ctx, "web", types.StrategicMergePatchType, []byte(`{"metadata":{"labels":{"tier":"front"}}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if patched.Labels["tier"] != "front" || patched.Labels["app"] != "web" {
				t.Errorf("labels after patch: %v", patched.Labels)
			}
			created.Labels["late"] = "yes"
			if _, err := pods.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("update of an old version: %v", err)
			}
			list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "tier=front"})
			if err != nil || len(list.Items) != 1 || list.ResourceVersion != patched.ResourceVersion {
				t.Fatalf("list: %v %+v", err, list)
			}
			if err := pods.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := pods.Get(ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("get after delete: %v", err)
			}
			for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
				select {
				case e := <-w.ResultChan():
					if e.Type != want || e.Object.(*corev1.Pod).Name != "web" {
						t.Errorf("watch: got %s %T, want %s", e.Type, e.Object, want)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("no %s event", want)
				}
			}
		})
	}
}

// do sends a raw request.
func do(t testing.TB, config *rest.Config, method, path, contentType, body string) (int, http.Header, string) {
	t.Helper()
	u, err := url.Parse(config.Host + path)
	if err != nil {
		t.Fatal(err)
	}
	return send(t, config.Transport, &http.Request{Method: method, URL: u}, contentType, body)
}

func send(t testing.TB, transport http.RoundTripper, r *http.Request, contentType, body string) (int, http.Header, string) {
	t.Helper()
	r = r.WithContext(t.Context())
	r.Header, r.Body = http.Header{}, io.NopCloser(strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(answer)
}

func TestBadRequests(t *testing.T) {
	config := serve(t)
	if code, _, body := do(t, config, "POST", "/api/v1/namespaces/default/pods", "", `{"metadata":{"name":"web"},"spec":{"containers":[{"name":"c","image":"nginx"}]}}`); code != 201 {
		t.Fatalf("create: %d %s", code, body)
	}
	tests := []struct {
		name, method, path, contentType, body string
		code                                  int32
		reason                                metav1.StatusReason
		message                               string
	}{
		{"no json", "POST", "/api/v1/namespaces/default/pods", "application/json", `{`, 400, metav1.StatusReasonBadRequest, "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: unexpected end of JSON input ({)"},
		{"other kind", "POST", "/api/v1/namespaces/default/pods", "", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`, 400, metav1.StatusReasonBadRequest, `Secret in version "v1" cannot be handled as a Pod: converting (v1.Secret) to (core.Pod): unknown conversion`},
		{"other version", "POST", "/api/v1/namespaces/default/pods", "", `{"apiVersion":"apps/v1","kind":"Pod","metadata":{"name":"x"}}`, 400, metav1.StatusReasonBadRequest, `Pod in version "v1" cannot be handled as a Pod: no kind "Pod" is registered for version "apps/v1" in scheme "pkg/runtime/scheme.go:111"`},
		{"other namespace", "POST", "/api/v1/namespaces/default/pods", "", `{"metadata":{"name":"x","namespace":"other"}}`, 400, metav1.StatusReasonBadRequest, "the namespace of the provided object does not match the namespace sent on the request"},
		{"scale elsewhere", "PUT", "/apis/apps/v1/namespaces/default/deployments/a/scale", "", `{"metadata":{"name":"a","namespace":"other"}}`, 400, metav1.StatusReasonBadRequest, "the namespace of the provided object does not match the namespace sent on the request"},
		{"unknown media", "POST", "/api/v1/namespaces/default/pods", "text/plain", `x`, 415, metav1.StatusReasonUnsupportedMediaType, "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"no containers", "POST", "/api/v1/namespaces/default/pods", "", `{"metadata":{"name":"x"}}`, 422, metav1.StatusReasonInvalid, `Pod "x" is invalid: spec.containers: Required value`},
		{"no name", "POST", "/api/v1/namespaces/default/configmaps", "", `{}`, 422, metav1.StatusReasonInvalid, `ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`},
		{"unknown field", "POST", "/api/v1/namespaces/default/configmaps?fieldValidation=Strict", "", `{"metadata":{"name":"x"},"dota":{}}`, 400, metav1.StatusReasonBadRequest, `ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dota"`},
		{"dry run", "POST", "/api/v1/namespaces/default/configmaps?dryRun=some", "", `{"metadata":{"name":"x"}}`, 422, metav1.StatusReasonInvalid, `CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["some"]: supported values: "All"`},
		{"missing", "GET", "/api/v1/namespaces/default/pods/gone", "", "", 404, metav1.StatusReasonNotFound, `pods "gone" not found`},
		{"label selector", "GET", "/api/v1/pods?labelSelector=a%20b", "", "", 400, metav1.StatusReasonBadRequest, `unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt`},
		{"field selector", "GET", "/api/v1/pods?fieldSelector=spec.nope%3Dx", "", "", 400, metav1.StatusReasonBadRequest, `field label not supported: spec.nope`},
		{"continue token", "GET", "/api/v1/pods?limit=1&continue=zzz", "", "", 400, metav1.StatusReasonBadRequest, ""},
		{"patch type", "PATCH", "/api/v1/namespaces/default/pods/web", "text/plain", "{}", 415, metav1.StatusReasonUnsupportedMediaType, ""},
		{"patch syntax", "PATCH", "/api/v1/namespaces/default/pods/web", "application/merge-patch+json", "{", 400, metav1.StatusReasonBadRequest, ""},
		{"json patch test", "PATCH", "/api/v1/namespaces/default/pods/web", "application/json-patch+json", `[{"op":"test","path":"/metadata/name","value":"x"}]`, 422, metav1.StatusReasonInvalid, ""},
		{"rename", "PATCH", "/api/v1/namespaces/default/pods/web", "application/merge-patch+json", `{"metadata":{"name":"other"}}`, 400, metav1.StatusReasonBadRequest, "the name of the object (other) does not match the name on the URL (web)"},
		{"put without version", "PUT", "/api/v1/namespaces/default/pods/none", "", `{"metadata":{"name":"none"},"spec":{"containers":[{"name":"c","image":"nginx"}]}}`, 404, metav1.StatusReasonNotFound, `pods "none" not found`},
		{"method", "POST", "/api/v1/namespaces/default/pods/web", "", "{}", 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"future version", "GET", "/api/v1/pods?resourceVersion=x", "", "", 400, metav1.StatusReasonBadRequest, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, _, body := do(t, config, test.method, test.path, test.contentType, test.body)
			var status metav1.Status
			if err := json.Unmarshal([]byte(body), &status); err != nil {
				t.Fatalf("%d %q: %v", code, body, err)
			}
			if int32(code) != test.code || status.Code != test.code || status.Reason != test.reason || status.Status != metav1.StatusFailure {
				t.Errorf("got %d %s %q, want %d %s", code, status.Reason, status.Message, test.code, test.reason)
			}
			if test.message != "" && status.Message != test.message {
				t.Errorf("message\n got %q\nwant %q", status.Message, test.message)
			}
		})
	}
}
