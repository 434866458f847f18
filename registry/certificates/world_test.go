package certificates_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newKey returns a key that is made quickly.
func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// asking returns a request in PKCS#10.
func asking(t *testing.T, key crypto.Signer, name string) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// certified returns a certificate of the key by itself.
func certified(t *testing.T, key crypto.Signer, changes ...func(*x509.Certificate)) []byte {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a"}, NotBefore: now, NotAfter: now.Add(2 * time.Hour),
		BasicConstraintsValid: true,
	}
	for _, change := range changes {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func isCA(c *x509.Certificate) { c.IsCA = true }

func signing(t *testing.T) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: block("CERTIFICATE REQUEST", asking(t, newKey(t), "a")), SignerName: "example.com/ca",
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}
}

func bundle(t *testing.T) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "example.com:ca:b"},
		Spec: certificatesv1.ClusterTrustBundleSpec{
			SignerName: "example.com/ca", TrustBundle: string(block("CERTIFICATE", certified(t, newKey(t), isCA))),
		},
	}
}

func ofPod(t *testing.T, key crypto.Signer) *certificatesv1.PodCertificateRequest {
	return &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/ca", PodName: "p", PodUID: "p1", ServiceAccountName: "a", ServiceAccountUID: "a1",
			NodeName: "n", NodeUID: "n1", MaxExpirationSeconds: new(int32(86400)), StubPKCS10Request: asking(t, key, ""),
		},
	}
}

// times is a string so many times.
func times(s string, n int) string { return strings.Repeat(s, n) }

// kubelets returns a kubelet's request in PEM, for a server if there are hosts.
func kubelets(t *testing.T, hosts ...string) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}, DNSNames: hosts,
	}, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return block("CERTIFICATE REQUEST", der)
}
