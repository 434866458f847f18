package rest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clientgo "k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/rest"
)

var (
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// seen is what a server got.
type seen struct {
	method, url, contentType, accept string
	body                             []byte
}

// serve returns a client of a server that answers everything with one object.
func serve(t *testing.T, contentType string, status int, answer runtime.Object) (*rest.Client, *seen) {
	t.Helper()
	got := &seen{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*got = seen{method: r.Method, url: r.URL.String(), contentType: r.Header.Get("Content-Type"), accept: r.Header.Get("Accept")}
		if r.Body != nil {
			got.body, _ = io.ReadAll(r.Body)
		}
		if contentType == runtime.ContentTypeProtobuf && status == http.StatusOK {
			w.Header().Set("Content-Type", contentType)
			data, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), answer)
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(data)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	})
	c, err := rest.New(&clientgo.Config{
		Host: "http://in.process", QPS: -1, Transport: inProcess{handler},
		ContentConfig: clientgo.ContentConfig{ContentType: contentType},
	}, scheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	return c, got
}

func pod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", ResourceVersion: "7"},
	}
}

func TestRequests(t *testing.T) {
	yes, seconds := true, int64(3)
	target := client.Target{Resource: pods, Namespace: "ns", Name: "p"}
	tests := map[string]struct {
		do           func(c *rest.Client) (runtime.Object, error)
		answer       runtime.Object
		method, url  string
		media        string
		bodyContains []string
	}{
		"get": {
			do:     func(c *rest.Client) (runtime.Object, error) { return c.Get(t.Context(), target) },
			answer: pod(), method: "GET", url: "/api/v1/namespaces/ns/pods/p",
		},
		"get of a subresource in a named group": {
			do: func(c *rest.Client) (runtime.Object, error) {
				return c.Get(t.Context(), client.Target{Resource: deployments, Namespace: "ns", Name: "d", Subresource: "scale"})
			},
			answer: &autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"}},
			method: "GET", url: "/apis/apps/v1/namespaces/ns/deployments/d/scale",
		},
		"list": {
			do: func(c *rest.Client) (runtime.Object, error) {
				return c.List(t.Context(), client.Target{Resource: pods}, metav1.ListOptions{LabelSelector: "a=b", Limit: 5, TimeoutSeconds: &seconds})
			},
			answer: &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}},
			method: "GET", url: "/api/v1/pods?labelSelector=a%3Db&limit=5&timeout=3s&timeoutSeconds=3",
		},
		"create": {
			do: func(c *rest.Client) (runtime.Object, error) {
				return c.Create(t.Context(), target, pod(), metav1.CreateOptions{DryRun: []string{"All"}, FieldManager: "me"})
			},
			answer: pod(), method: "POST", url: "/api/v1/namespaces/ns/pods?dryRun=All&fieldManager=me",
			media: "application/json", bodyContains: []string{`"kind":"Pod"`, `"apiVersion":"v1"`, `"name":"p"`},
		},
		"post to a subresource whose body is of another group": {
			do: func(c *rest.Client) (runtime.Object, error) {
				return c.Create(t.Context(), client.Target{Resource: pods, Namespace: "ns", Name: "p", Subresource: "eviction"},
					&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}, metav1.CreateOptions{})
			},
			answer: &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess},
			method: "POST", url: "/api/v1/namespaces/ns/pods/p/eviction",
			media: "application/json", bodyContains: []string{`"apiVersion":"policy/v1"`, `"kind":"Eviction"`},
		},
		"update of a status": {
			do: func(c *rest.Client) (runtime.Object, error) {
				return c.Update(t.Context(), client.Target{Resource: pods, Namespace: "ns", Name: "p", Subresource: "status"}, pod(), metav1.UpdateOptions{})
			},
			answer: pod(), method: "PUT", url: "/api/v1/namespaces/ns/pods/p/status",
			media: "application/json", bodyContains: []string{`"resourceVersion":"7"`},
		},
		"patch": {
			do: func(c *rest.Client) (runtime.Object, error) {
				return c.Patch(t.Context(), target, client.Patch{Type: types.ApplyYAMLPatchType, Data: []byte("x: y")},
					metav1.PatchOptions{Force: &yes, FieldManager: "me"})
			},
			answer: pod(), method: "PATCH", url: "/api/v1/namespaces/ns/pods/p?fieldManager=me&force=true",
			media: "application/apply-patch+yaml", bodyContains: []string{"x: y"},
		},
		"delete": {
			do: func(c *rest.Client) (runtime.Object, error) {
				return nil, c.Delete(t.Context(), target, metav1.DeleteOptions{GracePeriodSeconds: &seconds, Preconditions: metav1.NewUIDPreconditions("u")})
			},
			answer: pod(), method: "DELETE", url: "/api/v1/namespaces/ns/pods/p",
			media: "application/json", bodyContains: []string{`"gracePeriodSeconds":3`, `"kind":"DeleteOptions"`, `"uid":"u"`},
		},
		"delete of a collection": {
			do: func(c *rest.Client) (runtime.Object, error) {
				return nil, c.Delete(t.Context(), client.Target{Resource: pods, Namespace: "ns"}, metav1.DeleteOptions{})
			},
			answer: pod(), method: "DELETE", url: "/api/v1/namespaces/ns/pods", media: "application/json",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, got := serve(t, "", http.StatusOK, test.answer)
			out, err := test.do(c)
			if err != nil {
				t.Fatal(err)
			}
			if url := strings.TrimPrefix(got.url, "http://in.process"); got.method != test.method || url != test.url {
				t.Errorf("sent %s %s, want %s %s", got.method, url, test.method, test.url)
			}
			if got.contentType != test.media {
				t.Errorf("content type %q, want %q", got.contentType, test.media)
			}
			for _, part := range test.bodyContains {
				if !strings.Contains(string(got.body), part) {
					t.Errorf("body %s has no %s", got.body, part)
				}
			}
			if out != nil && typeName(out) != typeName(test.answer) {
				t.Errorf("returned a %T, want %T", out, test.answer)
			}
		})
	}
}

