// Package signingrequest reads requests for certificates (PKCS#10) as CertificateSigningRequests carry them, and says which
// of them are a kubelet's.
//
// Everything here is a pure function of its arguments.
package signingrequest

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const errName = nodeError("subject common name does not begin with system:node:")

// nodeError is a message of upstream's.
type nodeError string

func (e nodeError) Error() string { return string(e) }

// Parse reads a request from PEM. Its signature is not checked.
func Parse(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// KubeletClient returns why a request is not one for a kubelet's client certificate, or nil.
func KubeletClient(asked *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(asked.Subject.Organization, []string{"system:nodes"}):
		return errors.New("subject organization is not system:nodes")
	case len(asked.DNSNames) > 0:
		return errors.New("DNS subjectAltNames are not allowed")
	case len(asked.EmailAddresses) > 0:
		return errors.New("Email subjectAltNames are not allowed") //nolint:staticcheck // upstream's message
	case len(asked.IPAddresses) > 0:
		return errors.New("IP subjectAltNames are not allowed")
	case len(asked.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	case !strings.HasPrefix(asked.Subject.CommonName, "system:node:"):
		return errName
	}
	return usedFor(usages, certificatesv1.UsageClientAuth)
}

// KubeletServing returns why a request is not one for a kubelet's serving certificate, or nil.
func KubeletServing(asked *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(asked.Subject.Organization, []string{"system:nodes"}):
		return errors.New("subject organization is not system:nodes")
	case len(asked.DNSNames) == 0 && len(asked.IPAddresses) == 0:
		return errors.New("DNS or IP subjectAltName is required")
	case len(asked.EmailAddresses) > 0:
		return errors.New("Email subjectAltNames are not allowed") //nolint:staticcheck // upstream's message
	case len(asked.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	}
	if err := usedFor(usages, certificatesv1.UsageServerAuth); err != nil {
		return err
	}
	if !strings.HasPrefix(asked.Subject.CommonName, "system:node:") {
		return errName
	}
	return nil
}

// usedFor requires a digital signature, the given usage and, as keys of RSA may need, encipherment of keys; nothing else.
func usedFor(usages []certificatesv1.KeyUsage, usage certificatesv1.KeyUsage) error {
	want := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, usage}
	slices.Sort(want)
	got := slices.Compact(slices.Sorted(slices.Values(usages)))
	withoutRSA := slices.DeleteFunc(slices.Clone(want), func(u certificatesv1.KeyUsage) bool { return u == certificatesv1.UsageKeyEncipherment })
	if slices.Equal(got, want) || slices.Equal(got, withoutRSA) {
		return nil
	}
	return fmt.Errorf("usages did not match %v", want)
}
