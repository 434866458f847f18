package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/registry"
)

func TestDynamicClient(t *testing.T) {
	client, err := dynamic.NewForConfig(serve(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	created, err := maps.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "made-"}, "data": map[string]any{"k": "v"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(created.GetName()) != len("made-")+5 {
		t.Errorf("generated name: %q", created.GetName())
	}
	created.SetLabels(map[string]string{"a": "b"})
	updated, err := maps.Update(ctx, created, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update of the old version: %v", err)
	}
	patched, err := maps.Patch(ctx, updated.GetName(), types.JSONPatchType, []byte(`[{"op":"remove","path":"/data/k"}]`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if data, _, _ := unstructured.NestedMap(patched.Object, "data"); len(data) != 0 {
		t.Errorf("data after the patch: %v", data)
	}
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil || len(list.Items) != 1 || list.GetResourceVersion() != patched.GetResourceVersion() {
		t.Errorf("list: %v %v", list, err)
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "a=b"}); err != nil {
		t.Error(err)
	}
	if _, err := maps.Get(ctx, created.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after deletion: %v", err)
	}
}

// Chunks of a list are one state: what is written in between does not show.
func TestChunksAreOneState(t *testing.T) {
	client, err := kubernetes.NewForConfig(serve(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, maps := t.Context(), client.CoreV1().ConfigMaps("default")
	create := func(name string) {
		t.Helper()
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 7 {
		create(fmt.Sprintf("m%d", i))
	}
	var names []string
	version := ""
	for o := (metav1.ListOptions{Limit: 3}); ; {
		page, err := maps.List(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		if version == "" {
			version = page.ResourceVersion
		}
		if page.ResourceVersion != version {
			t.Errorf("a chunk at %s, the first at %s", page.ResourceVersion, version)
		}
		for _, m := range page.Items {
			names = append(names, m.Name)
		}
		create(fmt.Sprintf("m%d-late", len(names)))
		if o.Continue = page.Continue; o.Continue == "" {
			break
		}
		if want := int64(7 - len(names)); page.RemainingItemCount == nil || *page.RemainingItemCount != want {
			t.Errorf("remaining after %d: %v, want %d", len(names), page.RemainingItemCount, want)
		}
	}
	if got := fmt.Sprint(names); got != "[m0 m1 m2 m3 m4 m5 m6]" {
		t.Errorf("got %s", got)
	}
}

// stubborn makes the same suffix for ever.
type stubborn struct{ registry.Identifiers }

func (stubborn) Suffix(string, string, string) string { return "aaaaa" }

func TestGeneratedNamesRunOut(t *testing.T) {
	config := serveKinds(t, registry.Options{Identifiers: stubborn{registry.Seeded(1)}}, apiserver.Options{})
	const body = `{"metadata":{"generateName":"x-"}}`
	if code, _, answer := do(t, config, "POST", configMaps, "", body); code != http.StatusCreated {
		t.Fatalf("%d %s", code, answer)
	}
	code, header, answer := do(t, config, "POST", configMaps, "", body)
	var status metav1.Status
	if err := json.Unmarshal([]byte(answer), &status); err != nil {
		t.Fatal(err)
	}
	if code != http.StatusConflict || status.Reason != metav1.StatusReasonAlreadyExists || header.Get("Retry-After") != "1" ||
		status.Message != `configmaps "x-aaaaa" already exists, the server was not able to generate a unique name for the object` {
		t.Errorf("%d %s", code, answer)
	}
}

// A request larger than the limit is refused, whatever its kind.
func TestBodyLimit(t *testing.T) {
	config := serveWith(t, apiserver.Options{MaxBody: 100})
	for method, path := range map[string]string{"POST": configMaps, "PUT": configMaps + "/a", "DELETE": configMaps + "/a"} {
		code, _, body := do(t, config, method, path, "", fmt.Sprintf(`{"metadata":{"name":"a","labels":{"l":"%0100d"}}}`, 1))
		if code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %s", method, code, body)
		}
	}
}

// A request that announces too large a body is refused before the body arrives.
func TestAnnouncedBodyLimit(t *testing.T) {
	config := serveWith(t, apiserver.Options{MaxBody: 100})
	for method, path := range map[string]string{"POST": configMaps, "PUT": configMaps + "/a", "PATCH": configMaps + "/a", "DELETE": configMaps + "/a"} {
		body, sender := io.Pipe() // nothing is ever sent
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		context.AfterFunc(ctx, func() { _ = sender.Close() })
		r, err := http.NewRequestWithContext(ctx, method, config.Host+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = 101
		r.Header.Set("Content-Type", "application/merge-patch+json")
		if method != "PATCH" {
			r.Header.Set("Content-Type", "application/json")
		}
		resp, err := config.Transport.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d", method, resp.StatusCode)
		}
		cancel()
	}
}

func TestPatchOperationsLimit(t *testing.T) {
	config := serve(t)
	if code, _, body := do(t, config, "POST", configMaps, "", `{"metadata":{"name":"a"}}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	operations := make([]map[string]any, 10001)
	for i := range operations {
		operations[i] = map[string]any{"op": "test", "path": "/kind", "value": "ConfigMap"}
	}
	data, err := json.Marshal(operations)
	if err != nil {
		t.Fatal(err)
	}
	code, _, body := do(t, config, "PATCH", configMaps+"/a", "application/json-patch+json", string(data))
	if code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", code, body)
	}
}
