package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/metrics"
)

// Metrics are both the server's observer and one of its paths:
//
//	apiserver.New(reg, apiserver.Options{Observer: m, Paths: map[string]http.Handler{"/metrics": m}})
//
// Here an observation is told by hand.
func Example() {
	m, err := metrics.New(metrics.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
	q := apiserver.ParseRequest(r)
	o := &apiserver.Observation{Method: r.Method, URL: r.URL, Request: &q, Endpoint: "/healthz", Began: true, Code: 200}
	o.Access.Authorization = "allowed"
	m.Observe(apiserver.Began, o)
	m.Observe(apiserver.Ended, o)

	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "apiserver_request_total") {
			fmt.Print(line)
		}
	}
	// Output: apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/healthz",verb="GET",version=""} 1
}
