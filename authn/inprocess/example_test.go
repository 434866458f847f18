package inprocess_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/inprocess"
)

func Example() {
	ctx := inprocess.Attach(context.Background(), &authn.Identity{Name: "system:kube-scheduler"})
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil).WithContext(ctx)
	id, err := inprocess.New().Authenticate(r)
	fmt.Println(id.Name, err)
	// Output: system:kube-scheduler <nil>
}
