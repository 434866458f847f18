package x509_test

import (
	"crypto/tls"
	stdx509 "crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/keelson-dev/keelson/authn/x509"
)

func Example() {
	ca := newAuthority("cluster")
	auth := x509.New(x509.Static{Roots: ca.pool()})

	r := httptest.NewRequest(http.MethodGet, "/api", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*stdx509.Certificate{ca.issue(subject{name: "ann", groups: []string{"dev", "ops"}})}}
	id, err := auth.Authenticate(r)
	fmt.Println(id.Name, id.Groups, err)
	// Output: ann [dev ops] <nil>
}
