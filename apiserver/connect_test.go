package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// connector is an apiserver.Connector made of a function.
type connector func(context.Context, apiserver.Target) (apiserver.Connection, error)

func (c connector) Connect(ctx context.Context, _ apiserver.Objects, to apiserver.Target) (apiserver.Connection, error) {
	return c(ctx, to)
}

// telling answers with what it was asked for.
func telling(_ context.Context, to apiserver.Target) (apiserver.Connection, error) {
	data, err := json.Marshal(to.Options)
	return func(w http.ResponseWriter, _ *http.Request) error {
		_, err := fmt.Fprintf(w, "%s/%s %s/%s %s", to.Resource.Resource, to.Subresource, to.Namespace, to.Name, data)
		return err
	}, err
}

func TestConnect(t *testing.T) {
	s := newServer(t, apiserver.Options{Connector: connector(telling)})
	const pod, svc = "/api/v1/namespaces/ns/pods/p", "/api/v1/namespaces/ns/services/s"
	for _, c := range []struct {
		method, path string
		code         int
		want         string // is contained
	}{
		{"GET", pod + "/exec?command=a&command=b&stdin=true&stdout=1&stderr&tty=false&container=c", 200,
			`pods/exec ns/p {"stdin":true,"stdout":true,"stderr":true,"container":"c","command":["a","b"]}`},
		{"POST", pod + "/attach?stdout=true&tty=1", 200, `pods/attach ns/p {"stdout":true,"tty":true}`},
		{"POST", pod + "/portforward?ports=80,81&ports=82", 200, `pods/portforward ns/p {"ports":[80,81,82]}`},
		{"POST", pod + "/portforward?ports=x", 400, `cannot convert to []int32: strconv.ParseUint: parsing \"x\": invalid syntax`},
		{"GET", pod + "/log?follow=true&tailLines=3&sinceTime=2026-01-02T03:04:05Z", 200,
			`pods/log ns/p {"follow":true,"sinceTime":"2026-01-02T03:04:05Z","tailLines":3,"stream":"All"}`},
		{"GET", pod + "/log?sinceSeconds=0&limitBytes=0&stream=x", 422, `PodLogOptions \"p\" is invalid: [limitBytes: Invalid value: 0: must be greater than 0, ` +
			`sinceSeconds: Invalid value: 0: must be greater than 0, stream: Unsupported value: \"x\": supported values: \"All\", \"Stderr\", \"Stdout\"]`},
		{"GET", pod + "/log?sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z", 422, "at most one of `sinceTime` or `sinceSeconds` may be specified"},
		{"GET", pod + "/log?tailLines=1&stream=Stdout", 422, "`tailLines` and specific `stream` are mutually exclusive for now"},
		{"GET", pod + "/proxy", 200, `pods/proxy ns/p {}`},
		{"PUT", pod + "/proxy/", 200, `pods/proxy ns/p {"path":"/"}`},
		{"DELETE", svc + "/proxy/a/b/?c=d", 200, `services/proxy ns/s {"path":"/a/b/"}`},
		{"PATCH", "/api/v1/namespaces/ns/services/https:s:port/proxy/x%2Fy", 200, `services/proxy ns/https:s:port {"path":"/x/y"}`},
		{"HEAD", "/api/v1/nodes/n:80/proxy/x", 200, ``},
		{"OPTIONS", "/api/v1/nodes/n/proxy/x", 200, `nodes/proxy /n {"path":"/x"}`},
		{"GET", "/api/v1/nodes/proxy/proxy/proxy", 200, `nodes/proxy /proxy {"path":"/proxy"}`},

		{"POST", pod + "/log", 405, ""}, {"HEAD", pod + "/log", 405, ""}, {"PUT", pod + "/exec", 405, ""}, {"DELETE", pod + "/attach", 405, ""},
		{"GET", pod + "/exec/more", 404, ""}, {"GET", "/api/v1/pods/p/log", 404, ""}, {"GET", "/api/v1/namespaces/ns/configmaps/c/proxy", 404, ""},
		{"POST", pod + "/exec?dryRun=All", 400, "dryRun is not supported"},
	} {
		if w := call(s, "ann", c.method, c.path); w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %s; want %d %s", c.method, c.path, w.Code, w.Body, c.code, c.want)
		}
	}
}

