package customresources_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/customresources"
	"github.com/keelson-dev/keelson/storage/memory"
)

// converter is a conversion webhook: v1 has spec.copies, v2 has spec.count.
type converter struct {
	down  atomic.Bool
	asked atomic.Int32
}

func (c *converter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.asked.Add(1)
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || c.down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	out := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	from, to := "copies", "count"
	if strings.HasSuffix(review.Request.DesiredAPIVersion, "/v1") {
		from, to = to, from
	}
	for _, raw := range review.Request.Objects {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw.Raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if spec, ok := u.Object["spec"].(map[string]any); ok {
			spec[to] = spec[from]
			delete(spec, from)
		}
		u.SetAPIVersion(review.Request.DesiredAPIVersion)
		u.SetAnnotations(nil)
		out.ConvertedObjects = append(out.ConvertedObjects, runtime.RawExtension{Object: u})
	}
	review.Request, review.Response = nil, out
	_ = json.NewEncoder(w).Encode(&review)
}

// converting returns a definition of two versions that a webhook converts.
func converting(server *httptest.Server) *definition {
	return backup(func(crd *definition) {
		second, most := crd.Spec.Versions[0].DeepCopy(), float64(5)
		second.Name, second.Storage = "v2", false
		second.Schema.OpenAPIV3Schema.Properties["spec"] = apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"count": {Type: "integer", Maximum: &most},
		}}
		crd.Spec.Versions = append(crd.Spec.Versions, *second)
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
		}}
	})
}

// TestConversionOfLists: the webhook is asked once for what a list or the initial state of a watch has, whatever the form, and
// not again for objects that are the same.
func TestConversionOfLists(t *testing.T) {
	hook := &converter{}
	server := httptest.NewTLSServer(hook)
	defer server.Close()
	c := start(t, cluster.Options{Extensions: []cluster.Extension{customresources.Extension(customresources.Options{})}})
	a, ctx := clients(t, c.Config()), t.Context()
	a.define(converting(server))
	a.established("backups.example.com")
	second := a.any.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "backups"}).Namespace("default")
	create := func(from, to int) {
		for n := from; n < to; n++ {
			a.create(a.backups("default"), object(fmt.Sprintf("b%d", n)))
		}
	}
	rows := func() int {
		var table metav1.Table
		err := a.cs.Discovery().RESTClient().Get().AbsPath("/apis/example.com/v2/namespaces/default/backups").
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Into(&table)
		if err != nil {
			t.Error(err)
		}
		return len(table.Rows)
	}
	asked := func(want int32, what string) {
		t.Helper()
		if got := hook.asked.Swap(0); got != want {
			t.Errorf("%s: the webhook was asked %d times, want %d", what, got, want)
		}
	}
	create(0, 20)
	hook.asked.Store(0)
	for range 2 {
		if l, err := second.List(ctx, metav1.ListOptions{}); err != nil || len(l.Items) != 20 {
			t.Fatalf("listed: %v", err)
		}
	}
	asked(1, "list")
	create(20, 40)
	hook.asked.Store(0)
	for range 2 {
		if n := rows(); n != 40 {
			t.Errorf("%d rows", n)
		}
	}
	asked(1, "table")
	create(40, 60)
	hook.asked.Store(0)
	w, err := second.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 60 {
		<-w.ResultChan()
	}
	w.Stop()
	asked(1, "watch")
	hook.down.Store(true)
	create(60, 61)
	if _, err := second.List(ctx, metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "conversion webhook for example.com/v1, Kind=Backup failed: ") {
		t.Errorf("a list without the webhook: %v", err)
	}
}

