package aggregator_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/aggregator"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/pki"
)

type services map[string]*apiregistrationv1.APIService

func (s services) Get(_, name string) (*apiregistrationv1.APIService, bool) {
	found, ok := s[name]
	return found, ok
}

type resolver string

func (r resolver) Resolve(_ context.Context, namespace, name string, port int32) (string, error) {
	if r == "" {
		return "", fmt.Errorf("no port %d of %s in %s", port, name, namespace)
	}
	return string(r), nil
}

func service(change ...func(s *apiregistrationv1.APIService)) services {
	s := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "example.com", Version: "v1", GroupPriorityMinimum: 2000, VersionPriority: 10, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "ns", Name: "api"},
		},
		Status: apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{{Type: "Available", Status: "True"}}},
	}
	for _, c := range change {
		c(s)
	}
	return services{s.Name: s}
}

var version = schema.GroupVersion{Group: "example.com", Version: "v1"}

// front serves what an aggregator forwards, as ann.
func front(t *testing.T, a *aggregator.Aggregator) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := &authn.Identity{Name: "ann", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"example.com/scope": {"x"}}}
		a.Delegate(version).ServeHTTP(w, r.WithContext(authn.NewContext(r.Context(), id)))
	}))
	t.Cleanup(func() { s.Close(); a.Close() })
	return s
}

func backend(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func address(s *httptest.Server) resolver { return resolver(s.Listener.Addr().String()) }

// TestForward: the server learns whose request it is, only from the proxy, and the client gets its answer.
func TestForward(t *testing.T) {
	authority, err := pki.New("front-proxy-ca")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{Name: "front-proxy-client"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	behind := backend(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintln(w, r.Method, r.URL.RequestURI(), r.TLS.PeerCertificates[0].Subject.CommonName, r.TLS.ServerName)
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			if strings.HasPrefix(name, "X-Remote") || name == "Authorization" || name == "X-Forwarded-Uri" {
				fmt.Fprintln(w, name, r.Header[name])
			}
		}
		_, _ = io.Copy(w, r.Body)
	})
	a := aggregator.New(service(), address(behind), aggregator.Options{Certificate: func() (*tls.Certificate, error) { return &certificate, nil }})
	s := front(t, a)
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+"/apis/example.com/v1/namespaces/d/things/a%2Fb?x=y%20z", strings.NewReader("body"))
	for name, value := range map[string]string{
		"X-Remote-User": "root", "X-Remote-Group": "system:masters", "X-Remote-Uid": "0", "X-Remote-Extra-Evil": "1",
		"X-Remote-Extra-Example.com%2fscope": "all", "Authorization": "Bearer secret",
	} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, _ := io.ReadAll(resp.Body)
	want := `PUT /apis/example.com/v1/namespaces/d/things/a%2Fb?x=y%20z front-proxy-client api.ns.svc
X-Forwarded-Uri [/apis/example.com/v1/namespaces/d/things/a/b]
X-Remote-Extra-Example.com%2fscope [x]
X-Remote-Group [a b]
X-Remote-Uid [7]
X-Remote-User [ann]
body`
	if resp.StatusCode != http.StatusTeapot || string(got) != want {
		t.Errorf("%d\n%s", resp.StatusCode, got)
	}
}

// TestRefused: what keeps a request from being forwarded, in upstream's words.
func TestRefused(t *testing.T) {
	behind := backend(t, func(http.ResponseWriter, *http.Request) {})
	gone := backend(t, nil)
	gone.Close()
	verified := func(s *apiregistrationv1.APIService) {
		s.Spec.InsecureSkipTLSVerify = false
		s.Spec.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: behind.Certificate().Raw})
	}
	for name, test := range map[string]struct {
		of   services
		at   resolver
		code int
		text string
	}{
		"forwarded":     {service(), address(behind), 200, ""},
		"not available": {service(func(s *apiregistrationv1.APIService) { s.Status.Conditions[0].Status = "False" }), address(behind), 503, "service unavailable\n"},
		"not looked at": {service(func(s *apiregistrationv1.APIService) { s.Status.Conditions = nil }), address(behind), 503, "service unavailable\n"},
		"no endpoint":   {service(), "", 503, "service unavailable\n"},
		"nobody":        {service(), address(gone), 503, "error trying to reach service: dial tcp " + string(address(gone)) + ": connect: connection refused\n"},
		"another name":  {service(verified), address(behind), 503, "error trying to reach service: tls: failed to verify certificate: x509: certificate is valid for example.com, *.example.com, not api.ns.svc\n"},
		"bad bundle": {service(func(s *apiregistrationv1.APIService) { s.Spec.CABundle = []byte("x") }), address(behind), 500,
			"unable to load root certificates: unable to parse bytes as PEM block\n"},
	} {
		s := front(t, aggregator.New(test.of, test.at, aggregator.Options{}))
		resp, err := http.Get(s.URL + "/apis/example.com/v1")
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != test.code || string(got) != test.text {
			t.Errorf("%s: %d %q", name, resp.StatusCode, got)
		}
	}
	local := service(func(s *apiregistrationv1.APIService) { s.Spec.Service = nil })
	a := aggregator.New(local, address(behind), aggregator.Options{})
	if a.Delegate(version) != nil || a.Delegate(schema.GroupVersion{Group: "example.com", Version: "v2"}) != nil {
		t.Error("what no service serves is delegated")
	}
}

