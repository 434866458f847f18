package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

const (
	asTable    = "application/json;as=Table;v=v1;g=meta.k8s.io"
	asMetadata = ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	asList     = ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	protobuf   = "application/vnd.kubernetes.protobuf"
)

// running is a server of some kinds whose registry runs until the test ends.
func running(t testing.TB, kinds ...registry.Kind) *apiserver.Server {
	t.Helper()
	return runningWith(t, registry.Options{Identifiers: registry.Seeded(1)}, kinds...)
}

func runningWith(t testing.TB, o registry.Options, kinds ...registry.Kind) *apiserver.Server {
	t.Helper()
	reg, err := registry.New(memory.New(memory.Options{}), kinds, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()})
}

// post creates an object.
func post(t testing.TB, h http.Handler, path, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	if w.Code != http.StatusCreated {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
}

// widget is a kind of a user: it has no protobuf form, and while unwritable is set no JSON.
type widget struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	Size              int64 `json:"size"`
}

var unwritable atomic.Pointer[string]

func (w *widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func (w *widget) MarshalJSON() ([]byte, error) {
	if name := unwritable.Load(); name != nil && *name == w.Name {
		return nil, errors.New("no words for it")
	}
	type plain widget
	return json.Marshal((*plain)(w))
}

type widgetList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []*widget
}

func (l *widgetList) DeepCopyObject() runtime.Object { return l }

func widgets(columns registry.Columns[*widget]) registry.Kind {
	return registry.Definition[*widget]{
		Names:        registry.Names{Kind: "Widget", Plural: "widgets", Singular: "widget"},
		GroupVersion: schema.GroupVersion{Group: "example.com", Version: "v1"},
		New:          func() *widget { return &widget{} },
		NewList:      func() runtime.Object { return &widgetList{} },
		Columns:      columns,
	}.Kind()
}

func TestTablesOfUsersKinds(t *testing.T) {
	const path = "/apis/example.com/v1/widgets"
	tables := func(t *testing.T, columns registry.Columns[*widget]) metav1.Table {
		s := running(t, widgets(columns))
		post(t, s, path, `{"metadata":{"name":"w"},"size":7}`)
		return read[metav1.Table](t, ask(s, "GET", path, "Accept", asTable))
	}
	t.Run("default", func(t *testing.T) {
		table := tables(t, registry.Columns[*widget]{})
		if len(table.ColumnDefinitions) != 2 || table.ColumnDefinitions[1].Name != "Created At" || len(table.Rows) != 1 || table.Rows[0].Cells[0] != "w" {
			t.Errorf("got %+v", table)
		}
	})
	t.Run("own", func(t *testing.T) {
		table := tables(t, registry.Columns[*widget]{
			Definitions: []metav1.TableColumnDefinition{registry.NameColumn(), {Name: "Size", Type: "integer"}, registry.TextColumn("Note", "")},
			Cells:       func(w *widget, _ time.Time) []any { return []any{w.Name, w.Size, "\"<é>\n"} },
			Conditions: func(*widget) []metav1.TableRowCondition {
				return []metav1.TableRowCondition{{Type: metav1.RowCompleted, Status: metav1.ConditionTrue}}
			},
		})
		row := table.Rows[0]
		if fmt.Sprint(row.Cells) != fmt.Sprint([]any{"w", 7, "\"<é>\n"}) || len(row.Conditions) != 1 || row.Conditions[0].Type != metav1.RowCompleted {
			t.Errorf("got %+v", row)
		}
	})
}