// A webhook converts between versions, over TLS: objects are stored in one and served in both, with the rules of each.
func TestConversion(t *testing.T) {
	hook := &converter{}
	server := httptest.NewTLSServer(hook)
	defer server.Close()
	c := start(t, cluster.Options{Extensions: []cluster.Extension{customresources.Extension(customresources.Options{})}})
	a, ctx := clients(t, c.Config()), t.Context()
	a.define(converting(server))
	a.established("backups.example.com")
	first := a.backups("default")
	second := a.any.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "backups"}).Namespace("default")
	spec := func(u *unstructured.Unstructured, err error) string {
		t.Helper()
		if err != nil {
			return err.Error()
		}
		text, _ := json.Marshal(u.Object["spec"])
		return u.GetAPIVersion() + string(text)
	}
	sent := object("a")
	sent.SetAPIVersion("example.com/v2")
	sent.Object["spec"] = map[string]any{"count": int64(4)}
	if got := spec(second.Create(ctx, sent, metav1.CreateOptions{})); got != `example.com/v2{"count":4}` {
		t.Errorf("created as %s", got)
	}
	if got := spec(first.Get(ctx, "a", metav1.GetOptions{})); got != `example.com/v1{"copies":4}` {
		t.Errorf("in the stored version: %s", got)
	}
	if l, err := second.List(ctx, metav1.ListOptions{}); err != nil || len(l.Items) != 1 || spec(&l.Items[0], nil) != `example.com/v2{"count":4}` {
		t.Errorf("listed: %v, %v", l, err)
	}
	watched, err := second.Watch(ctx, metav1.ListOptions{
		SendInitialEvents: new(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	if e := <-watched.ResultChan(); e.Type != watch.Added || spec(e.Object.(*unstructured.Unstructured), nil) != `example.com/v2{"count":4}` {
		t.Errorf("watched: %+v", e)
	}
	// The webhook knows no annotations: it is not asked about bookmarks.
	if e := <-watched.ResultChan(); e.Type != watch.Bookmark || e.Object.(*unstructured.Unstructured).GetAPIVersion() != "example.com/v2" ||
		e.Object.(*unstructured.Unstructured).GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
		t.Errorf("the end of the initial state: %+v", e)
	}
	watched.Stop()
	sent = object("b")
	sent.SetAPIVersion("example.com/v2")
	sent.Object["spec"] = map[string]any{"count": int64(6)} // 9 is the most in v1
	if _, err := second.Create(ctx, sent, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "spec.count: Invalid value: 6") {
		t.Errorf("too many for v2: %v", err)
	}
	hook.down.Store(true)
	sent.SetName("c")
	if _, err := second.Create(ctx, sent, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "conversion webhook for example.com/v2, Kind=Backup failed: ") {
		t.Errorf("without the webhook: %v", err)
	}
	if got := spec(first.Get(ctx, "a", metav1.GetOptions{})); got != `example.com/v1{"copies":4}` {
		t.Errorf("in the stored version, without the webhook: %s", got)
	}
	hook.down.Store(false)
	patched := func() (*unstructured.Unstructured, error) {
		return second.Patch(ctx, "a", "application/merge-patch+json", []byte(`{"spec":{"count":5}}`), metav1.PatchOptions{})
	}
	if got := spec(patched()); got != `example.com/v2{"count":5}` {
		t.Errorf("patched: %s", got)
	}
}

// TestMigration: after a change of the stored version, a write that changes nothing stores an object anew, once, so that the old
// version can be dropped.
func TestMigration(t *testing.T) {
	store := memory.New(memory.Options{})
	t.Cleanup(func() { _ = store.Close() }) // after the cluster
	a, ctx := clients(t, start(t, cluster.Options{Store: store}).Config()), t.Context()
	a.define(backup(func(crd *definition) {
		second := crd.Spec.Versions[0].DeepCopy()
		second.Name, second.Storage = "v2", false
		crd.Spec.Versions = append(crd.Spec.Versions, *second)
	}))
	a.established("backups.example.com")
	a.create(a.backups("default"), object("a"))
	stored := func() string {
		t.Helper()
		rec, err := store.Get(ctx, "/registry/example.com/backups/default/a")
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(rec.Value, u); err != nil {
			t.Fatal(err)
		}
		return u.GetAPIVersion()
	}
	touch := func() string {
		t.Helper()
		u, err := a.backups("default").Patch(ctx, "a", "application/merge-patch+json", []byte("{}"), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return u.GetResourceVersion()
	}
	before := touch()
	a.change("backups.example.com", func(crd *definition) { crd.Spec.Versions[0].Storage, crd.Spec.Versions[1].Storage = false, true })
	eventually(t, func() error {
		if touch() == before {
			return errors.New("it is not written")
		}
		return nil
	})
	if got := stored(); got != "example.com/v2" {
		t.Errorf("it is stored as %s", got)
	}
	if first, second := touch(), touch(); first != second {
		t.Errorf("it is written again: %s, %s", first, second)
	}
}
