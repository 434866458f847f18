package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// traced notes what a tracer is told, and what an authorizer then finds in its context.
type traced struct {
	mu    sync.Mutex
	lines []string
}

type tracedKey struct{}

func (l *traced) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *traced) Trace(ctx context.Context, r *http.Request, about *apiserver.Traced) (context.Context, func(int)) {
	user := "nobody"
	if id := authn.FromContext(ctx); id != nil && id == about.User {
		user = id.Name
	}
	if about.AuditID == "" || time.Since(about.Received) > time.Hour {
		l.add("ID %q, received %v", about.AuditID, about.Received)
	}
	l.add("%s %s %s by %s", r.Method, about.Request.Verb, about.Request.Resource, user)
	return context.WithValue(ctx, tracedKey{}, about), func(code int) { l.add("ended with %d", code) }
}

func (l *traced) Authorize(ctx context.Context, a authz.Attributes) (authz.Decision, error) {
	if about, ok := ctx.Value(tracedKey{}).(*apiserver.Traced); !ok || about.Request.Verb != a.Verb {
		l.add("the authorizer does not see the trace")
	}
	if a.Path == "/panic" {
		panic("at the disco")
	}
	if a.Path == "/forbidden" {
		return authz.Decision{}, nil
	}
	return authz.Decision{Verdict: authz.Allow}, nil
}

// waitFor returns the lines once there are so many.
func (l *traced) waitFor(t *testing.T, n int) []string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		lines := slices.Clone(l.lines)
		l.mu.Unlock()
		if len(lines) >= n || time.Now().After(end) {
			return lines
		}
	}
}

// TestTracer: a tracer is told of each request whose user is known, and once of its end, however it ends; what serves the
// request has the tracer's context.
func TestTracer(t *testing.T) {
	l := &traced{}
	config := serveWith(t, apiserver.Options{Tracer: l, Authorizer: l, Authenticator: authn.Func(func(r *http.Request) (*authn.Identity, error) {
		if r.Header.Get("Authorization") != "" {
			return nil, authn.ErrNoCredentials
		}
		return &authn.Identity{Name: "alice"}, nil
	})})
	want := []string{}
	for _, test := range []struct{ method, path, told, ended string }{
		{"POST", configMaps, "POST create configmaps by alice", "ended with 201"},
		{"GET", configMaps + "/a", "GET get configmaps by alice", "ended with 200"},
		{"GET", "/forbidden", "GET get  by alice", "ended with 403"},
		{"GET", "/panic", "GET get  by alice", "ended with 500"},
		{"GET", configMaps + "/none", "GET get configmaps by alice", "ended with 404"},
	} {
		body := ""
		if test.method == "POST" {
			body = `{"metadata":{"name":"a"}}`
		}
		do(t, config, test.method, test.path, "", body)
		want = append(want, test.told, test.ended)
		if got := l.waitFor(t, len(want)); !slices.Equal(got, want) {
			t.Fatalf("%s %s:\n got %s\nwant %s", test.method, test.path, strings.Join(got, ", "), strings.Join(want, ", "))
		}
	}
	u, err := url.Parse(config.Host + configMaps + "?watch=1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := config.Transport.RoundTrip((&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	want = append(want, "GET watch configmaps by alice")
	if got := l.waitFor(t, len(want)); !slices.Equal(got, want) {
		t.Fatalf("while a watch lasts: %s", strings.Join(got, ", "))
	}
	cancel()
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	want = append(want, "ended with 200")
	if got := l.waitFor(t, len(want)); !slices.Equal(got, want) {
		t.Fatalf("after a watch: %s", strings.Join(got, ", "))
	}
	unknown := &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{"Authorization": {"Bearer x"}}}
	if resp, err := config.Transport.RoundTrip(unknown.WithContext(t.Context())); err != nil || resp.StatusCode != http.StatusUnauthorized || resp.Body.Close() != nil {
		t.Errorf("%v, %v", resp, err)
	}
	if got := l.waitFor(t, len(want)); !slices.Equal(got, want) {
		t.Errorf("of nobody: %s", strings.Join(got, ", "))
	}
}
