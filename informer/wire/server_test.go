package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/informertest"
	"github.com/keelson-dev/keelson/informer/wire"
	"github.com/keelson-dev/keelson/internal/testserver"
)

// overTLS serves a real API server on a socket, over HTTP/2.
func overTLS(t *testing.T) *rest.Config {
	t.Helper()
	_, reg := testserver.Start(t)
	server := httptest.NewUnstartedServer(apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	client := server.Client()
	t.Cleanup(client.CloseIdleConnections)
	return &rest.Config{Host: server.URL, Transport: client.Transport, QPS: -1}
}

func TestSourceOverTLS(t *testing.T) {
	informertest.TestSource(t, func(t *testing.T) informertest.Backend {
		return over(t, overTLS(t), wire.Options{})
	})
}

// types records the requested media types and that of the answer.
type types struct {
	http.RoundTripper
	mu   sync.Mutex
	seen []string
}

func (r *types) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.RoundTripper.RoundTrip(req)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen = append(r.seen, resp.Header.Get("Content-Type"))
	}
	return resp, err
}

func TestProtobufIsAskedFor(t *testing.T) {
	const protobuf, asJSON = "application/vnd.kubernetes.protobuf", "application/json"
	for _, test := range []struct {
		contentType, want string
		paged             bool
	}{
		{"", protobuf + ";stream=watch", false}, {"", protobuf, true},
		{asJSON, asJSON, false}, {asJSON, asJSON, true},
	} {
		config, _ := testserver.Start(t)
		seen := &types{RoundTripper: config.Transport}
		config.Transport, config.ContentType = seen, test.contentType
		if _, _, err := source(t, config, wire.Options{Paged: test.paged}).List(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(seen.seen, " "); got != test.want {
			t.Errorf("content type %q, paged %v: the server sent %s, want %s", test.contentType, test.paged, got, test.want)
		}
	}
}

func TestMetadata(t *testing.T) {
	for _, contentType := range []string{"", "application/json"} {
		for _, paged := range []bool{false, true} {
			t.Run(fmt.Sprint(contentType, " paged ", paged), func(t *testing.T) {
				config, _ := testserver.Start(t)
				seen := &types{RoundTripper: config.Transport}
				metadata := rest.CopyConfig(config)
				metadata.Transport, metadata.ContentType = seen, contentType
				b := over(t, config, wire.Options{})
				put := func(name string) {
					b.Put(&corev1.ConfigMap{
						ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"l": name}},
						Data:       map[string]string{"large": strings.Repeat("x", 1000)},
					})
				}
				put("a")
				put("b")
				source, err := wire.NewMetadata(metadata, configMaps, wire.Options{Namespace: "ns", Paged: paged, PageSize: 1})
				if err != nil {
					t.Fatal(err)
				}
				items, version, err := source.List(t.Context())
				if err != nil || len(items) != 2 || items[0].Name != "a" || items[1].Labels["l"] != "b" || items[0].UID == "" {
					t.Fatalf("%v at %s: %v", items, version, err)
				}
				put("c")
				b.Delete("ns", "c")
				stream, err := source.Watch(t.Context(), version)
				if err != nil {
					t.Fatal(err)
				}
				defer stream.Close()
				for _, want := range []informer.EventType{informer.Added, informer.Deleted} {
					events, err := stream.Next(t.Context())
					if err != nil || len(events) != 1 || events[0].Type != want || events[0].Object.Name != "c" || events[0].Version == "" {
						t.Fatalf("%v: %v", events, err)
					}
				}
				for _, got := range seen.seen {
					if strings.HasPrefix(got, "application/json") != (contentType != "") {
						t.Errorf("the server sent %q", seen.seen)
					}
				}
			})
		}
	}
}

