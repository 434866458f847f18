package pki_test

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/pki"
)

// A certificate by which an API server knows its administrator.
func Example() {
	authority, err := pki.New("kubernetes")
	if err != nil {
		fmt.Println(err)
		return
	}
	admin, err := authority.Issue(pki.Subject{Name: "kubernetes-admin", Groups: []string{"system:masters"}}, 365*24*time.Hour)
	if err != nil {
		fmt.Println(err)
		return
	}
	cert, err := admin.TLS()
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = cert.Leaf.Verify(x509.VerifyOptions{Roots: authority.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	fmt.Println(cert.Leaf.Subject, err)
	// Output: CN=kubernetes-admin,O=system:masters <nil>
}
