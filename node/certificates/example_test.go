package certificates_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/node/certificates"
)

// signer is an API server that signs at once.
type signer struct {
	r *certificatesv1.CertificateSigningRequest
}

func (s *signer) Create(_ context.Context, _ client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	s.r = obj.(*certificatesv1.CertificateSigningRequest)
	block, _ := pem.Decode(s.r.Spec.Request)
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: asked.Subject, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, asked.PublicKey, key)
	if err != nil {
		return nil, err
	}
	s.r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
	return s.r, nil
}

func (s *signer) Get(context.Context, client.Target) (runtime.Object, error) { return s.r, nil }

// A node gets the certificate by which the API server knows it.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	c, err := certificates.Open(filepath.Join(dir, "client.pem"), &signer{}, certificates.ForClient("node-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.Renew(context.Background()); err != nil { // Run does it whenever it is due
		fmt.Println(err)
		return
	}
	now, err := c.Current()
	fmt.Println(now.Leaf.Subject, err)
	// Output: CN=system:node:node-1,O=system:nodes <nil>
}
