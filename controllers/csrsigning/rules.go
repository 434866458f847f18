package csrsigning

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/keelson-dev/keelson/internal/signingrequest"
)

const (
	// backdate is how much earlier certificates begin, for clients whose clock is behind.
	backdate = 5 * time.Minute
	// short is the life below which the end is not moved with the beginning: five minutes are one percent of it.
	short = 8 * time.Hour
	// shortest is the shortest life.
	shortest = 10 * time.Minute
)

// refusal returns why a signer does not sign a request, or nil.
type refusal func(asked *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error

// rule returns the rule of a signer, and whether it is one of ours.
func rule(signer string) (refusal, bool) {
	switch signer {
	case certificatesv1.KubeletServingSignerName:
		return signingrequest.KubeletServing, true
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		return signingrequest.KubeletClient, true
	case certificatesv1.KubeAPIServerClientSignerName:
		return clientUsages, true
	case legacyUnknown:
		return func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil }, true
	}
	return nil, false
}

// clientUsages requires usages of a client only.
func clientUsages(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	for _, u := range usages {
		switch u {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth:
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

// lifeOf returns how long a certificate lasts, of which seconds were asked for, or nothing.
func lifeOf(seconds *int32, longest time.Duration) time.Duration {
	if seconds == nil {
		return longest
	}
	asked := time.Duration(*seconds) * time.Second
	switch {
	case asked > longest:
		return longest
	case asked < shortest:
		return shortest
	}
	return asked
}

// validity returns when a certificate begins and ends, given when its authority ends.
func validity(now time.Time, life time.Duration, end time.Time) (notBefore, notAfter time.Time, err error) {
	notBefore = now.Add(-backdate)
	notAfter = now.Add(life)
	if life >= short {
		notAfter = notAfter.Add(-backdate)
	}
	if notAfter.After(end) {
		notAfter = end
	}
	switch {
	case !notBefore.Before(end):
		err = fmt.Errorf("the signer has expired: NotAfter=%v", end)
	case !now.Before(end):
		err = fmt.Errorf("refusing to sign a certificate that expired in the past: NotAfter=%v", end)
	}
	return notBefore, notAfter, err
}

// template returns the certificate that was asked for, without serial number and times. Extensions that were asked for are
// left out.
func template(asked *x509.CertificateRequest, usages []certificatesv1.KeyUsage) (*x509.Certificate, error) {
	t := &x509.Certificate{
		Subject: asked.Subject, DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses, EmailAddresses: asked.EmailAddresses, URIs: asked.URIs,
		PublicKeyAlgorithm: asked.PublicKeyAlgorithm, PublicKey: asked.PublicKey, BasicConstraintsValid: true,
	}
	var unknown []certificatesv1.KeyUsage
	for _, u := range usages {
		key, extended := keyUsage(u), extendedUsage(u)
		switch {
		case key != 0:
			t.KeyUsage |= key
		case extended < 0:
			unknown = append(unknown, u)
		case !slices.Contains(t.ExtKeyUsage, extended):
			t.ExtKeyUsage = append(t.ExtKeyUsage, extended)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("unrecognized usage values: %q", unknown)
	}
	slices.Sort(t.ExtKeyUsage)
	return t, nil
}

// keyUsage returns what a usage means in X.509, or 0 if it is an extended one.
func keyUsage(u certificatesv1.KeyUsage) x509.KeyUsage {
	return map[certificatesv1.KeyUsage]x509.KeyUsage{
		certificatesv1.UsageSigning:           x509.KeyUsageDigitalSignature,
		certificatesv1.UsageDigitalSignature:  x509.KeyUsageDigitalSignature,
		certificatesv1.UsageContentCommitment: x509.KeyUsageContentCommitment,
		certificatesv1.UsageKeyEncipherment:   x509.KeyUsageKeyEncipherment,
		certificatesv1.UsageKeyAgreement:      x509.KeyUsageKeyAgreement,
		certificatesv1.UsageDataEncipherment:  x509.KeyUsageDataEncipherment,
		certificatesv1.UsageCertSign:          x509.KeyUsageCertSign,
		certificatesv1.UsageCRLSign:           x509.KeyUsageCRLSign,
		certificatesv1.UsageEncipherOnly:      x509.KeyUsageEncipherOnly,
		certificatesv1.UsageDecipherOnly:      x509.KeyUsageDecipherOnly,
	}[u]
}

// extendedUsage returns what an extended usage means in X.509, or -1 if there is no such usage.
func extendedUsage(u certificatesv1.KeyUsage) x509.ExtKeyUsage {
	extended, ok := map[certificatesv1.KeyUsage]x509.ExtKeyUsage{
		certificatesv1.UsageAny:             x509.ExtKeyUsageAny,
		certificatesv1.UsageServerAuth:      x509.ExtKeyUsageServerAuth,
		certificatesv1.UsageClientAuth:      x509.ExtKeyUsageClientAuth,
		certificatesv1.UsageCodeSigning:     x509.ExtKeyUsageCodeSigning,
		certificatesv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection,
		certificatesv1.UsageSMIME:           x509.ExtKeyUsageEmailProtection,
		certificatesv1.UsageIPsecEndSystem:  x509.ExtKeyUsageIPSECEndSystem,
		certificatesv1.UsageIPsecTunnel:     x509.ExtKeyUsageIPSECTunnel,
		certificatesv1.UsageIPsecUser:       x509.ExtKeyUsageIPSECUser,
		certificatesv1.UsageTimestamping:    x509.ExtKeyUsageTimeStamping,
		certificatesv1.UsageOCSPSigning:     x509.ExtKeyUsageOCSPSigning,
		certificatesv1.UsageMicrosoftSGC:    x509.ExtKeyUsageMicrosoftServerGatedCrypto,
		certificatesv1.UsageNetscapeSGC:     x509.ExtKeyUsageNetscapeServerGatedCrypto,
	}[u]
	if !ok {
		return -1
	}
	return extended
}
