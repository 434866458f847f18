package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/flowcontrol/fairqueuing"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// seats serves so many requests at once, but those of masters, and rejects further ones.
func seats(n int) flowcontrol.Limiter {
	return fairqueuing.New(flowcontrol.NewConfig(nil, nil), fairqueuing.Options{Seats: n})
}

// hall is a server where "/hold" lasts until it is released; who asks is in the headers User and Group.
type hall struct {
	*apiserver.Server
	release chan struct{}
	clients sync.WaitGroup
	mu      sync.Mutex
	codes   map[int]int
}

func newHall(t *testing.T, limiter flowcontrol.Limiter) *hall {
	t.Helper()
	r, err := registry.New(memory.New(memory.Options{}), nil, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &hall{release: make(chan struct{}), codes: map[int]int{}}
	h.Server = apiserver.New(r, apiserver.Options{
		Authenticator: authn.Func(func(r *http.Request) (*authn.Identity, error) {
			return &authn.Identity{Name: r.Header.Get("User"), Groups: append(r.Header.Values("Group"), authn.GroupAuthenticated)}, nil
		}),
		Authorizer: alwaysallow.New(), FlowControl: limiter,
		Paths: map[string]http.Handler{
			"/readyz": says("ok"), "/readyz/etcd": says("ok"),
			"/hold": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-h.release }),
		},
	})
	return h
}

// hold has a user make so many requests that last.
func (h *hall) hold(n int, user string, groups ...string) {
	for range n {
		h.clients.Go(func() {
			w := h.ask("/hold", user, groups...)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.codes[w.Code]++
		})
	}
	synctest.Wait()
}

func (h *hall) ask(path, user string, groups ...string) *httptest.ResponseRecorder {
	header := []string{"User", user}
	for _, g := range groups {
		header = append(header, "Group", g)
	}
	return call(h, "", "GET", path, header...)
}

// end lets all go on.
func (h *hall) end() {
	close(h.release)
	h.clients.Wait()
}

// TestFlowControl: a user fills half of the seats and some queues. What is more is rejected, and others are served.
func TestFlowControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, nil)
		h.hold(600, "ann")
		const served, queued = 28, 6 * 50
		if h.codes[429] != 600-served-queued {
			t.Errorf("rejected: %v", h.codes)
		}
		w := h.ask("/version", "ann")
		if w.Code != 429 || w.Header().Get("Retry-After") != "1" || w.Body.String() != "Too many requests, please try again later.\n" {
			t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
		}
		if w := h.ask("/version", "bob"); w.Code != 200 {
			t.Errorf("somebody else: %d", w.Code)
		}
		if w := h.ask("/debug/pprof/nothing", "ann"); w.Code != 404 {
			t.Errorf("a long-running request: %d", w.Code)
		}
		transport := apiserver.NewTransport(h, nil)
		defer transport.Close()
		r := httptest.NewRequest(http.MethodGet, "http://keelson/version", nil)
		r.Header.Set("User", "ann")
		if resp, err := transport.RoundTrip(r); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("in process: %v %v", resp, err)
		}
		h.end()
		if h.codes[200] != served+queued {
			t.Errorf("in the end: %v", h.codes)
		}
		if w := h.ask("/hold", "ann"); w.Code != 200 {
			t.Errorf("afterwards: %d", w.Code)
		}
	})
}

// TestFlowControlWaits: a request waits for a quarter of its time.
func TestFlowControlWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, fairqueuing.New(flowcontrol.DefaultConfig(), fairqueuing.Options{Period: time.Hour}))
		h.hold(28, "ann")
		began := time.Now()
		if w := h.ask("/version?timeout=20s", "ann"); w.Code != 429 || time.Since(began) != 5*time.Second {
			t.Errorf("%d after %s", w.Code, time.Since(began))
		}
		began = time.Now()
		if w := h.ask("/version", "ann"); w.Code != 429 || time.Since(began) != 15*time.Second {
			t.Errorf("%d after %s", w.Code, time.Since(began))
		}
		h.end()
	})
}

