package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/client"
	clientrest "github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/informertest"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/informer/wire"
	"github.com/keelson-dev/keelson/internal/testserver"
)

type object = *corev1.ConfigMap

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// server serves config maps from a store, as far as a Source needs it.
type server struct {
	*memory.Store[object]
	// expireContinue makes the next continued list fail, noInitial refuses initial events.
	expireContinue, noInitial atomic.Bool

	mu       sync.Mutex
	requests []url.Values
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	s.requests = append(s.requests, q)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case q.Get("sendInitialEvents") == "true" && s.noInitial.Load():
		refuse(w, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
	case q.Get("watch") == "true":
		s.watch(w, r, q)
	default:
		s.list(w, r, q)
	}
}

// asked returns the queries since the last call.
func (s *server) asked() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.requests
	s.requests = nil
	return asked
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

func (s *server) list(w http.ResponseWriter, r *http.Request, q url.Values) {
	items, version, err := s.List(r.Context())
	if err != nil {
		refuse(w, apierrors.NewInternalError(err))
		return
	}
	list := corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, ListMeta: metav1.ListMeta{ResourceVersion: version}}
	from, _ := strconv.Atoi(q.Get("continue"))
	if from > 0 && s.expireContinue.CompareAndSwap(true, false) {
		refuse(w, apierrors.NewResourceExpired("the continue token is too old"))
		return
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	to := len(items)
	if limit > 0 && from+limit < to {
		to = from + limit
		list.Continue = strconv.Itoa(to)
	}
	for _, o := range items[from:to] {
		list.Items = append(list.Items, *o)
	}
	_ = json.NewEncoder(w).Encode(list)
}