func typeName(obj runtime.Object) string {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return err.Error()
	}
	return kinds[0].Kind
}

func TestProtobufForBuiltInKinds(t *testing.T) {
	c, got := serve(t, runtime.ContentTypeProtobuf, http.StatusOK, pod())
	shared := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	out, err := client.As[*corev1.Pod](c.Create(t.Context(), client.Target{Resource: pods, Namespace: "ns"}, shared, metav1.CreateOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	if out.Name != "p" || out.ResourceVersion != "7" {
		t.Errorf("got %v", out)
	}
	if got.contentType != runtime.ContentTypeProtobuf || !strings.HasPrefix(string(got.body), "k8s\x00") {
		t.Errorf("sent %q: %q", got.contentType, got.body)
	}
	if want := "application/vnd.kubernetes.protobuf,application/json"; got.accept != want {
		t.Errorf("accepts %q, want %q", got.accept, want)
	}
	if shared.Kind != "" {
		t.Errorf("the kind %q was written into the caller's object", shared.Kind)
	}
}

// TestUnknownKinds: objects of kinds that the scheme does not know, and lists of them, have no Go type.
func TestUnknownKinds(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	widget := unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}}}
	for _, media := range []string{"", runtime.ContentTypeProtobuf} {
		c, _ := serve(t, runtime.ContentTypeJSON, http.StatusOK, &widget)
		if media != "" {
			c, _ = serve(t, media, http.StatusCreated, &widget) // which answers in JSON
		}
		u, err := client.As[*unstructured.Unstructured](c.Get(t.Context(), client.Target{Resource: widgets, Name: "a"}))
		if err != nil || u.GetName() != "a" || u.GetKind() != "Widget" {
			t.Errorf("%q: %v, %v", media, u, err)
		}
	}
	c, _ := serve(t, "", http.StatusOK, &unstructured.UnstructuredList{
		Object: map[string]any{"apiVersion": "example.com/v1", "kind": "WidgetList"}, Items: []unstructured.Unstructured{widget},
	})
	l, err := client.As[*unstructured.UnstructuredList](c.List(t.Context(), client.Target{Resource: widgets}, metav1.ListOptions{}))
	if err != nil || len(l.Items) != 1 || l.Items[0].GetName() != "a" {
		t.Errorf("list: %v, %v", l, err)
	}
}

func TestUnstructuredObjectsAreNotChanged(t *testing.T) {
	c, got := serve(t, runtime.ContentTypeProtobuf, http.StatusOK, pod())
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}}}
	before := u.DeepCopy()
	if _, err := c.Update(t.Context(), client.Target{Resource: pods, Namespace: "ns", Name: "p"}, u, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got.contentType != "application/json" || !reflect.DeepEqual(u, before) {
		t.Errorf("sent as %s; object now %v", got.contentType, u)
	}
}

func TestErrorsAreStatusErrors(t *testing.T) {
	notFound := apierrors.NewNotFound(pods.GroupResource(), "p").Status()
	notFound.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	c, _ := serve(t, "", http.StatusNotFound, &notFound)
	target := client.Target{Resource: pods, Namespace: "ns", Name: "p"}
	if _, err := c.Get(t.Context(), target); !apierrors.IsNotFound(err) || err.Error() != `pods "p" not found` {
		t.Errorf("Get: %v", err)
	}
	if err := c.Delete(t.Context(), target, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Delete: %v", err)
	}
	target.Name = ""
	if _, err := c.Get(t.Context(), target); err == nil {
		t.Error("Get without a name was sent")
	}
	if _, err := client.As[*corev1.Node](pod(), nil); err == nil {
		t.Error("a Pod passed for a Node")
	}
}

func TestBadConfig(t *testing.T) {
	for name, config := range map[string]*clientgo.Config{
		"content type": {ContentConfig: clientgo.ContentConfig{ContentType: "a/b/c"}},
		"credentials":  {TLSClientConfig: clientgo.TLSClientConfig{CAFile: "missing"}},
	} {
		if _, err := rest.New(config, scheme.Scheme); err == nil {
			t.Errorf("bad %s was taken", name)
		}
	}
}

// TestQuery: a path is read as JSON, whatever objects travel in, and refusals are errors of the API.
func TestQuery(t *testing.T) {
	for _, media := range []string{"", runtime.ContentTypeProtobuf} {
		c, got := serve(t, media, http.StatusAccepted, pod())
		data, err := c.Query(t.Context(), "/apis/a/v1/pods/*/b", url.Values{"x": {"1", "2"}})
		var answer corev1.Pod
		if err != nil || json.Unmarshal(data, &answer) != nil || answer.Name != "p" {
			t.Errorf("%q: %s %v", media, data, err)
		}
		if got.method != "GET" || got.url != "http://in.process/apis/a/v1/pods/%2A/b?x=1&x=2" || got.accept != "application/json" {
			t.Errorf("%q: asked %+v", media, got)
		}
	}
	c, _ := serve(t, "", http.StatusForbidden, &apierrors.NewForbidden(schema.GroupResource{}, "", nil).ErrStatus)
	if _, err := c.Query(t.Context(), "/x", nil); !apierrors.IsForbidden(err) {
		t.Errorf("refused with %v", err)
	}
}
