package etcd_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-dev/keelson/internal/etcdtest"
)

// TestBeside lets both serve one etcd at the same time.
func TestBeside(t *testing.T) {
	set := newSettings(t, etcdtest.Start(t, etcdtest.Options{}).Endpoint(0))
	set.network, set.ports = "10.0.0.0/27", "30000-30023"
	upstream := startUpstream(t, set)
	keelson := startKeelson(t, set)
	upstream.must(t, http.MethodPost, "/api/v1/namespaces", asJSON, []byte(`{"metadata":{"name":"ns"}}`))

	whole := t // for what outlives the subtest that starts it
	t.Run("Endpoints", func(t *testing.T) {
		for _, s := range []*server{upstream, keelson} {
			s.awaitEndpoints(t, set.upstream+","+set.keelson)
		}
		settled(t, set)
		keelson.stop(t)
		upstream.awaitEndpoints(t, set.upstream)
		keelson = startKeelson(whole, set)
		upstream.awaitEndpoints(t, set.upstream+","+set.keelson)
	})
	t.Run("Watches", func(t *testing.T) { testWatches(t, upstream, keelson) })
	t.Run("Services", func(t *testing.T) { testServices(t, upstream, keelson) })
	t.Run("Crash", func(t *testing.T) {
		upstream.kill(t)
		keelson.awaitEndpoints(t, set.keelson)
	})
}

