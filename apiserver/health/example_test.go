package health_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/keelson-dev/keelson/apiserver/health"
)

// The handlers are for apiserver.Options.Paths.
func Example() {
	handlers := health.New(health.Options{Checks: []health.Check{
		health.Storage("storage", func(context.Context) error { return errors.New("disk full") }),
	}})
	for _, path := range []string{"/livez", "/livez/storage"} {
		w := httptest.NewRecorder()
		handlers[path].ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 500 [+]ping ok
	// [-]storage failed: reason withheld
	// livez check failed
	//
	// 500 internal server error: disk full
}