func TestConnectErrors(t *testing.T) {
	for name, c := range map[string]struct {
		connector apiserver.Connector
		code      int
		want      string
	}{
		"none": {nil, 501, "exec of pods needs nodes that run real containers; this server knows no way to them"},
		"no way": {connector(func(context.Context, apiserver.Target) (apiserver.Connection, error) {
			return nil, apierrors.NewBadRequest("no such container")
		}), 400, "no such container"},
		"no answer": {connector(func(context.Context, apiserver.Target) (apiserver.Connection, error) {
			return func(http.ResponseWriter, *http.Request) error { return errors.New("error dialing backend: refused") }, nil
		}), 500, "error dialing backend: refused"},
		"panic": {connector(func(context.Context, apiserver.Target) (apiserver.Connection, error) {
			return func(http.ResponseWriter, *http.Request) error { panic("oh") }, nil
		}), 500, "This request caused apiserver to panic"},
	} {
		s := newServer(t, apiserver.Options{Connector: c.connector})
		if w := call(s, "ann", "POST", "/api/v1/namespaces/ns/pods/p/exec"); w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestConnectAccess: who connects is authorized, and admitted, as upstream's API server does it.
func TestConnectAccess(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf(format, args...))
	}
	plugin := func(_ context.Context, r *admission.Request) error {
		note("%s %s %s/%s %s %s %T", r.Operation, r.Kind.Kind, r.Resource.Resource, r.Subresource, r.Namespace, r.Name, r.Object)
		return nil
	}
	s := newServer(t, apiserver.Options{
		Connector: connector(telling),
		Authorizer: authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
			note("%s %s/%s %s", a.Verb, a.Resource, a.Subresource, a.Name)
			if a.User.Name == "bob" && a.Verb != "get" {
				return authz.Decision{}, nil
			}
			return authz.Decision{Verdict: authz.Allow}, nil
		}),
		Admission: admission.Chain{admission.MutatorFunc("m", plugin, admission.Connect), admission.ValidatorFunc("v", plugin, admission.Connect, admission.Create)},
	})
	const pod = "/api/v1/namespaces/ns/pods/p"
	const exec = "CONNECT PodExecOptions pods/exec ns p *v1.PodExecOptions"
	for _, c := range []struct {
		who, method, path string
		code              int
		want              []string
	}{
		{"ann", "GET", pod + "/log", 200, []string{"get pods/log p"}},
		{"ann", "POST", pod + "/exec", 200, []string{"create pods/exec p", exec, exec, "create pods/exec p"}},
		{"ann", "GET", pod + "/exec", 200, []string{"get pods/exec p", exec, exec, "create pods/exec p"}},
		{"bob", "GET", pod + "/exec", 403, []string{"get pods/exec p", exec, exec, "create pods/exec p"}},
		{"bob", "POST", pod + "/exec", 403, []string{"create pods/exec p"}},
		{"bob", "GET", "/api/v1/nodes/n/proxy/x", 200, []string{"get nodes/proxy n",
			"CONNECT NodeProxyOptions nodes/proxy  n *v1.NodeProxyOptions", "CONNECT NodeProxyOptions nodes/proxy  n *v1.NodeProxyOptions"}},
		{"bob", "DELETE", "/api/v1/nodes/n/proxy/x", 403, []string{"delete nodes/proxy n"}},
	} {
		seen = nil
		if w := call(s, c.who, c.method, c.path); w.Code != c.code || !slices.Equal(seen, c.want) {
			t.Errorf("%s %s %s: %d, %q; want %d, %q", c.who, c.method, c.path, w.Code, seen, c.code, c.want)
		}
	}
}

// TestConnectLasts: such requests are not timed out and take no seat, in this process as well.
func TestConnectLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, apiserver.Options{
			FlowControl: seats(1), Patience: apiserver.Patience{Request: time.Second},
			Connector: connector(func(context.Context, apiserver.Target) (apiserver.Connection, error) {
				return func(w http.ResponseWriter, r *http.Request) error {
					for i := range 3 {
						select {
						case <-r.Context().Done():
							return nil
						case <-time.After(time.Hour):
							_, _ = fmt.Fprintln(w, "line", i)
						}
					}
					return nil
				}, nil
			}),
			Authenticator: authn.Func(func(*http.Request) (*authn.Identity, error) { return &authn.Identity{Name: "ann"}, nil }),
		})
		const log = "/api/v1/namespaces/ns/pods/p/log"
		var clients sync.WaitGroup
		for range 3 {
			clients.Go(func() {
				if w := call(s, "ann", "GET", log); w.Code != 200 || w.Body.String() != "line 0\nline 1\nline 2\n" {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		transport := apiserver.NewTransport(s, nil)
		defer transport.Close()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://in.process"+log, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(answer.Body)
		if err != nil || string(data) != "line 0\nline 1\nline 2\n" {
			t.Errorf("in process: %q, %v", data, err)
		}
		_ = answer.Body.Close()
		clients.Wait()
	})
}