func (s *server) watch(w http.ResponseWriter, r *http.Request, q url.Values) {
	send := func(kind string, obj runtime.Object) {
		raw, _ := json.Marshal(obj)
		_ = json.NewEncoder(w).Encode(metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}})
		w.(http.Flusher).Flush()
	}
	kind := metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	version := q.Get("resourceVersion")
	if q.Get("sendInitialEvents") == "true" {
		items, at, _ := s.List(r.Context())
		slices.Reverse(items) // no order is promised
		for _, o := range items {
			o = o.DeepCopy()
			o.TypeMeta = kind
			send("ADDED", o)
		}
		send("BOOKMARK", &corev1.ConfigMap{TypeMeta: kind, ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: at, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
		version = at
	}
	stream, err := s.Watch(r.Context(), version)
	if errors.Is(err, informer.ErrExpired) {
		refuse(w, apierrors.NewResourceExpired("too old resource version"))
		return
	}
	if err != nil {
		refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	defer stream.Close()
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(seconds)*time.Second)
	defer cancel()
	for {
		events, err := stream.Next(ctx)
		if errors.Is(err, informer.ErrExpired) {
			status := apierrors.NewResourceExpired("too old resource version").Status()
			status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			send("ERROR", &status)
		}
		if err != nil {
			return
		}
		for _, e := range events {
			o := e.Object.DeepCopy()
			o.TypeMeta = kind
			send(string(e.Type), o)
			send("BOOKMARK", &corev1.ConfigMap{TypeMeta: kind, ObjectMeta: metav1.ObjectMeta{ResourceVersion: e.Version}})
		}
	}
}

// serve returns a server and how to reach it in process.
func serve(t *testing.T) (*server, *rest.Config) {
	t.Helper()
	s := &server{Store: memory.New[object]()}
	transport := apiserver.NewTransport(s, nil)
	t.Cleanup(transport.Close)
	return s, &rest.Config{Host: "http://in.process", Transport: transport, QPS: -1}
}

func source(t *testing.T, config *rest.Config, options wire.Options) *wire.Source[object] {
	t.Helper()
	s, err := wire.New[object](config, scheme.Scheme, configMaps, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSource(t *testing.T) {
	for name, options := range map[string]wire.Options{
		"pages": {PageSize: 2, Paged: true}, "one request": {Paged: true}, "stream": {},
	} {
		t.Run(name, func(t *testing.T) {
			informertest.TestSource(t, func(t *testing.T) informertest.Backend {
				s, config := serve(t)
				return informertest.Backend{
					Source: source(t, config, options),
					Put:    func(o *corev1.ConfigMap) { s.Put(o) },
					Delete: func(namespace, name string) { s.Delete(namespace, name) },
					Expire: s.Trim,
				}
			})
		})
	}
}

// The suite over the real server, with real resource versions.
func TestSourceOfTheAPIServer(t *testing.T) {
	for _, contentType := range []string{"", "application/json", "application/vnd.kubernetes.protobuf"} {
		for _, paged := range []bool{false, true} {
			t.Run(fmt.Sprint(contentType, " paged ", paged), func(t *testing.T) {
				informertest.TestSource(t, func(t *testing.T) informertest.Backend {
					config, _ := testserver.Start(t)
					config.ContentType = contentType
					return over(t, config, wire.Options{Paged: paged, PageSize: 2})
				})
			})
		}
	}
}

// over changes config maps through a server's API.
func over(t *testing.T, config *rest.Config, options wire.Options) informertest.Backend {
	t.Helper()
	c, err := clientrest.New(config, scheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	put := func(o *corev1.ConfigMap) {
		at := client.Target{Resource: configMaps, Namespace: o.Namespace, Name: o.Name}
		_, err := c.Update(t.Context(), at, o, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = c.Create(t.Context(), at, o, metav1.CreateOptions{})
		}
		if err != nil {
			t.Errorf("put %s: %v", o.Name, err)
		}
	}
	return informertest.Backend{
		Source: source(t, config, options),
		Put:    put,
		Delete: func(namespace, name string) {
			at := client.Target{Resource: configMaps, Namespace: namespace, Name: name}
			if err := c.Delete(t.Context(), at, metav1.DeleteOptions{}); err != nil {
				t.Errorf("delete %s: %v", name, err)
			}
		},
	}
}

func fill(s *server, n int) {
	for i := range n {
		s.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("c", i)}})
	}
}

func TestPages(t *testing.T) {
	s, config := serve(t)
	fill(s, 5)
	items, version, err := source(t, config, wire.Options{Paged: true, PageSize: 2, LabelSelector: "a=b", FieldSelector: "c=d"}).List(t.Context())
	if err != nil || len(items) != 5 || version != "6" {
		t.Fatalf("%d items at %s: %v", len(items), version, err)
	}
	var got []string
	for _, q := range s.asked() {
		got = append(got, q.Get("limit")+"/"+q.Get("continue")+"/"+q.Get("labelSelector")+"/"+q.Get("fieldSelector"))
	}
	if want := []string{"2//a=b/c=d", "2/2/a=b/c=d", "2/4/a=b/c=d"}; !slices.Equal(got, want) {
		t.Errorf("asked for %q, want %q", got, want)
	}
	s.expireContinue.Store(true)
	items, _, err = source(t, config, wire.Options{Paged: true, PageSize: 2}).List(t.Context())
	if q := s.asked(); err != nil || len(items) != 5 || len(q) != 3 || q[2].Get("limit") != "" {
		t.Errorf("%d items after the token expired, %d requests: %v", len(items), len(q), err)
	}
}

func TestServerWithoutInitialEvents(t *testing.T) {
	s, config := serve(t)
	fill(s, 3)
	s.noInitial.Store(true)
	items, _, err := source(t, config, wire.Options{}).List(t.Context())
	if q := s.asked(); err != nil || len(items) != 3 || len(q) != 2 {
		t.Errorf("%d items in %d requests: %v", len(items), len(q), err)
	}
}

func TestNamespace(t *testing.T) {
	var path string
	config := &rest.Config{Host: "http://in.process", QPS: -1, Transport: apiserver.NewTransport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		refuse(w, apierrors.NewForbidden(configMaps.GroupResource(), "", errors.New("no")))
	}), nil)}
	s := source(t, config, wire.Options{Namespace: "ns"})
	if _, _, err := s.List(t.Context()); !apierrors.IsForbidden(err) || errors.Is(err, informer.ErrExpired) {
		t.Errorf("List: %v", err)
	}
	if _, err := s.Watch(t.Context(), "1"); !apierrors.IsForbidden(err) {
		t.Errorf("Watch: %v", err)
	}
	if path != "/api/v1/namespaces/ns/configmaps" {
		t.Errorf("path %s", path)
	}
}

