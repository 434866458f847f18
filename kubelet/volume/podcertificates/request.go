package podcertificates

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
)

// ask makes a key and requests a certificate for it.
func (c *Certificates) ask(ctx context.Context, r Request) (*pending, error) {
	account, err := client.As[*corev1.ServiceAccount](c.client.Get(ctx, client.Target{
		Resource: corev1.SchemeGroupVersion.WithResource("serviceaccounts"), Namespace: r.Pod.Namespace, Name: r.Pod.Spec.ServiceAccountName,
	}))
	if err != nil {
		return nil, fmt.Errorf("while fetching service account: %w", err)
	}
	name, uid := c.node()
	if uid == "" {
		return nil, errors.New("while getting node object: the node is not registered yet")
	}
	key, stub, err := newKey(r.Projection.KeyType)
	if err != nil {
		return nil, err
	}
	request, err := client.As[*certificatesv1.PodCertificateRequest](c.client.Create(ctx, client.Target{
		Resource: certificatesv1.SchemeGroupVersion.WithResource("podcertificaterequests"), Namespace: r.Pod.Namespace,
	}, &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Pod.Namespace, GenerateName: "req-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: r.Pod.Name, UID: r.Pod.UID}},
		},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: r.Projection.SignerName, PodName: r.Pod.Name, PodUID: r.Pod.UID,
			ServiceAccountName: account.Name, ServiceAccountUID: account.UID, NodeName: types.NodeName(name), NodeUID: uid,
			MaxExpirationSeconds: r.Projection.MaxExpirationSeconds, StubPKCS10Request: stub,
			UnverifiedUserAnnotations: r.Projection.UserAnnotations,
		},
	}, metav1.CreateOptions{}))
	if err != nil {
		return nil, fmt.Errorf("while creating PodCertificateRequest: %w", err)
	}
	return &pending{request.Name, key}, nil
}

// newKey makes a key of a type that the API names. It returns the key in PEM (PKCS #8) and the request by which it proves that
// it has it, which says nothing else.
func newKey(kind string) (keyPEM, stub []byte, err error) {
	var key crypto.Signer
	switch kind {
	case "RSA3072":
		key, err = rsa.GenerateKey(rand.Reader, 3072)
	case "RSA4096":
		key, err = rsa.GenerateKey(rand.Reader, 4096)
	case "ECDSAP256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ECDSAP384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ECDSAP521":
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ED25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("unknown key type %q", kind)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("while generating keypair: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("while encoding private key: %w", err)
	}
	if stub, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key); err != nil {
		return nil, nil, fmt.Errorf("while generating stub PKCS#10 request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), stub, nil
}

// clean returns the certificates of a chain without headers and text between them.
func clean(chain string) []byte {
	var out bytes.Buffer
	for block, rest := pem.Decode([]byte(chain)); block != nil; block, rest = pem.Decode(rest) {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}))
	}
	return out.Bytes()
}
