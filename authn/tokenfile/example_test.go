package tokenfile_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/authn/tokenfile"
)

func Example() {
	tokens, err := tokenfile.Parse(strings.NewReader(`s3cret,ann,u-17,"dev,ops"`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest(http.MethodGet, "/api", nil)
	r.Header.Set("Authorization", "Bearer s3cret")
	id, err := token.New(token.Static(tokens)).Authenticate(r)
	fmt.Println(id.Name, id.UID, id.Groups, err)
	// Output: ann u-17 [dev ops] <nil>
}
