package apiserver_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/apiserver"
)

// allocated is how many bytes f allocates, with whatever else runs.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAliases: what aliases expand to is bounded as what is written out is.
func TestAliases(t *testing.T) {
	config := serve(t)
	laughs := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx: &x " + strings.Repeat("x", 150<<10) +
		"\ny: [" + strings.Repeat("*x,", 50<<10) + "]\n"
	const want = `"message":"Request entity too large: YAML is too large: its aliases expand to more than 3145728 bytes;`
	for _, c := range []struct{ method, path string }{
		{http.MethodPost, "/api/v1/namespaces/default/configmaps"},
		{http.MethodPut, "/api/v1/namespaces/default/configmaps/a"},
		{http.MethodDelete, "/api/v1/namespaces/default/configmaps/a"},
		{http.MethodPost, "/api/v1/namespaces/default/pods/a/binding"},
	} {
		var code int
		var body string
		n := allocated(func() { code, _, body = do(t, config, c.method, c.path, "application/yaml", laughs) })
		if code != http.StatusRequestEntityTooLarge || !strings.Contains(body, want) || n > 64<<20 {
			t.Errorf("%s %s: %d %.300s, %d bytes allocated", c.method, c.path, code, body, n)
		}
	}
	few := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &l {a: b}, annotations: *l}\n"
	if code, _, body := do(t, config, http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/yaml", few); code != 201 || !strings.Contains(body, `"annotations":{"a":"b"}`) {
		t.Errorf("%d %s", code, body)
	}
	small := serveWith(t, apiserver.Options{MaxBody: 1000})
	if code, _, body := do(t, small, http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/yaml", "a: &a ["+strings.Repeat("1,", 100)+"]\nb: [*a,*a,*a,*a,*a,*a,*a]"); code != 413 || !strings.Contains(body, "more than 1000 bytes") {
		t.Errorf("%d %s", code, body)
	}
}
