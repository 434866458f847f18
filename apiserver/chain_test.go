package apiserver_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// newServer is a server without objects: its users are named by their tokens, "root" is a master,
// and only "root" and "ann" may do anything.
func newServer(t testing.TB, o apiserver.Options) *apiserver.Server {
	t.Helper()
	r, err := registry.New(memory.New(memory.Options{}), core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if o.Authenticator == nil {
		o.Authenticator = token.New(token.Static(map[string]*authn.Identity{
			"root": {Name: "root", Groups: []string{authn.GroupMasters}}, "ann": {Name: "ann"}, "bob": {Name: "bob"},
		}))
	}
	if o.Authorizer == nil {
		o.Authorizer = authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
			if a.User.Name == "bob" {
				return authz.Decision{Reason: "bob may nothing"}, nil
			}
			return authz.Decision{Verdict: authz.Allow, Reason: "not bob"}, nil
		})
	}
	return apiserver.New(r, o)
}

// call sends a request as a client from outside would.
func call(h http.Handler, who, method, path string, header ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, from(who, method, path, header...))
	return w
}

func from(who, method, path string, header ...string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// TestOrder: a request with several faults is refused for the first in upstream's order.
func TestOrder(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{})
	sink := &audit.Memory{}
	s := newServer(t, apiserver.Options{
		FlowControl: seats(1),
		Audit:       audit.New(audit.Everything(auditv1.LevelMetadata), sink, audit.Options{}),
		Paths: map[string]http.Handler{
			"/hold":  http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-release }),
			"/panic": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") }),
		},
	})
	done := make(chan struct{})
	go func() { defer close(done); call(s, "ann", "GET", "/hold") }()
	<-entered
	defer func() { close(release); <-done }()
	tests := []struct {
		name, who, path string
		header          []string
		code            int
		said            string
	}{
		{"no resource, before the time-out", "wrong", "/api/v1/watch?timeout=x", nil, 500, "failed to create RequestInfo"},
		{"time-out, before credentials", "wrong", "/panic?timeout=x", nil, 400, "invalid timeout"},
		{"credentials, before impersonation", "wrong", "/panic", []string{"Impersonate-Uid", "1"}, 401, "Unauthorized"},
		{"impersonation, before the limit", "ann", "/panic", []string{"Impersonate-Uid", "1"}, 400, "without impersonating a user name"},
		{"impersonation by who may not, before the limit", "bob", "/panic", []string{"Impersonate-User", "ann"}, 403, "cannot impersonate-on:user-info:get path"},
		{"limit, before authorization", "bob", "/panic", nil, 429, "Too many requests"},
		{"masters pass the limit; then authorization", "root", "/panic", []string{"Impersonate-User", "bob", "Impersonate-Group", authn.GroupMasters}, 403, "bob may nothing"},
		{"last the handler", "root", "/panic", nil, 500, "This request caused apiserver to panic"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := len(sink.Events())
			w := call(s, test.who, "GET", test.path, append(test.header, "Audit-Id", "x")...)
			if w.Code != test.code || !strings.Contains(w.Body.String(), test.said) {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, test.code, test.said)
			}
			if w.Header().Get("Audit-Id") != "x" {
				t.Errorf("Audit-Id: %v", w.Header())
			}
			// Only what has no request info is not audited.
			if recorded := len(sink.Events()) > before; recorded != (test.path != "/api/v1/watch?timeout=x") {
				t.Errorf("audited: %v", recorded)
			}
		})
	}
}

func TestHeaders(t *testing.T) {
	var got http.Header
	var who *authn.Identity
	s := newServer(t, apiserver.Options{Paths: map[string]http.Handler{"/look": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, who = r.Header.Clone(), authn.FromContext(r.Context())
	})}})
	w := call(s, "ann", "GET", "/look", "X-Remote-User", "root", "X-Remote-Group", "g", "X-Remote-Uid", "u", "X-Remote-Extra-A", "b",
		"X-Remotely", "stays", "Impersonate-User", "carol", "Impersonate-Extra-Example.com%2FA", "1", "Audit-Id", "id")
	if diff := cmp.Diff(http.Header{"X-Remotely": {"stays"}, "Audit-Id": {"id"}}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&authn.Identity{Name: "carol", Groups: []string{authn.GroupAuthenticated}, Extra: map[string][]string{"example.com/a": {"1"}}}, who); diff != "" {
		t.Error(diff)
	}
	if w.Header().Get("Cache-Control") != "no-cache, private" {
		t.Error(w.Header())
	}
	// IDs that nobody chose are random UUIDs.
	one, other := call(s, "ann", "GET", "/look").Header().Get("Audit-Id"), call(s, "ann", "GET", "/look").Header().Get("Audit-Id")
	if len(one) != 36 || one[14] != '4' || one == other {
		t.Error(one, other)
	}
}

// FuzzImpersonation: whatever the headers say, they reach nobody behind, and who acts as somebody
// else without a name is refused.
func FuzzImpersonation(f *testing.F) {
	f.Add("bob", "dev", "7", "Scopes", "view")
	f.Add("", "dev", "", "%zz", "")
	f.Add("system:serviceaccount:a:b", "", "", "Example.com%2fA", "1")
	f.Add("system:node:n", "system:masters", "", "", "")
	var got http.Header
	s := newServer(f, apiserver.Options{Authorizer: alwaysallow.New(), Paths: map[string]http.Handler{"/look": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header })}})
	f.Fuzz(func(t *testing.T, user, group, uid, key, value string) {
		got = nil
		r := from("ann", "GET", "/look")
		for name, v := range map[string]string{"User": user, "Group": group, "Uid": uid, "Extra-" + key: value} {
			if v != "" {
				r.Header.Set("Impersonate-"+name, v)
			}
		}
		asked := len(r.Header) > 1
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		switch {
		case w.Code == http.StatusOK:
			for name := range got {
				if strings.HasPrefix(name, "Impersonate-User") || strings.HasPrefix(name, "Impersonate-Group") || strings.HasPrefix(name, "Impersonate-Uid") || strings.HasPrefix(name, "Impersonate-Extra-") {
					t.Errorf("%s has come through", name)
				}
			}
		case !asked || user != "" || w.Code != http.StatusBadRequest:
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
