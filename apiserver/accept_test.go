package apiserver_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestPretty: people get JSON that is laid out, as upstream gives it to them.
func TestPretty(t *testing.T) {
	config := serve(t)
	const (
		maps  = "/api/v1/namespaces/n/configmaps"
		table = "application/json;as=Table;g=meta.k8s.io;v=v1"
	)
	ask := func(method, path, agent, accept, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, config.Host+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User-Agent", agent)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		resp, err := config.Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, test := range []struct {
		method, path, agent, accept string
		pretty                      bool
	}{
		{method: "POST", path: maps, agent: "curl/8.5.0", pretty: true},
		{path: maps + "/a", agent: "curl/8.5.0", pretty: true},
		{path: maps + "/a", agent: "Wget/1.21", pretty: true},
		{path: maps + "/a", agent: "Mozilla/5.0 (X11; Linux x86_64)", pretty: true},
		{path: maps + "/a", agent: "kubectl/v1.37.2"},
		{path: maps + "/a?pretty=1", agent: "kubectl/v1.37.2", pretty: true},
		{path: maps + "/a?pretty=true", pretty: true},
		{path: maps + "/a?pretty=maybe", agent: "curl/8.5.0"},
		{path: maps + "/a?pretty=0", agent: "curl/8.5.0"},
		{path: maps + "/a?pretty=", agent: "curl/8.5.0", pretty: true},
		{path: maps + "/a", accept: "application/json;pretty=1", pretty: true},
		{path: maps + "/a", accept: "application/json;pretty=true"},
		{path: maps, agent: "curl/8.5.0", pretty: true},
		{path: maps},
		{path: maps, agent: "curl/8.5.0", accept: table, pretty: true},
		{path: maps + "/a", agent: "curl/8.5.0", accept: table, pretty: true},
		{path: maps + "/a", agent: "curl/8.5.0", accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", pretty: true},
		{path: maps + "/nothing", agent: "curl/8.5.0", pretty: true},
		{path: maps + "/nothing"},
		{path: maps, accept: "text/html", pretty: true}, // upstream writes it without knowing the client
		{path: "/api", agent: "curl/8.5.0", pretty: true},
		{path: "/api", agent: "curl/8.5.0", accept: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", pretty: true},
		{path: "/apis/apps/v1?pretty=1", pretty: true},
		{path: "/apis/apps/v1"},
		{path: maps + "?watch=1&timeoutSeconds=1", agent: "curl/8.5.0"},
	} {
		method := test.method
		if method == "" {
			method = http.MethodGet
		}
		got := ask(method, test.path, test.agent, test.accept, `{"metadata":{"name":"a"},"data":{"k":"<v>"}}`)
		var want bytes.Buffer
		var err error
		if test.pretty {
			err = json.Indent(&want, []byte(got), "", "  ")
		} else if err = json.Compact(&want, []byte(got)); err == nil {
			want.WriteByte('\n')
		}
		if err != nil || got != want.String() {
			t.Errorf("%+v: %v\n%s", test, err, got)
		}
	}
	for _, accept := range []string{"application/yaml", "application/vnd.kubernetes.protobuf"} {
		for _, path := range []string{maps, maps + "/a"} {
			if plain, human := ask(http.MethodGet, path, "", accept, ""), ask(http.MethodGet, path, "curl/8.5.0", accept, ""); plain != human {
				t.Errorf("%s as %s: %q for machines, %q for people", path, accept, plain, human)
			}
		}
	}
}
