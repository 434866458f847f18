package zpages_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/apiserver/zpages"
)

func ask(h http.Handler, accept string) (code int, media, body string, warning string) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Content-Type"), w.Body.String(), w.Header().Get("Warning")
}

const header = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n"

func TestStatusz(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := zpages.Statusz(zpages.Status{
			Component: "apiserver", Version: "1.37.1", Started: time.Now(),
			Paths: []string{"/readyz/ping", "/metrics", "/metrics/slis", "/api/", "/apis/", "/openapi/v3", "/openid/v1/jwks", "/.well-known/openid-configuration", "/", "", "/readyz"},
		})
		time.Sleep(25*time.Hour + 3*time.Minute + 4*time.Second)
		text := "\napiserver statusz\n" + header + "\nStarted: Sat Jan  1 00:00:00 UTC 2000\nUp: 25 hr 03 min 04 sec\nGo version: " + runtime.Version() +
			"\nBinary version: 1.37.1\nEmulation version: 1.37\nPaths: /metrics /readyz\n"
		object := func(version string) string {
			return fmt.Sprintf(`{"apiVersion":"config.k8s.io/%s","binaryVersion":"1.37.1","emulationVersion":"1.37","goVersion":"%s","kind":"Statusz","metadata":{"name":"apiserver"},`+
				`"paths":["/metrics","/readyz"],"startTime":"2000-01-01T00:00:00Z","uptimeSeconds":90184}`, version, runtime.Version())
		}
		for accept, want := range map[string]string{
			"": text, "*/*": text, "text/plain": text, "text/*": text, "text/html, */*;q=0.1": text,
			"application/json;v=v1beta1;g=config.k8s.io;as=Statusz": object("v1beta1"), "application/json;v=v1alpha1;g=config.k8s.io;as=Statusz": object("v1alpha1"), "*/*;v=v1beta1;g=config.k8s.io;as=Statusz": object("v1beta1"),
			"application/json;v=v1;g=config.k8s.io;as=Statusz, text/plain;q=0.5": text,
		} {
			if code, _, body, warning := ask(h, accept); code != http.StatusOK || body != want || (warning != "") != strings.Contains(accept, "alpha") {
				t.Errorf("%q: %d %s %s", accept, code, body, warning)
			}
		}
		if _, media, body, _ := ask(h, "application/yaml;v=v1beta1;g=config.k8s.io;as=Statusz"); media != "application/yaml" || !strings.Contains(body, "\nkind: Statusz\n") {
			t.Errorf("%s %s", media, body)
		}
	})
}

func TestFlagz(t *testing.T) {
	flags := map[string]string{"v": "2", "nodes": "3", "empty": ""}
	h := zpages.Flagz("apiserver", flags)
	flags["nodes"] = "later"
	if code, media, body, _ := ask(h, ""); code != http.StatusOK || media != "text/plain; charset=utf-8" || body != "\napiserver flagz\n"+header+"empty=\nnodes=3\nv=2\n" {
		t.Errorf("%d %s %s", code, media, body)
	}
	want := `{"apiVersion":"config.k8s.io/v1beta1","flags":{"empty":"","nodes":"3","v":"2"},"kind":"Flagz","metadata":{"name":"apiserver"}}`
	if code, media, body, _ := ask(h, "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"); code != http.StatusOK || media != "application/json" || body != want {
		t.Errorf("%d %s %s", code, media, body)
	}
	for _, accept := range []string{
		"application/json", "application/yaml", "image/png", "application/json;v=v1;g=config.k8s.io;as=Flagz", "application/json;v=v1beta1;g=apps;as=Flagz", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz",
		"application/vnd.kubernetes.protobuf;v=v1beta1;g=config.k8s.io;as=Flagz", "text/plain;v=v1beta1;g=config.k8s.io;as=Flagz",
	} {
		if code, _, body, _ := ask(h, accept); code != http.StatusNotAcceptable || !strings.Contains(body, `"message":"only the following media types are accepted: application/json, application/yaml, text/plain"`) {
			t.Errorf("%q: %d %s", accept, code, body)
		}
	}
}

// A server serves them beside its API.
func Example() {
	paths := map[string]http.Handler{ // apiserver.Options.Paths, for example
		"/statusz": zpages.Statusz(zpages.Status{Component: "apiserver", Version: "1.37.1", Started: time.Now()}),
		"/flagz":   zpages.Flagz("apiserver", map[string]string{"nodes": "3"}),
	}
	w := httptest.NewRecorder()
	paths["/flagz"].ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/flagz", nil))
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	fmt.Println(lines[0], lines[len(lines)-1])
	// Output: apiserver flagz nodes=3
}