// broken answers every request with the same body.
func broken(body string) *rest.Config {
	return &rest.Config{Host: "http://in.process", QPS: -1, Transport: apiserver.NewTransport(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}), nil)}
}

func TestBadAnswers(t *testing.T) {
	for name, body := range map[string]string{
		"no JSON":              "x",
		"another kind":         `{"kind":"Pod","apiVersion":"v1"}`,
		"a list of other kind": `{"kind":"PodList","apiVersion":"v1","items":[{}]}`,
		"unknown kind":         `{"kind":"X","apiVersion":"v1"}`,
	} {
		if _, _, err := source(t, broken(body), wire.Options{Paged: true}).List(t.Context()); err == nil {
			t.Errorf("List took %s", name)
		}
	}
	for name, body := range map[string]string{
		"no JSON":        `{"type":`,
		"another kind":   `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1"}}`,
		"unknown type":   `{"type":"MOVED","object":{"kind":"ConfigMap","apiVersion":"v1"}}`,
		"internal error": `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":500}}`,
	} {
		stream, err := source(t, broken(body), wire.Options{}).Watch(t.Context(), "1")
		if err != nil {
			t.Errorf("Watch of %s: %v", name, err)
			continue
		}
		if events, err := stream.Next(t.Context()); err == nil {
			t.Errorf("Next took %s: %v", name, events)
		}
		stream.Close()
	}
}

// Whatever a server sends, a Source returns events of its kind or an error.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"3"},"items":[{"metadata":{"name":"x"}}]}`)
	f.Add(`{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"2"}}}` +
		`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"3","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
	f.Add(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired"}}`)
	f.Add(`{"type":"DELETED","object":null}`)
	f.Add(`{"type":"ERROR","object":null}`)
	f.Add(`{"kind":"ConfigMapList","apiVersion":"v1","items":null,"metadata":{"continue":""}}`)
	f.Fuzz(func(t *testing.T, body string) {
		answers := 0
		config := &rest.Config{Host: "http://in.process", QPS: -1, Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			if answers++; answers > 4 {
				return nil, errors.New("no more") // a body may continue its list for ever
			}
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(body)),
			}, nil
		})}
		s := source(t, config, wire.Options{Paged: len(body)%2 == 0})
		if items, _, err := s.List(t.Context()); err == nil {
			for _, o := range items {
				if o == nil {
					t.Error("List returned a nil object")
				}
			}
		}
		answers = 0
		stream, err := s.Watch(t.Context(), "1")
		if err != nil {
			return
		}
		defer stream.Close()
		for {
			events, err := stream.Next(t.Context())
			if err != nil {
				return
			}
			for _, e := range events {
				if e.Type == "" || (e.Object == nil) != (e.Type == informer.Bookmark) {
					t.Errorf("event %+v", e)
				}
			}
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An informer over the wire survives time-outs of its watches in virtual time, and a lost history.
func TestInformerOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, config := serve(t)
		fill(s, 3)
		i := informer.New(source(t, config, wire.Options{}), informer.Options{DetectMutations: func(err error) { t.Error(err) }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- i.Run(ctx) }()
		if err := i.WaitSynced(ctx); err != nil || len(i.List("ns")) != 3 {
			t.Fatalf("%d objects: %v", len(i.List("ns")), err)
		}
		time.Sleep(time.Hour)
		s.Delete("ns", "c0")
		synctest.Wait()
		if got := i.List("ns"); len(got) != 2 || got[0].Name != "c1" {
			t.Errorf("%d objects after an hour", len(got))
		}
		time.Sleep(20 * time.Minute) // the watch is a new one, from the last bookmark
		asked := s.asked()
		for n, q := range asked {
			if q.Get("watch") != "true" || (q.Get("sendInitialEvents") == "true") != (n == 0) {
				t.Errorf("request %d asks for %v", n, q)
			}
		}
		if want := 2 + int((80*time.Minute)/(7*time.Minute)); len(asked) != want {
			t.Errorf("%d requests, want %d", len(asked), want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
