package signingrequest_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/keelson-dev/keelson/internal/signingrequest"
)

func TestParse(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "a"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	encoded := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	if asked, err := signingrequest.Parse(encoded("CERTIFICATE REQUEST", der)); err != nil || asked.Subject.CommonName != "a" {
		t.Errorf("%v, %v", asked, err)
	}
	for name, data := range map[string][]byte{"no PEM": der, "another block": encoded("CERTIFICATE", der)} {
		if _, err := signingrequest.Parse(data); err == nil || err.Error() != "PEM block type must be CERTIFICATE REQUEST" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := signingrequest.Parse(encoded("CERTIFICATE REQUEST", der[1:])); err == nil {
		t.Error("parsed what is not a request")
	}
}

type change = func(*x509.CertificateRequest)

func usages(more ...certificatesv1.KeyUsage) []certificatesv1.KeyUsage {
	return append(more, certificatesv1.UsageDigitalSignature)
}

func TestKubelet(t *testing.T) {
	const client, server, encipher = certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth, certificatesv1.UsageKeyEncipherment
	dns := func(r *x509.CertificateRequest) { r.DNSNames = []string{"a"} }
	ip := func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(1, 2, 3, 4)} }
	email := func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b"} }
	uri := func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Host: "a"}} }
	organization := func(names ...string) change {
		return func(r *x509.CertificateRequest) { r.Subject.Organization = names }
	}
	name := func(name string) change { return func(r *x509.CertificateRequest) { r.Subject.CommonName = name } }
	for _, tt := range []struct {
		name    string
		server  bool
		changes []change
		usages  []certificatesv1.KeyUsage
		want    string
	}{
		{"client", false, nil, usages(client), ""},
		{"client with RSA", false, nil, usages(client, encipher), ""},
		{"client twice", false, nil, usages(client, client), ""},
		{"client without organization", false, []change{organization()}, usages(client), "subject organization is not system:nodes"},
		{"client of two", false, []change{organization("system:nodes", "x")}, usages(client), "subject organization is not system:nodes"},
		{"client's DNS", false, []change{dns}, usages(client), "DNS subjectAltNames are not allowed"},
		{"client's email", false, []change{email}, usages(client), "Email subjectAltNames are not allowed"},
		{"client's IP", false, []change{ip}, usages(client), "IP subjectAltNames are not allowed"},
		{"client's URI", false, []change{uri}, usages(client), "URI subjectAltNames are not allowed"},
		{"client's name", false, []change{name("a")}, usages(client), "subject common name does not begin with system:node:"},
		{"client's usages", false, nil, usages(client, server), "usages did not match [client auth digital signature key encipherment]"},
		{"client without usage", false, nil, usages(), "usages did not match [client auth digital signature key encipherment]"},
		{"server", true, []change{dns}, usages(server), ""},
		{"server with RSA", true, []change{ip}, usages(server, encipher), ""},
		{"server of others", true, []change{dns, organization("x")}, usages(server), "subject organization is not system:nodes"},
		{"server nowhere", true, nil, usages(server), "DNS or IP subjectAltName is required"},
		{"server's email", true, []change{dns, email}, usages(server), "Email subjectAltNames are not allowed"},
		{"server's URI", true, []change{dns, uri}, usages(server), "URI subjectAltNames are not allowed"},
		{"server's usages", true, []change{dns, name("x")}, usages(client), "usages did not match [digital signature key encipherment server auth]"},
		{"server's name", true, []change{dns, name("x")}, usages(server), "subject common name does not begin with system:node:"},
	} {
		asked := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}}
		for _, change := range tt.changes {
			change(asked)
		}
		check := signingrequest.KubeletClient
		if tt.server {
			check = signingrequest.KubeletServing
		}
		got := ""
		if err := check(asked, tt.usages); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func Example() {
	asked := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n"}}
	fmt.Println(signingrequest.KubeletClient(asked, nil))
	// Output: subject organization is not system:nodes
}
