package cluster_test

import (
	"net/http"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
)

// TestPaths: further paths are served to those who may read them, and take none of the cluster's own.
func TestPaths(t *testing.T) {
	mine := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("mine")) })
	c := start(t, cluster.Options{
		Components: []cluster.Component{},
		Server:     cluster.Server{Paths: map[string]http.Handler{"/debug/mine": mine, "/debug/mine/": mine, "/readyz": mine}},
	})
	get := func(id *authn.Identity, path string) (string, int) {
		api, err := kubernetes.NewForConfig(c.ConfigFor(id))
		if err != nil {
			t.Fatal(err)
		}
		code := 0
		text, _ := api.Discovery().RESTClient().Get().AbsPath(path).Do(t.Context()).StatusCode(&code).Raw()
		return string(text), code
	}
	somebody := &authn.Identity{Name: "somebody", Groups: []string{authn.GroupAuthenticated}}
	for _, path := range []string{"/debug/mine", "/debug/mine/a/b"} {
		if text, code := get(cluster.Admin(), path); text != "mine" || code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, text)
		}
		if text, code := get(somebody, path); code != http.StatusForbidden {
			t.Errorf("%s as somebody: %d %s", path, code, text)
		}
	}
	if text, code := get(cluster.Admin(), "/readyz"); text == "mine" || code != http.StatusOK {
		t.Errorf("/readyz: %d %s", code, text)
	}
}
