package x509_test

import (
	"crypto/tls"
	stdx509 "crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/pki"
)

// The user of a client certificate. A request by hand takes the place of a TLS connection.
func Example() {
	ca, err := pki.New("cluster")
	if err != nil {
		fmt.Println(err)
		return
	}
	pair, err := ca.Issue(pki.Subject{Name: "ann", Groups: []string{"dev", "ops"}}, time.Hour)
	if err != nil {
		fmt.Println(err)
		return
	}
	certificate, err := pair.TLS()
	if err != nil {
		fmt.Println(err)
		return
	}
	auth := x509.New(x509.Static{Roots: ca.Pool()})

	r := httptest.NewRequest(http.MethodGet, "/api", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*stdx509.Certificate{certificate.Leaf}}
	id, err := auth.Authenticate(r)
	fmt.Println(id.Name, id.Groups, err)
	// Output: ann [dev ops] <nil>
}