// TestLevels: who are served while people, accounts and those without a schema fill what they have.
func TestLevels(t *testing.T) {
	const lease, node, pods = "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", "/api/v1/nodes/n", "/api/v1/pods"
	const account = "system:serviceaccounts"
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, fairqueuing.New(flowcontrol.DefaultConfig(), fairqueuing.Options{Period: time.Hour}))
		for i := range 100 {
			h.hold(20, fmt.Sprint("user", i))
			h.hold(20, fmt.Sprint("system:serviceaccount:ns:a", i), account)
		}
		for _, test := range []struct {
			name, user, group, path string
			code                    int
		}{
			{"another user", "ann", "", pods, 429},
			{"an account", "system:serviceaccount:other:a", account, pods, 429},
			{"an account of the cluster", "system:serviceaccount:kube-system:a", account, pods, 404},
			{"its lease", "system:serviceaccount:kube-system:a", account, lease, 404},
			{"the scheduler", "system:kube-scheduler", "", pods, 404},
			{"the controllers", "system:kube-controller-manager", "", pods, 404},
			{"a node", "system:node:n", authn.GroupNodes, pods, 404},
			{"a node of itself", "system:node:n", authn.GroupNodes, node + "/status", 404},
			{"a master", "me", authn.GroupMasters, pods, 404},
			{"a probe", "ann", "", "/readyz", 200},
			{"what is nearly a probe", "ann", "", "/readyz/etcd", 200}, // as upstream takes it
			{"who only looks like a node", "system:node:n", "", pods, 429},
		} {
			if w := h.ask(test.path, test.user, test.group); w.Code != test.code {
				t.Errorf("%s: %d %s, want %d", test.name, w.Code, w.Body, test.code)
			}
		}
		h.end()
	})
}

// TestClassHeaders: the answer tells the UIDs of what a request was taken for, also if it is rejected.
func TestClassHeaders(t *testing.T) {
	class := flowcontrol.Class{
		Schema: &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{UID: "s"}},
		Level:  &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{UID: "l"}},
	}
	var fails error
	done := 0
	var asked []authz.Attributes
	h := newHall(t, limiterFunc(func(_ context.Context, a authz.Attributes) (flowcontrol.Ticket, error) {
		asked = append(asked, a)
		return flowcontrol.Ticket{Class: class, Release: func() { done++ }}, fails
	}))
	header := func(w *httptest.ResponseRecorder) string {
		return fmt.Sprint(w.Code, w.Header().Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID),
			w.Header().Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID), w.Header().Get("Retry-After"))
	}
	if got := header(h.ask("/api/v1/namespaces/ns/pods/p", "ann")); got != "404sl" {
		t.Error(got)
	}
	if a := asked[0]; a.User.Name != "ann" || a.Namespace != "ns" || a.Resource != "pods" || a.Verb != "get" {
		t.Errorf("%+v", a)
	}
	if w := h.ask("/api/v1/pods?watch=1", "ann"); w.Code != 404 || len(asked) != 2 {
		t.Errorf("a watch is counted until its stream begins: %d, %d", w.Code, len(asked))
	}
	if done != 2 {
		t.Errorf("%d of 2 tickets came back", done)
	}
	fails = &flowcontrol.Rejection{Class: class, Reason: flowcontrol.QueueFull, RetryAfter: 7 * time.Second}
	if got := header(h.ask("/version", "ann")); got != "429sl7" {
		t.Error(got)
	}
	if done != 2 {
		t.Errorf("a rejected request gave back a ticket")
	}
}

type limiterFunc func(context.Context, authz.Attributes) (flowcontrol.Ticket, error)

func (f limiterFunc) Wait(ctx context.Context, a authz.Attributes) (flowcontrol.Ticket, error) {
	return f(ctx, a)
}

// TestUnlimited: there are servers that want no limit.
func TestUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, flowcontrol.Unlimited{})
		h.hold(2000, "ann")
		h.end()
		if h.codes[200] != 2000 {
			t.Errorf("%v", h.codes)
		}
	})
}

// TestServedTooLate: a request whose client has gone while it waited for its turn reads nothing any more: the connection is not
// its own then.
func TestServedTooLate(t *testing.T) {
	waits, turn, over, read := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan error, 1)
	s := newServer(t, apiserver.Options{
		FlowControl: limiterFunc(func(context.Context, authz.Attributes) (flowcontrol.Ticket, error) {
			close(waits)
			<-turn
			return flowcontrol.Ticket{}, nil
		}),
		Paths: map[string]http.Handler{"/upload": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			read <- err
		})},
	})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(over)
		s.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	body, more := io.Pipe()
	defer more.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/upload", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer root")
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if resp, err := server.Client().Do(r); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-waits
	cancel()
	<-over
	close(turn)
	if err := <-read; !errors.Is(err, http.ErrHandlerTimeout) {
		t.Errorf("read: %v", err)
	}
	<-answered
}
