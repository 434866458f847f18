package healthcheck_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/healthcheck"
)

// A Server and a Handler know from the same Health whether the proxy keeps up. Run the server beside the proxy, which is
// given both in its Options.
func Example() {
	health := proxy.NewHealth(0)
	server := healthcheck.New(health, healthcheck.Options{Node: "node-1"})
	_ = proxy.Options{Checks: server, Health: health}
	healthz := healthcheck.Handler(health, func() bool { return true })

	w := httptest.NewRecorder()
	healthz.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	fmt.Println(w.Code)
	// Output: 200
}