// endpoints returns the addresses of the service kubernetes, if both forms of them agree.
func (s *server) endpoints(t *testing.T) string {
	t.Helper()
	code, data := s.do(t, http.MethodGet, "/api/v1/namespaces/default/endpoints/kubernetes", "", nil)
	if code != http.StatusOK {
		return ""
	}
	var one, two []string
	for _, subset := range items(decode(t, data), "subsets") {
		for _, a := range items(subset, "addresses") {
			one = append(one, text(a, "ip"))
		}
	}
	slice := decode(t, s.get(t, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"))
	for _, e := range items(slice, "endpoints") {
		two = append(two, fmt.Sprint(field(e, "addresses").([]any)...))
	}
	if !slices.Equal(one, two) {
		return fmt.Sprintf("Endpoints %v, slice %v", one, two)
	}
	return strings.Join(one, ",")
}

func items(obj map[string]any, path ...string) []map[string]any {
	list, ok := field(obj, path...).([]any)
	if !ok {
		return nil
	}
	var out []map[string]any
	for _, v := range list {
		out = append(out, v.(map[string]any))
	}
	return out
}

// awaitEndpoints waits until a server serves these endpoints.
func (s *server) awaitEndpoints(t *testing.T, want string) {
	t.Helper()
	eventually(t, func() string {
		if got := s.endpoints(t); got != want {
			return fmt.Sprintf("%s: endpoints %s, want %s", s.name, got, want)
		}
		return ""
	})
}

// settled checks that nobody writes the endpoints while both check them several times.
func settled(t *testing.T, set settings) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{set.etcd}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	renewals := map[string]int{}
	for answer := range client.Watch(ctx, "/registry/", clientv3.WithPrefix()) {
		for _, e := range answer.Events {
			switch key := string(e.Kv.Key); {
			case strings.HasPrefix(key, "/registry/masterleases/"):
				renewals[key]++
			case strings.Contains(key, "/default/kubernetes"):
				t.Errorf("%s was written: %q", key, e.Kv.Value)
			}
		}
		if len(renewals) == 2 && min(slices.Min(slices.Collect(maps.Values(renewals))), 3) == 3 {
			return
		}
	}
	t.Errorf("leases were renewed so often only: %v", renewals)
}

// testWatches checks that watches of both deliver the same events, whoever wrote.
func testWatches(t *testing.T, upstream, keelson *server) {
	since := text(decode(t, upstream.get(t, "/api/v1/namespaces/ns/configmaps")), "metadata", "resourceVersion")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var watches []*watch
	for _, s := range []*server{upstream, keelson} {
		for _, path := range []string{"/api/v1/configmaps", "/api/v1/namespaces/ns/configmaps?labelSelector=a%3Db", "/apis/events.k8s.io/v1/events?fieldSelector=metadata.name!%3Dhidden"} {
			watches = append(watches, s.watch(ctx, t, path, since))
		}
	}
	for round := range 3 {
		for _, s := range []*server{upstream, keelson} {
			name := fmt.Sprintf("%s-%d", s.name, round)
			at := "/api/v1/namespaces/ns/configmaps"
			s.must(t, http.MethodPost, at, asJSON, []byte(`{"metadata":{"name":"`+name+`","labels":{"a":"b"},"finalizers":["a/b"]},"data":{"x":"y"}}`))
			s.must(t, http.MethodPatch, at+"/"+name, asMerge, []byte(`{"metadata":{"labels":{"a":"c"}}}`))
			s.must(t, http.MethodPatch, at+"/"+name, asMerge, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
			s.must(t, http.MethodDelete, at+"/"+name, "", nil)
			s.must(t, http.MethodPatch, at+"/"+name, asMerge, []byte(`{"metadata":{"finalizers":null}}`))
			for _, event := range []string{"hidden", "shown-"} {
				s.must(t, http.MethodPost, "/api/v1/namespaces/ns/events", asJSON, []byte(`{"metadata":{"generateName":"`+event+`"},"involvedObject":{"namespace":"ns"},"reason":"R"}`))
			}
		}
	}
	for _, s := range []*server{upstream, keelson} {
		s.must(t, http.MethodPost, "/api/v1/namespaces/ns/configmaps", asJSON, []byte(`{"metadata":{"name":"last-`+s.name+`","labels":{"a":"b"}}}`))
		s.must(t, http.MethodPost, "/api/v1/namespaces/ns/events", asJSON, []byte(`{"metadata":{"name":"last-`+s.name+`"},"involvedObject":{"namespace":"ns"}}`))
	}
	for i, w := range watches[:len(watches)/2] {
		want, got := w.until(t, "last-keelson"), watches[len(watches)/2+i].until(t, "last-keelson")
		for n := range max(len(want), len(got)) {
			if n >= len(want) || n >= len(got) || want[n] != got[n] {
				t.Errorf("%s: event %d of %d and %d:\nupstream %s\nkeelson  %s", w.path, n, len(want), len(got), at(want, n), at(got, n))
				break
			}
		}
		t.Logf("%s: %d events are the same", w.path, len(want))
	}
}

func at(lines []string, n int) string {
	if n < len(lines) {
		return lines[n]
	}
	return "nothing"
}

// watch is an open watch.
type watch struct {
	path  string
	lines *bufio.Scanner
}

func (s *server) watch(ctx context.Context, t *testing.T, path, since string) *watch {
	t.Helper()
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	request, err := s.request(ctx, http.MethodGet, path+mark+"watch=1&resourceVersion="+since, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: watch %s: %s", s.name, path, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<22)
	return &watch{path, lines}
}

// until reads events up to that of an object.
func (w *watch) until(t *testing.T, name string) []string {
	t.Helper()
	var out []string
	for w.lines.Scan() {
		out = append(out, w.lines.Text())
		if strings.Contains(w.lines.Text(), `"name":"`+name+`"`) {
			return out
		}
	}
	t.Errorf("%s ends after %d events: %v", w.path, len(out), w.lines.Err())
	return out
}

// testServices checks that neither allocates what the other has allocated.
func testServices(t *testing.T, upstream, keelson *server) {
	both := []*server{upstream, keelson}
	count := func() (addresses, ports map[string]string) {
		addresses, ports = map[string]string{}, map[string]string{}
		for _, svc := range items(decode(t, keelson.get(t, "/api/v1/services")), "items") {
			name := text(svc, "metadata", "name")
			if ip := text(svc, "spec", "clusterIP"); addresses[ip] != "" {
				t.Errorf("%s and %s have the address %s", name, addresses[ip], ip)
			} else {
				addresses[ip] = name
			}
			for _, p := range items(svc, "spec", "ports") {
				port := fmt.Sprint(p["nodePort"])
				if port != "<nil>" && ports[port] != "" {
					t.Errorf("%s and %s have the port %s", name, ports[port], port)
				} else if port != "<nil>" {
					ports[port] = name
				}
			}
		}
		return addresses, ports
	}
	fill := func(round string) {
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				for n := 0; ; n++ {
					kind := []string{"NodePort", "ClusterIP"}[(i+n)%2]
					body := fmt.Sprintf(`{"metadata":{"name":"s%s-%d-%d"},"spec":{"type":"%s","ports":[{"port":80}]}}`, round, i, n, kind)
					code, data := both[i%2].do(t, http.MethodPost, "/api/v1/namespaces/ns/services", asJSON, []byte(body))
					if code != http.StatusCreated && !strings.Contains(string(data), "range is full") {
						t.Errorf("%s: %d %s", both[i%2].name, code, data)
					}
					if code != http.StatusCreated {
						return
					}
				}
			})
		}
		group.Wait()
	}
	const all = 30 // addresses of a /27, without that of the service kubernetes
	fill("a")
	addresses, ports := count()
	t.Logf("%d addresses and %d ports were handed out", len(addresses), len(ports))
	if len(addresses) != all && len(ports) != 24 { // whichever ended first
		t.Errorf("%d of %d addresses and %d of 24 ports were handed out when nothing was left", len(addresses), all, len(ports))
	}
	// What one has allocated the other refuses, with the same error.
	for ip := range addresses {
		same(t, both, `{"metadata":{"name":"wish"},"spec":{"clusterIP":"`+ip+`","ports":[{"port":80}]}}`)
		break
	}
	for ip, name := range addresses {
		if name == "kubernetes" {
			continue
		}
		s := both[len(ip)%2]
		s.must(t, http.MethodDelete, "/api/v1/namespaces/ns/services/"+name, "", nil)
		delete(addresses, ip)
		if len(addresses) < all/2 {
			break
		}
	}
	fill("b")
	addresses, ports = count()
	t.Logf("%d addresses and %d ports were handed out again", len(addresses), len(ports))
	for port := range ports {
		same(t, both, `{"metadata":{"name":"wish"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":`+port+`}]}}`)
		break
	}
}

// same checks that all servers refuse a service with the same error.
func same(t *testing.T, servers []*server, body string) {
	t.Helper()
	var words []string
	for _, s := range servers {
		code, data := s.do(t, http.MethodPost, "/api/v1/namespaces/ns/services", asJSON, []byte(body))
		if code/100 == 2 {
			t.Errorf("%s takes %s", s.name, body)
		}
		words = append(words, string(data))
	}
	if words[0] != words[1] {
		t.Errorf("%s\nupstream %s\nkeelson  %s", body, words[0], words[1])
	}
}
