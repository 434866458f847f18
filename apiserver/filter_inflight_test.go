package apiserver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestLimits: a user has as many requests served at once as are their share, readers and writers apart.
func TestLimits(t *testing.T) {
	tests := []struct {
		name            string
		options         apiserver.Options
		readOnly, write int // of 600 at once, how many are let in
	}{
		{"standard", apiserver.Options{}, 124, 62},
		{"chosen", apiserver.Options{MaxInFlight: 3, MaxMutatingInFlight: 2}, 2, 1},
		{"none", apiserver.Options{MaxInFlight: -1, MaxMutatingInFlight: -1}, 600, 600},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				test.options.Paths = map[string]http.Handler{"/hold": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })}
				s := newServer(t, test.options)
				var clients sync.WaitGroup
				var mu sync.Mutex
				codes := map[string]map[int]int{"GET": {}, "POST": {}}
				for method := range codes {
					for range 600 {
						clients.Go(func() {
							w := call(s, "ann", method, "/hold")
							mu.Lock()
							defer mu.Unlock()
							codes[method][w.Code]++
						})
					}
				}
				synctest.Wait()
				mu.Lock()
				if codes["GET"][429] != 600-test.readOnly || codes["POST"][429] != 600-test.write {
					t.Errorf("refused: %v", codes)
				}
				mu.Unlock()
				full(t, s, test.readOnly < 600)
				close(release)
				clients.Wait()
				if codes["GET"][200] != test.readOnly || codes["POST"][200] != test.write {
					t.Errorf("in the end: %v", codes)
				}
				if w := call(s, "ann", "GET", "/hold"); w.Code != 200 {
					t.Errorf("afterwards: %d", w.Code)
				}
			})
		})
	}
}

// full asks while ann has her share: in upstream's words she is not let in, but for long-running requests and those of this
// process. Others are, and masters.
func full(t *testing.T, s *apiserver.Server, full bool) {
	t.Helper()
	if w := call(s, "ann", "GET", "/version"); full && (w.Code != 429 || w.Header().Get("Retry-After") != "1" || w.Body.String() != "Too many requests, please try again later.\n") {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	for _, method := range []string{"GET", "POST"} {
		if w := call(s, "bob", method, "/hold"); w.Code != 403 {
			t.Errorf("somebody else: %d", w.Code)
		}
	}
	if w := call(s, "root", "GET", "/version"); w.Code != 200 {
		t.Errorf("a master: %d", w.Code)
	}
	if w := call(s, "ann", "GET", "/debug/pprof/nothing"); w.Code != 404 {
		t.Errorf("a long-running request: %d", w.Code)
	}
	transport := apiserver.NewTransport(s, nil)
	defer transport.Close()
	r := httptest.NewRequest(http.MethodGet, "http://keelson/version", nil)
	r.Header.Set("Authorization", "Bearer ann")
	if resp, err := transport.RoundTrip(r); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("in process: %v %v", resp, err)
	}
}

// TestLevels: what is kept for whom is told by who they are and what they ask, as upstream's default flow schemas have it.
func TestLevels(t *testing.T) {
	const lease, node, pods = "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", "/api/v1/nodes/n", "/api/v1/pods"
	tests := []struct {
		name, user, group, path string
		code                    int // when people have all that they get
	}{
		{"another user", "ann", "", pods, 429},
		{"an account of the same namespace", "system:serviceaccount:ns:b", "system:serviceaccounts", pods, 429},
		{"an account of another", "system:serviceaccount:other:a", "system:serviceaccounts", pods, 404},
		{"an account of the cluster", "system:serviceaccount:kube-system:a", "system:serviceaccounts", pods, 404},
		{"its lease", "system:serviceaccount:kube-system:a", "system:serviceaccounts", lease, 404},
		{"the scheduler", "system:kube-scheduler", "", pods, 404},
		{"the controllers", "system:kube-controller-manager", "", pods, 404},
		{"a node", "system:node:n", authn.GroupNodes, pods, 404},
		{"a node of itself", "system:node:n", authn.GroupNodes, node + "/status", 404},
		{"a master", "me", authn.GroupMasters, pods, 404},
		{"a stranger", authn.Anonymous, authn.GroupUnauthenticated, pods, 404},
		{"a probe", "ann", "", "/readyz", 200},
		{"what is nearly a probe", "ann", "", "/readyz/etcd", 429},
		{"who only looks like a node", "system:node:n", "", pods, 429},
		{"who only looks like an account", "system:serviceaccount:kube-system", "", pods, 429},
	}
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r, err := registry.New(memory.New(memory.Options{}), nil, registry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := apiserver.New(r, apiserver.Options{
			Authenticator: authn.Func(func(r *http.Request) (*authn.Identity, error) {
				id := &authn.Identity{Name: r.Header.Get("User")}
				if group := r.Header.Get("Group"); group != "" {
					id.Groups = []string{group}
				}
				return id, nil
			}),
			Authorizer: alwaysallow.New(),
			Paths: map[string]http.Handler{
				"/readyz": says("ok"), "/readyz/etcd": says("ok"),
				"/hold": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }),
			},
		})
		var holding sync.WaitGroup
		hold := func(user, group string) {
			holding.Go(func() { call(s, "", "GET", "/hold", "User", user, "Group", group) })
		}
		for i := range 20 {
			for range 200 {
				hold(fmt.Sprint("user", i), "")
			}
			synctest.Wait()
		}
		for range 200 {
			hold("system:serviceaccount:ns:a", "system:serviceaccounts")
		}
		synctest.Wait()
		for _, test := range tests {
			if w := call(s, "", "GET", test.path, "User", test.user, "Group", test.group); w.Code != test.code {
				t.Errorf("%s: %d %s, want %d", test.name, w.Code, w.Body, test.code)
			}
		}
		close(release)
		holding.Wait()
	})
}

// TestStrangers: those who have not authenticated have a small share together, unless nobody does.
func TestStrangers(t *testing.T) {
	for _, c := range []struct {
		authenticator authn.Authenticator
		want          int
	}{
		{authn.Func(func(r *http.Request) (*authn.Identity, error) {
			return &authn.Identity{Name: r.RemoteAddr, Groups: []string{authn.GroupUnauthenticated}}, nil
		}), 8},
		{nil, 124},
	} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			r, err := registry.New(memory.New(memory.Options{}), nil, registry.Options{})
			if err != nil {
				t.Fatal(err)
			}
			s := apiserver.New(r, apiserver.Options{Authenticator: c.authenticator, Authorizer: alwaysallow.New(), Paths: map[string]http.Handler{
				"/hold": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }),
			}})
			var clients sync.WaitGroup
			var let atomic.Int64
			for i := range 200 {
				clients.Go(func() {
					q := from("", "GET", "/hold")
					q.RemoteAddr = fmt.Sprint("192.0.2.1:", i)
					w := httptest.NewRecorder()
					if s.ServeHTTP(w, q); w.Code == http.StatusOK {
						let.Add(1)
					}
				})
			}
			synctest.Wait()
			close(release)
			clients.Wait()
			if n := int(let.Load()); n != c.want {
				t.Errorf("%d strangers were let in at once, want %d", n, c.want)
			}
		})
	}
}