// TestStreams: events of a watch arrive one by one, and connections can be upgraded.
func TestStreams(t *testing.T) {
	next := make(chan struct{})
	behind := backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "echo" {
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"+r.Header.Get("X-Remote-User")+"\n")
			line, _ := buffered.ReadString('\n')
			_, _ = io.WriteString(conn, line)
			return
		}
		for i := range 3 {
			fmt.Fprintln(w, "event", i)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	s := front(t, aggregator.New(service(), address(behind), aggregator.Options{}))
	resp, err := http.Get(s.URL + "/apis/example.com/v1/things?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for i := range 3 {
		if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintln("event", i) {
			t.Errorf("%q, %v", line, err)
		}
		next <- struct{}{}
	}
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /apis/example.com/v1/things/a/exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", answer, err)
	}
	_, _ = io.WriteString(conn, "hello\n")
	for _, want := range []string{"ann\n", "hello\n"} {
		if line, err := reader.ReadString('\n'); line != want {
			t.Errorf("%q, %v", line, err)
		}
	}
}

// local is a server in this process.
type local func(r *http.Request) (*http.Response, error)

func (l local) RoundTrip(r *http.Request) (*http.Response, error) { return l(r) }

func answer(code int, media string, body io.Reader) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(body)}
}

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

func withLocal(of services, l local) *aggregator.Aggregator {
	return aggregator.New(of, resolver(""), aggregator.Options{
		Local: func(string, string) http.RoundTripper { return l }, MaxAnswer: 10000,
	})
}

// endless is a body without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestHostile: a server that answers too much, too late or nonsense is stale, soon, and what it said before is kept.
func TestHostile(t *testing.T) {
	good := `{"items":[{"metadata":{"name":"example.com"},"versions":[{"version":"v1","resources":[{"resource":"things","scope":"Cluster"}]}]}]}`
	for name, bad := range map[string]local{
		"huge": func(*http.Request) (*http.Response, error) {
			return answer(200, aggregated, io.MultiReader(strings.NewReader(good), endless{})), nil
		},
		"slow": func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
		"invalid": func(*http.Request) (*http.Response, error) {
			return answer(200, aggregated, strings.NewReader(`{"items":7}`)), nil
		},
		"legacy": func(*http.Request) (*http.Response, error) {
			return answer(200, "application/json", strings.NewReader(`[]`)), nil
		},
		"failing": func(*http.Request) (*http.Response, error) { return answer(503, "", http.NoBody), nil },
		"missing": func(*http.Request) (*http.Response, error) { return answer(404, "", http.NoBody), nil },
		"elsewhere": func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != "api.ns.svc" {
				t.Errorf("it was asked at %s", r.URL)
			}
			resp := answer(302, "", http.NoBody)
			resp.Header.Set("Location", "https://example.org/")
			return resp, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := local(func(*http.Request) (*http.Response, error) {
					return answer(200, aggregated, strings.NewReader(good)), nil
				})
				a := withLocal(service(), func(r *http.Request) (*http.Response, error) { return now(r) })
				if err := a.Refresh(t.Context(), "v1.example.com"); err != nil {
					t.Fatal(err)
				}
				before := a.Delegated()
				if v := before.Versions[0].Discovery; v.Freshness != apidiscovery.DiscoveryFreshnessCurrent || len(v.Resources) != 1 || v.Resources[0].ResponseKind == nil {
					t.Errorf("at first: %+v", v)
				}
				if err := a.Refresh(t.Context(), "v1.example.com"); err != nil || a.Delegated() != before {
					t.Errorf("nothing has changed: %v", err)
				}
				now = bad
				began := time.Now()
				if err := a.Refresh(t.Context(), "v1.example.com"); err == nil {
					t.Error("no error")
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				if v := a.Delegated().Versions[0].Discovery; v.Freshness != apidiscovery.DiscoveryFreshnessStale || len(v.Resources) != 1 {
					t.Errorf("then: %+v", v)
				}
			})
		})
	}
}

