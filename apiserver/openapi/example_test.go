package openapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/storage/memory"
)

// A server serves the documents of its kinds beside its API.
func Example() {
	kinds := apps.Kinds()
	r, err := registry.New(memory.New(memory.Options{}), kinds, registry.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	documents := openapi.New(kinds, openapi.Options{Version: "v1.37.1"})
	server := apiserver.New(r, apiserver.Options{Authorizer: alwaysallow.New(), Paths: documents.Paths()})

	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi/v3/apis/apps/v1", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 application/json
}