// The transform reduces an object before the next one is decoded.
func TestListsGoThroughTransformsOneByOne(t *testing.T) {
	for _, paged := range []bool{false, true} {
		s, config := serve(t)
		fill(s, 5)
		bad := errors.New("no good")
		seen := 0
		cut := informer.Transform(source(t, config, wire.Options{Paged: paged}), func(o object) (object, error) {
			if seen++; seen == 3 {
				return o, bad
			}
			return o, nil
		}, nil)
		if _, _, err := cut.List(t.Context()); !errors.Is(err, bad) || seen != 3 {
			t.Errorf("paged %v: %v after %d objects", paged, err, seen)
		}
		if items, _, err := cut.List(t.Context()); err != nil || len(items) != 5 {
			t.Errorf("paged %v: %d items, %v", paged, len(items), err)
		}
	}
}

// hanging is a connection that died silently.
type hanging struct{ http.RoundTripper }

func (h hanging) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Get("sendInitialEvents") == "true" || req.URL.Query().Get("watch") != "true" {
		return h.RoundTripper.RoundTrip(req)
	}
	body, w := io.Pipe()
	context.AfterFunc(req.Context(), func() { _ = w.CloseWithError(req.Context().Err()) })
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
}

func TestDeadConnectionIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config := serve(t)
		config.Transport = hanging{config.Transport}
		s := source(t, config, wire.Options{WatchFor: time.Minute})
		stream, err := s.Watch(t.Context(), "1")
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		start := time.Now()
		if _, err := stream.Next(t.Context()); !errors.Is(err, wire.ErrDead) || time.Since(start) != 90*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// A server without support for initial events watches from now on, and does not send existing objects.
func TestServerThatKnowsNoInitialEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, config := serve(t)
		fill(s, 3)
		inner := config.Transport
		config.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
			if q := req.URL.Query(); q.Get("sendInitialEvents") == "true" {
				q.Del("sendInitialEvents")
				q.Set("resourceVersion", "2") // two of them as synthetic events
				req = req.Clone(req.Context())
				req.URL.RawQuery = q.Encode()
			}
			return inner.RoundTrip(req)
		})
		items, version, err := source(t, config, wire.Options{WatchFor: time.Minute}).List(t.Context())
		if err != nil || len(items) != 3 || version != "4" {
			t.Errorf("%d items at %s: %v", len(items), version, err)
		}
	})
}

// Objects that change during the initial events.
func TestChangesAmongInitialEvents(t *testing.T) {
	line := func(kind, name, version, annotation string) string {
		o := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
		o.Name, o.ResourceVersion = name, version
		if annotation != "" {
			o.Annotations = map[string]string{annotation: "true"}
		}
		raw, err := json.Marshal(map[string]any{"type": kind, "object": o})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw) + "\n"
	}
	body := line("ADDED", "b", "1", "") + line("ADDED", "c", "2", "") + line("ADDED", "a", "3", "") +
		line("MODIFIED", "b", "4", "") + line("DELETED", "c", "5", "") + line("BOOKMARK", "", "5", "") +
		line("ADDED", "d", "6", "") + line("BOOKMARK", "", "7", metav1.InitialEventsAnnotationKey) + line("ADDED", "e", "8", "")
	items, version, err := source(t, broken(body), wire.Options{}).List(t.Context())
	var got []string
	for _, o := range items {
		got = append(got, o.Name+"@"+o.ResourceVersion)
	}
	if err != nil || version != "7" || !slices.Equal(got, []string{"a@3", "b@4", "d@6"}) {
		t.Errorf("%v at %s: %v", got, version, err)
	}
}

func TestMetadataOfAnUnknownServer(t *testing.T) {
	if _, err := wire.NewMetadata(&rest.Config{Host: "http://in.process", ContentConfig: rest.ContentConfig{ContentType: ";"}}, configMaps, wire.Options{}); err == nil {
		t.Error("took a wrong content type")
	}
	if _, err := wire.New[object](&rest.Config{Host: "http://[::1"}, scheme.Scheme, configMaps, wire.Options{}); err == nil {
		t.Error("took a wrong host")
	}
}
