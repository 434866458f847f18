package customresources_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/customresources"
	"github.com/keelson-dev/keelson/internal/upstream"
	"github.com/keelson-dev/keelson/internal/upstream/controlplane"
)

// patience bounds every wait; each takes seconds at most.
const patience = 2 * time.Minute

// server is one of the two API servers.
type server struct {
	name   string
	url    string
	client *http.Client
}

// newServer is a client of a server.
func newServer(t *testing.T, name string, config *rest.Config) *server {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &server{name, strings.TrimSuffix(url.String(), "/"), client}
}

// startKeelson runs a cluster in this process that only serves its API.
func startKeelson(t *testing.T) *server {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{
		Extensions: []cluster.Extension{customresources.Extension(customresources.Options{})},
		OnMutation: func(err error) { t.Errorf("a shared object was changed: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return newServer(t, "keelson", c.Config())
}

// startUpstream runs etcd and kube-apiserver.
func startUpstream(t *testing.T) *server {
	t.Helper()
	site, err := controlplane.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	args, err := site.Arguments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	programs, err := upstream.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{upstream.Etcd, upstream.APIServer} {
		path, err := programs.Build(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		daemon := controlplane.StartDaemon(path, args[name], site.File(name+".log"))
		t.Cleanup(func() {
			if err := daemon.Stop(); err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(site.File(name + ".log")); err == nil && t.Failed() {
				t.Logf("the last of %s:\n%s", name, text[max(0, len(text)-3000):])
			}
		})
	}
	config, err := site.Config("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, "upstream", config)
	await(t, "upstream", func() bool {
		ready, err := s.get(t.Context(), "/readyz")
		return err == nil && ready == http.StatusOK
	})
	return s
}

// await polls until a server is ready.
func await(t *testing.T, what string, ready func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s is not ready after %v", what, patience)
		}
	}
}

func (s *server) get(ctx context.Context, path string) (int, error) {
	a, err := s.send(ctx, request{method: http.MethodGet, path: path}, "")
	return a.code, err
}

// request is what is sent to both servers.
type request struct {
	what, method, path, content, accept string
	// body may contain version, which stands for the resource version that the server gave the object.
	body []byte
}

const version = "@resourceVersion@"

func (r request) String() string {
	return fmt.Sprintf("%s: %s %s (%s)\n%s", r.what, r.method, r.path, r.content, r.body)
}

// answer is a server's.
type answer struct {
	code     int
	warnings []string
	body     any // JSON, or text
	raw      []byte
}

var errAnswer = errors.New("no answer")

// send sends a request.
func (s *server) send(ctx context.Context, r request, resourceVersion string) (answer, error) {
	body := bytes.ReplaceAll(r.body, []byte(version), []byte(resourceVersion))
	req, err := http.NewRequestWithContext(ctx, r.method, s.url+r.path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if r.content == "" {
		r.content = "application/json"
	}
	if r.accept == "" {
		r.accept = "application/json"
	}
	req.Header.Set("Content-Type", r.content)
	req.Header.Set("Accept", r.accept)
	req.Header.Set("User-Agent", "differential")
	response, err := s.client.Do(req)
	if err != nil && strings.Contains(err.Error(), "INTERNAL_ERROR") {
		return answer{raw: []byte(err.Error()), body: "a panic"}, nil
	}
	if err != nil {
		return answer{}, fmt.Errorf("%w from %s: %w", errAnswer, s.name, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("%w from %s: %w", errAnswer, s.name, err)
	}
	a := answer{code: response.StatusCode, warnings: slices.Sorted(slices.Values(response.Header.Values("Warning"))), raw: text}
	if bytes.HasPrefix(text, []byte("This request caused apiserver to panic")) {
		return answer{raw: text, body: "a panic"}, nil
	}
	if json.Unmarshal(text, &a.body) != nil {
		a.body = string(text)
	}
	return a, nil
}

// object returns the object in an answer.
func (a answer) object() m {
	o, _ := a.body.(m)
	return o
}

// resourceVersion returns that of the object in an answer.
func (a answer) resourceVersion() string {
	metadata, _ := a.object()["metadata"].(m)
	text, _ := metadata["resourceVersion"].(string)
	return text
}
