package etcd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/registry/resource/selectors"
)

const (
	// patience bounds every wait; on an idle machine each takes seconds.
	patience = 3 * time.Minute
	agent    = "conformance/1"
)

// settings are the settings of both, named like kube-apiserver's flags.
type settings struct {
	etcd           string
	network, ports string
	listen         netip.AddrPort // upstream's; keelson advertises the port
	// The addresses that each advertises.
	upstream, keelson string
}

func newSettings(t *testing.T, endpoint string) settings {
	t.Helper()
	return settings{endpoint, "10.0.0.0/24", "30000-32767", freePort(t), "192.0.2.1", "192.0.2.2"}
}

// server is an API server of either side.
type server struct {
	name   string
	host   string
	client *http.Client
	end    func(t *testing.T)
	crash  func() // stops a process at once
	ended  bool
}

// stop stops the server gracefully, once.
func (s *server) stop(t *testing.T) {
	t.Helper()
	if !s.ended {
		s.ended = true
		s.end(t)
	}
}

// kill stops the server at once.
func (s *server) kill(t *testing.T) {
	t.Helper()
	s.crash()
	s.stop(t)
}

func (s *server) request(ctx context.Context, method, path, contentType string, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.host+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", agent)
	request.Header.Set("Accept", "application/json")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	if s.name == "upstream" {
		request.Header.Set("Authorization", "Bearer "+password)
	}
	return request, nil
}

// do sends a request and returns the answer.
func (s *server) do(t *testing.T, method, path, contentType string, body []byte) (int, []byte) {
	t.Helper()
	request, err := s.request(t.Context(), method, path, contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatalf("%s: %s %s: %v", s.name, method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %s %s: %v", s.name, method, path, err)
	}
	return response.StatusCode, data
}

// must is do for requests that have to succeed.
func (s *server) must(t *testing.T, method, path, contentType string, body []byte) []byte {
	t.Helper()
	code, data := s.do(t, method, path, contentType, body)
	if code/100 != 2 {
		t.Fatalf("%s: %s %s: %d %s\nsent %s", s.name, method, path, code, data, body)
	}
	return data
}

func (s *server) get(t *testing.T, path string) []byte {
	t.Helper()
	return s.must(t, http.MethodGet, path, "", nil)
}

const (
	asJSON  = "application/json"
	asMerge = "application/merge-patch+json"
	asApply = "application/apply-patch+yaml"
)

// startKeelson runs keelson's API server on an etcd, without controllers, until it is stopped or
// the test ends.
func startKeelson(t *testing.T, set settings) *server {
	t.Helper()
	store := openStore(t, set.etcd)
	ports, err := allocation.ParsePortRange(set.ports)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Options{
		Store: store, Components: []cluster.Component{}, Disable: withoutControllers,
		Services: cluster.Services{Networks: []netip.Prefix{netip.MustParsePrefix(set.network)}, NodePorts: ports},
		Server:   cluster.Server{Selectors: selectors.Compile, Address: netip.AddrPortFrom(netip.MustParseAddr(set.keelson), set.listen.Port())},
		Logger:   slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	s := &server{name: "keelson", host: c.Config().Host, client: client, end: func(t *testing.T) {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}}
	t.Cleanup(func() { s.stop(t) })
	return s
}

// eventually waits until look returns an empty string.
func eventually(t *testing.T, look func() (missing string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		missing := look()
		if missing == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("after %v: %s", patience, missing)
		}
	}
}

// dump returns the content of etcd: values by key, with the revision of their last change.
func dump(t *testing.T, endpoint string) map[string]record {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	all, err := client.Get(t.Context(), "/", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]record{}
	for _, kv := range all.Kvs {
		out[string(kv.Key)] = record{kv.Value, kv.ModRevision, kv.Lease != 0}
	}
	return out
}

type record struct {
	value    []byte
	revision int64
	leased   bool
}

// put writes values directly into etcd.
func put(t *testing.T, endpoint string, values map[string][]byte) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for key, value := range values {
		if _, err := client.Put(t.Context(), key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
}

func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return out
}

func encode(t *testing.T, obj any) []byte {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// field returns a value of an object, nil if it does not exist.
func field(obj map[string]any, path ...string) any {
	var at any = obj
	for _, name := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[name]
	}
	return at
}

func text(obj map[string]any, path ...string) string {
	s, ok := field(obj, path...).(string)
	if !ok {
		return ""
	}
	return s
}

func short(data []byte) string {
	if len(data) > 1500 {
		return fmt.Sprintf("%s… (%d bytes)", data[:1500], len(data))
	}
	return string(data)
}
