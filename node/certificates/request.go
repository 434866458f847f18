package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
)

// ForClient describes the certificate by which the API server knows a node.
func ForClient(node string) Options {
	return Options{
		Signer: certificatesv1.KubeAPIServerClientKubeletSignerName,
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		Template: func() *x509.CertificateRequest {
			return &x509.CertificateRequest{Subject: subject(node)}
		},
	}
}

// ForServer describes the certificate of a node's own server; names returns the host names and addresses by which it is reached,
// as the node's status has them, or none while they are not known.
func ForServer(node string, names func() ([]string, []netip.Addr)) Options {
	return Options{
		Signer: certificatesv1.KubeletServingSignerName,
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		Template: func() *x509.CertificateRequest {
			hosts, addresses := names()
			if len(hosts)+len(addresses) == 0 {
				return nil
			}
			out := &x509.CertificateRequest{Subject: subject(node), DNSNames: hosts}
			for _, a := range addresses {
				out.IPAddresses = append(out.IPAddresses, net.IP(a.AsSlice()))
			}
			return out
		},
	}
}

func subject(node string) pkix.Name {
	return pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + node}
}

// request makes a key, requests a certificate for it and waits until it is issued. Both are in PEM.
func (c *Certificate) request(ctx context.Context, template *x509.CertificateRequest) (key, chain []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, private)
	if err != nil {
		return nil, nil, err
	}
	r := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: encode("CERTIFICATE REQUEST", der), SignerName: c.options.Signer, Usages: c.options.Usages,
		},
	}
	if c.options.Life > 0 {
		r.Spec.ExpirationSeconds = new(int32(min(c.options.Life/time.Second, 1<<31-1))) //nolint:gosec // at most the largest one
	}
	at := client.Target{Resource: certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")}
	made, err := client.As[*certificatesv1.CertificateSigningRequest](c.api.Create(ctx, at, r, metav1.CreateOptions{}))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot create certificate signing request: %w", err)
	}
	at.Name = made.Name
	chain, err = wait(ctx, c.api, at)
	return encode("EC PRIVATE KEY", secret), chain, err
}

// wait returns the certificate once it is issued.
func wait(ctx context.Context, api Client, at client.Target) ([]byte, error) {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		r, err := client.As[*certificatesv1.CertificateSigningRequest](api.Get(ctx, at))
		if err != nil {
			return nil, fmt.Errorf("certificate signing request %s: %w", at.Name, err)
		}
		approved := false
		for _, condition := range r.Status.Conditions {
			if condition.Status == corev1.ConditionFalse {
				continue
			}
			switch condition.Type {
			case certificatesv1.CertificateDenied:
				return nil, fmt.Errorf("%s: %w: %s: %s", at.Name, ErrDenied, condition.Reason, condition.Message)
			case certificatesv1.CertificateFailed:
				return nil, fmt.Errorf("%s: %w: %s: %s", at.Name, ErrFailed, condition.Reason, condition.Message)
			case certificatesv1.CertificateApproved:
				approved = true
			}
		}
		if approved && len(r.Status.Certificate) > 0 {
			return r.Status.Certificate, nil
		}
		if sleep(ctx, pause); ctx.Err() != nil {
			return nil, fmt.Errorf("certificate signing request %s has not been signed in time: %w", at.Name, ctx.Err())
		}
	}
}
