package basic_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/keelson-dev/keelson/authn/basic"
)

func Example() {
	users, err := basic.Parse(strings.NewReader(`s3cret,ann,u-17,"dev,ops"`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest(http.MethodGet, "/api", nil)
	r.SetBasicAuth("ann", "s3cret")
	id, err := basic.New(users).Authenticate(r)
	fmt.Println(id.Name, id.UID, id.Groups, err)
	// Output: ann u-17 [dev ops] <nil>
}