// A kind without a protobuf form has metadata in protobuf, as upstream's custom resources have.
func TestMetadataOfUsersKinds(t *testing.T) {
	const path = "/apis/example.com/v1/widgets"
	s := running(t, widgets(registry.Columns[*widget]{}))
	post(t, s, path, `{"metadata":{"name":"w","labels":{"a":"b"}},"size":7}`)
	for accept, want := range map[string]string{
		"application/json" + asMetadata: "application/json", "application/yaml" + asMetadata: "application/yaml",
		protobuf + asMetadata + ",application/json" + asMetadata: protobuf,
		protobuf + ",application/json" + asMetadata:              "application/json",
	} {
		w := ask(s, "GET", path+"/w", "Accept", accept)
		body := bytes.ReplaceAll(w.Body.Bytes(), []byte("f:size"), nil) // who owns it
		if got := w.Header().Get("Content-Type"); w.Code != 200 || got != want || bytes.Contains(body, []byte("size")) {
			t.Errorf("%s: %d %s %s", accept, w.Code, got, w.Body)
		}
	}
	if w := ask(s, "GET", path+"/w", "Accept", protobuf+asMetadata); w.Code != 200 || w.Header().Get("Content-Type") != protobuf {
		t.Errorf("metadata in protobuf: %d %s", w.Code, w.Body)
	}
	if w := ask(s, "GET", path+"/w", "Accept", protobuf); w.Code != http.StatusNotAcceptable {
		t.Errorf("the object itself in protobuf: %d", w.Code)
	}
	w := ask(s, "GET", path, "Accept", protobuf+asList+",application/json")
	_, raw, err := codec.Open(w.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var list metav1.PartialObjectMetadataList
	if err := list.Unmarshal(raw); err != nil || len(list.Items) != 1 || list.Items[0].Labels["a"] != "b" || list.ResourceVersion == "" {
		t.Errorf("%+v %v", list, err)
	}
}

// Lists longer than one write are the same in every form, and end well.
func TestLongLists(t *testing.T) {
	const n, path = 600, "/api/v1/namespaces/n/configmaps"
	s := running(t, core.Kinds(core.Options{})...)
	for i := range n {
		post(t, s, path, fmt.Sprintf(`{"metadata":{"name":"c%03d","labels":{"l":%q}},"data":{"k":%q}}`, i, strings.Repeat("x", 63), strings.Repeat("y", 500)))
	}
	count := func(name string, got int, total int, meta metav1.ListMeta) {
		t.Helper()
		if got != n || total < 64<<10 || meta.ResourceVersion == "" {
			t.Errorf("%s: %d of %d items in %d bytes at version %q", name, got, n, total, meta.ResourceVersion)
		}
	}
	for name, accept := range map[string]string{"objects": "application/json", "yaml": "application/yaml", "table": asTable, "metadata": "application/json" + asList} {
		w := ask(s, "GET", path, "Accept", accept)
		size := w.Body.Len()
		switch name {
		case "objects":
			list := read[corev1.ConfigMapList](t, w)
			count(name, len(list.Items), size, list.ListMeta)
		case "yaml":
			count(name, strings.Count(w.Body.String(), "\n  metadata:\n"), size, metav1.ListMeta{ResourceVersion: "in it"})
		case "table":
			table := read[metav1.Table](t, w)
			count(name, len(table.Rows), size, table.ListMeta)
		case "metadata":
			list := read[metav1.PartialObjectMetadataList](t, w)
			count(name, len(list.Items), size, list.ListMeta)
		}
	}
	w := ask(s, "GET", path, "Accept", protobuf)
	var objects corev1.ConfigMapList
	if gvk, err := codec.Decode(w.Body.Bytes(), &objects); err != nil || gvk.Kind != "ConfigMapList" {
		t.Errorf("%v %v", gvk, err)
	}
	count("protobuf", len(objects.Items), w.Body.Len(), objects.ListMeta)
	w = ask(s, "GET", path, "Accept", strings.Replace(protobuf+asList, "v=v1", "v=v1beta1", 1))
	_, raw, err := codec.Open(w.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var old metav1beta1.PartialObjectMetadataList
	if err := old.Unmarshal(raw); err != nil {
		t.Error(err)
	}
	count("old metadata in protobuf", len(old.Items), w.Body.Len(), old.ListMeta)
}

// A list that cannot be finished is an error, or if it has begun a broken connection, but never
// a shorter list.
func TestListBreaksOff(t *testing.T) {
	const n, path = 200, "/apis/example.com/v1/widgets"
	s := runningWith(t, registry.Options{EncodingBytes: 1}, widgets(registry.Columns[*widget]{})) // nothing is kept
	for i := range n {
		post(t, s, path, fmt.Sprintf(`{"metadata":{"name":"w%03d","annotations":{"a":%q}}}`, i, strings.Repeat("x", 1000)))
	}
	transport := apiserver.NewTransport(s, nil)
	defer transport.Close()
	defer unwritable.Store(nil)
	for name, want := range map[string]string{"w000": "", "w199": "unexpected EOF"} {
		unwritable.Store(&name)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://in.process"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(r)
		if want == "" {
			if err != nil || response.StatusCode != http.StatusInternalServerError {
				t.Errorf("unwritable %s: %v %v", name, response, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("unwritable %s: %v %v", name, response, err)
		}
	}
}

// overHTTP serves configuration to clients over a real connection.
func overHTTP(t *testing.T, h http.Handler) *rest.Config {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, Transport: server.Client().Transport, QPS: -1}
}

func TestMetadataClient(t *testing.T) {
	config := overHTTP(t, running(t, core.Kinds(core.Options{})...))
	client, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	const path = "/api/v1/namespaces/n/configmaps"
	if code, _, text := do(t, config, "POST", path, "application/json", `{"metadata":{"name":"a","labels":{"l":"1"}},"data":{"k":"v"}}`); code != 201 {
		t.Fatal(code, text)
	}
	ctx := t.Context()
	maps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("n")
	got, err := maps.Get(ctx, "a", metav1.GetOptions{})
	if err != nil || got.Labels["l"] != "1" || got.UID == "" {
		t.Fatalf("%+v %v", got, err)
	}
	w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: got.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	patched, err := maps.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"l":"2"}}}`), metav1.PatchOptions{})
	if err != nil || patched.Labels["l"] != "2" {
		t.Fatalf("%+v %v", patched, err)
	}
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "l=2"})
	if err != nil || len(list.Items) != 1 || list.ResourceVersion != patched.ResourceVersion {
		t.Fatalf("%+v %v", list, err)
	}
	if err := maps.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"MODIFIED", "DELETED"} {
		e := <-w.ResultChan()
		if m, ok := e.Object.(*metav1.PartialObjectMetadata); string(e.Type) != want || !ok || m.Labels["l"] != "2" {
			t.Errorf("event %s %T, want %s", e.Type, e.Object, want)
		}
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := maps.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after deletion: %v", err)
	}
}

func TestMetadataInformer(t *testing.T) {
	config := overHTTP(t, running(t, core.Kinds(core.Options{})...))
	client, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	const path = "/api/v1/namespaces/n/configmaps"
	for _, name := range []string{"a", "b"} {
		if code, _, text := do(t, config, "POST", path, "application/json", fmt.Sprintf(`{"metadata":{"name":%q},"data":{"k":"v"}}`, name)); code != 201 {
			t.Fatal(code, text)
		}
	}
	factory := metadatainformer.NewSharedInformerFactory(client, 0)
	informer := factory.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps")).Informer()
	seen := make(chan string, 16)
	name := func(obj any) string { return obj.(*metav1.PartialObjectMetadata).Name }
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen <- "+" + name(obj) },
		UpdateFunc: func(_, obj any) { seen <- "~" + name(obj) },
		DeleteFunc: func(obj any) { seen <- "-" + name(obj) },
	}); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer did not sync")
	}
	var got []string
	for range 2 {
		got = append(got, <-seen)
	}
	if code, _, text := do(t, config, "PUT", path+"/b", "application/json", `{"metadata":{"name":"b","labels":{"l":"x"}}}`); code != 200 {
		t.Fatal(code, text)
	}
	got = append(got, <-seen)
	if code, _, text := do(t, config, "DELETE", path+"/a", "", ""); code != 200 {
		t.Fatal(code, text)
	}
	got = append(got, <-seen)
	if text := strings.Join(got, " "); text != "+a +b ~b -a" && text != "+b +a ~b -a" {
		t.Errorf("told %s", text)
	}
}
