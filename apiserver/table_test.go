package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keelson-dev/keelson/registry/core"
)

// tableEvent is one event of a watch of tables.
type tableEvent struct {
	Type   string
	Object metav1.Table
}

// watchTables begins a watch of config maps as tables.
func watchTables(t *testing.T, transport http.RoundTripper, query string) (next func() tableEvent, stop func()) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://in.process/api/v1/namespaces/n/configmaps?watch=1&"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", asTable)
	response, err := transport.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}
	lines := bufio.NewScanner(response.Body)
	return func() tableEvent {
		var e tableEvent
		if !lines.Scan() {
			t.Fatalf("the watch ended: %v", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		if len(e.Object.Rows) != 1 {
			t.Fatalf("%d rows in one event", len(e.Object.Rows))
		}
		return e
	}, func() { response.Body.Close() }
}

// Columns come once, ages are those of the moment, and bookmarks say what they have to whatever
// objects the client wants.
func TestTableWatch(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, transport http.RoundTripper) {
		first := put(t, transport, "a", "x")
		time.Sleep(5 * time.Minute)
		var told []string
		tell := func(e tableEvent) {
			row := e.Object.Rows[0]
			object := "nothing"
			if len(row.Object.Raw) > 0 && string(row.Object.Raw) != "null" {
				var m metav1.PartialObjectMetadata
				if err := json.Unmarshal(row.Object.Raw, &m); err != nil {
					t.Fatal(err)
				}
				object = m.Kind + fmt.Sprint(m.Annotations)
			}
			told = append(told, fmt.Sprintf("%s %d columns %q with %s", e.Type, len(e.Object.ColumnDefinitions), row.Cells[0], object)+fmt.Sprint(row.Cells[2]))
		}
		next, stop := watchTables(t, transport, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&includeObject=None")
		tell(next())
		tell(next())
		time.Sleep(5 * time.Minute)
		put(t, transport, "a", "y")
		tell(next())
		put(t, transport, "b", "y")
		tell(next())
		stop()
		want := []string{
			`ADDED 3 columns "a" with nothing5m`,
			`BOOKMARK 0 columns "" with PartialObjectMetadatamap[k8s.io/initial-events-end:true]<unknown>`,
			`MODIFIED 0 columns "a" with nothing10m`,
			`ADDED 0 columns "b" with nothing0s`,
		}
		if !slices.Equal(told, want) {
			t.Errorf("told\n%s, want\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
		next, stop = watchTables(t, transport, "resourceVersion="+first)
		if e := next(); e.Object.Rows[0].Cells[2] != "10m" || len(e.Object.ColumnDefinitions) != 3 {
			t.Errorf("another watch is told %+v", e)
		}
		stop()
	})
}

// TestMetadataCache: controller-runtime's metadata-only informers and readers work.
func TestMetadataCache(t *testing.T) {
	config := overHTTP(t, running(t, core.Kinds(core.Options{})...))
	const path = "/api/v1/namespaces/n/configmaps"
	if code, _, text := do(t, config, "POST", path, "application/json", `{"metadata":{"name":"a"},"data":{"k":"v"}}`); code != 201 {
		t.Fatal(code, text)
	}
	c, err := cache.New(config, cache.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	of := &metav1.PartialObjectMetadata{}
	of.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	informer, err := c.GetInformer(ctx, of)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 16)
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { seen <- "+" + obj.(*metav1.PartialObjectMetadata).Name },
	}); err != nil {
		t.Fatal(err)
	}
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("the cache did not sync")
	}
	if code, _, text := do(t, config, "POST", path, "application/json", `{"metadata":{"name":"b"}}`); code != 201 {
		t.Fatal(code, text)
	}
	if got := []string{<-seen, <-seen}; !slices.Equal(got, []string{"+a", "+b"}) {
		t.Errorf("told %v", got)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := c.List(ctx, list, client.InNamespace("n")); err != nil || len(list.Items) != 2 {
		t.Errorf("%v %v", list.Items, err)
	}
}

// FuzzAccept: no Accept header makes the server panic or answer in a form that it does not name.
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{
		asTable, "application/json" + asMetadata, protobuf + asMetadata, "application/json" + asList, "*/*;as=Table;v=v1;g=meta.k8s.io;q=0.1,text/html",
		"application/json;as=;v=;g=", ";;;", "a/b/c;q=x", "application/json;q=NaN,application/yaml;q=-1", "*;as=Table", "application/json;stream=watch;sv=v1",
	} {
		f.Add(seed, "Object")
		f.Add(seed, "")
	}
	s := running(f, core.Kinds(core.Options{})...)
	post(f, s, "/api/v1/namespaces/n/configmaps", `{"metadata":{"name":"a"}}`)
	f.Fuzz(func(t *testing.T, accept, include string) {
		for _, path := range []string{"/api/v1/namespaces/n/configmaps", "/api/v1/namespaces/n/configmaps/a"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("Accept", accept)
			q := r.URL.Query()
			q.Set("includeObject", include)
			r.URL.RawQuery = q.Encode()
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			kind := w.Header().Get("Content-Type")
			switch {
			case w.Code != 200 && w.Code != 400 && w.Code != 406:
				t.Errorf("%q: %d %s", accept, w.Code, w.Body)
			case kind == "application/json" && !json.Valid(w.Body.Bytes()):
				t.Errorf("%q: no JSON: %s", accept, w.Body)
			case kind == protobuf && !strings.HasPrefix(w.Body.String(), "k8s\x00"):
				t.Errorf("%q: no protobuf: %q", accept, w.Body)
			}
		}
	})
}

// BenchmarkTablePods measures a list of 1,000 pods as kubectl get asks for it, beside the list
// of the pods themselves.
func BenchmarkTablePods(b *testing.B) {
	s := running(b, core.Kinds(core.Options{})...)
	for i := range 1000 {
		post(b, s, "/api/v1/namespaces/n/pods", fmt.Sprintf(`{"metadata":{"name":"web-7d4b9c6f5-%05d","labels":{"app":"web","pod-template-hash":"7d4b9c6f5"}},
			"spec":{"containers":[{"name":"web","image":"registry.example.com/web:1.2.3"}]}}`, i))
		r := httptest.NewRequest(http.MethodPatch, fmt.Sprintf("/api/v1/namespaces/n/pods/web-7d4b9c6f5-%05d/status", i), strings.NewReader(
			`{"status":{"phase":"Running","podIP":"10.0.0.1","conditions":[{"type":"Ready","status":"True"}],
			"containerStatuses":[{"name":"web","ready":true,"restartCount":2,"state":{"running":{}},"lastState":{"terminated":{"exitCode":1,"finishedAt":"2020-01-01T00:00:00Z"}}}]}}`))
		r.Header.Set("Content-Type", "application/merge-patch+json")
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != 200 {
			b.Fatal(w.Code, w.Body)
		}
	}
	for name, accept := range map[string]string{
		"table": asTable, "objects": "application/json", "metadata": protobuf + asList, "protobuf": protobuf,
	} {
		for _, include := range []string{"", "None"} {
			if include != "" && name != "table" {
				continue
			}
			b.Run(name+include, func(b *testing.B) {
				r := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/n/pods?includeObject="+include, nil)
				r.Header.Set("Accept", accept)
				b.ReportAllocs()
				for b.Loop() {
					s.ServeHTTP(&discard{header: http.Header{}}, r)
				}
			})
		}
	}
}