// TestCheck: one of five answers suffices.
func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := make(chan int, 5)
		fill := func() {
			for i := range 5 {
				turn <- i
			}
		}
		of := service()
		s := of["v1.example.com"]
		a := withLocal(of, func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("X-Remote-User") != "system:kube-aggregator" || r.Header.Get("X-Remote-Group") != "system:masters" {
				t.Errorf("asked with %v", r.Header)
			}
			switch <-turn {
			case 3:
				return answer(200, "", http.NoBody), nil
			case 4:
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return answer(500, "", http.NoBody), nil
		})
		fill()
		if err := a.Check(t.Context(), s); err != nil {
			t.Error(err)
		}
		a = withLocal(of, func(*http.Request) (*http.Response, error) { return nil, errors.New("broken") })
		const at = "https://api.ns.svc/apis/example.com/v1"
		if err := a.Check(t.Context(), s); err == nil || err.Error() != `failing or missing response from `+at+`: Get "`+at+`": broken` {
			t.Error(err)
		}
		a = aggregator.New(of, resolver(""), aggregator.Options{})
		if err := a.Check(t.Context(), s); err == nil || err.Error() != "no port 443 of api in ns" {
			t.Error(err)
		}
	})
}

// TestOpenAPI: the index lists what other servers document, under the version that is theirs, and nothing else.
func TestOpenAPI(t *testing.T) {
	a := withLocal(service(), func(r *http.Request) (*http.Response, error) {
		switch r.URL.Path {
		case "/apis":
			return answer(200, aggregated, strings.NewReader("{}")), nil
		case "/openapi/v3":
			return answer(200, "application/json", strings.NewReader(`{"paths":{"apis/example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/example.com/v1?hash=1"},"apis/apps/v1":{"serverRelativeURL":"/evil"}}}`)), nil
		}
		return answer(200, "application/json", strings.NewReader("document of "+r.URL.RequestURI()+" for "+r.Header.Get("X-Remote-User"))), nil
	})
	if err := a.Refresh(t.Context(), "v1.example.com"); err != nil {
		t.Fatal(err)
	}
	text := func(s string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) })
	}
	paths := map[string]http.Handler{"/openapi/v3": text(`{"paths":{"apis/apps/v1":{"serverRelativeURL":"own"}}}`), "/openapi/v3/": text("own")}
	a.OpenAPI(paths)
	get := func(pattern, path string) string {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		paths[pattern].ServeHTTP(w, r.WithContext(authn.NewContext(r.Context(), &authn.Identity{Name: "ann"})))
		return w.Body.String()
	}
	if got, want := get("/openapi/v3", "/openapi/v3"), `{"paths":{"apis/apps/v1":{"serverRelativeURL":"own"},"apis/example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/example.com/v1?hash=1"}}}`; got != want {
		t.Errorf("index %s", got)
	}
	if got, want := get("/openapi/v3/", "/openapi/v3/apis/example.com/v1?hash=1"), "document of /openapi/v3/apis/example.com/v1?hash=1 for system:aggregator"; got != want {
		t.Errorf("%q", got)
	}
	if got := get("/openapi/v3/", "/openapi/v3/apis/apps/v1"); got != "own" {
		t.Errorf("%q", got)
	}
}

// FuzzDiscovery: whatever a server says of itself, discovery can be shown, and is of its version.
func FuzzDiscovery(f *testing.F) {
	for _, body := range []string{
		`{"items":[{"metadata":{"name":"example.com"},"versions":[{"version":"v1","resources":[{"resource":"things","subresources":[{}]}]}]}]}`,
		`{"resources":[{"name":"things/status"},{"name":"things"},{"name":"things/status","verbs":[""]}]}`, `{"items":[{"versions":[{}]}]}`, `[`, `null`,
	} {
		f.Add(body, true)
		f.Add(body, false)
	}
	f.Fuzz(func(t *testing.T, body string, form bool) {
		media := "application/json"
		if form {
			media = aggregated
		}
		a := withLocal(service(), func(*http.Request) (*http.Response, error) { return answer(200, media, strings.NewReader(body)), nil })
		err := a.Refresh(t.Context(), "v1.example.com")
		d := a.Delegated()
		if len(d.Versions) != 1 || d.Versions[0].Discovery.Version != "v1" || d.Versions[0].Group != "example.com" {
			t.Fatalf("%+v", d)
		}
		v := d.Versions[0].Discovery
		if (err == nil) != (v.Freshness == apidiscovery.DiscoveryFreshnessCurrent) {
			t.Errorf("%v, %s", err, v.Freshness)
		}
		for _, r := range v.Resources {
			if r.ResponseKind == nil {
				t.Errorf("a resource without a kind: %+v", r)
			}
		}
		if _, err := json.Marshal(&apidiscovery.APIGroupDiscoveryList{Items: []apidiscovery.APIGroupDiscovery{{Versions: []apidiscovery.APIVersionDiscovery{v}}}}); err != nil {
			t.Error(err)
		}
	})
}

var _ apiserver.Delegates = (*aggregator.Aggregator)(nil)
