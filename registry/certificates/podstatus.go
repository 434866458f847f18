package certificates

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// clockSkew is how far the beginning of a certificate may be from now.
	clockSkew = 5 * time.Minute
	// refreshMargin is how long after its beginning and before its end a certificate may be replaced at the earliest and latest.
	refreshMargin = 10 * time.Minute
)

func outcomes() []string {
	return []string{
		certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
		certificatesv1.PodCertificateRequestConditionTypeFailed,
	}
}

// terminal reports whether a condition of a type ends a request.
func terminal(kind string) bool { return slices.Contains(outcomes(), kind) }

// outcome returns the type of the condition that has ended a request, or nothing.
func outcome(r *podRequest) string {
	for _, c := range r.Status.Conditions {
		if terminal(c.Type) && c.Status == metav1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

func validatePodRequestStatus(r, old *podRequest) field.ErrorList {
	p := field.NewPath("status")
	errs := validateOutcomes(r.Status.Conditions, p.Child("conditions"))
	errs = append(errs, metavalidation.ValidateConditions(r.Status.Conditions, p.Child("conditions"))...)
	if len(errs) > 0 {
		return errs
	}
	same := func(want certificatesv1.PodCertificateRequestStatus, detail string) field.ErrorList {
		if equality.Semantic.DeepEqual(r.Status, want) {
			return nil
		}
		return field.ErrorList{field.Invalid(p, field.OmitValueType{}, detail)}
	}
	if outcome(old) != "" {
		return same(old.Status, "immutable after PodCertificateRequest is issued, denied, or failed")
	}
	switch outcome(r) {
	case certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed:
		return same(certificatesv1.PodCertificateRequestStatus{Conditions: r.Status.Conditions},
			"non-condition status fields must be empty when denying or failing the PodCertificateRequest")
	case certificatesv1.PodCertificateRequestConditionTypeIssued:
		return validateIssued(r, old, p)
	}
	return same(old.Status, `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
}

// validateOutcomes requires conditions that end a request, at most one.
func validateOutcomes(conditions []metav1.Condition, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	known := 0
	for i, c := range conditions {
		at := field.NewPath(p.String(), fmt.Sprintf("[%d]", i))
		if !terminal(c.Type) {
			errs = append(errs, field.NotSupported(at.Child("type"), c.Type, outcomes()))
			continue
		}
		if known++; known > 1 {
			errs = append(errs, field.Invalid(at.Child("type"), c.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`))
		}
		if c.Status != metav1.ConditionTrue {
			errs = append(errs, field.NotSupported(at.Child("status"), c.Status, []metav1.ConditionStatus{metav1.ConditionTrue}))
		}
	}
	return errs
}

// validateIssued validates the chain of certificates and the times that are read from it.
func validateIssued(r, old *podRequest, p *field.Path) field.ErrorList {
	chain := p.Child("certificateChain")
	if len(r.Status.CertificateChain) > maxChain {
		return field.ErrorList{field.TooLong(chain, r.Status.CertificateChain, maxChain)}
	}
	leaf, rest, reason := firstCertificate(r.Status.CertificateChain)
	if reason != "" {
		return field.ErrorList{field.Invalid(chain, r.Status.CertificateChain, reason)}
	}
	errs := validateNames(leaf, chain)
	asked, err := x509.ParseCertificateRequest(old.Spec.StubPKCS10Request)
	if err != nil {
		return append(errs, field.Invalid(field.NewPath("spec", "stubPKCS10Request"), field.OmitValueType{}, "must be a valid PKCS#10 CSR"))
	}
	if key, ok := asked.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); ok && !key.Equal(leaf.PublicKey) {
		return append(errs, field.Invalid(chain, r.Status.CertificateChain, "leaf certificate was not issued to the requested public key"))
	}
	if errs = append(errs, requireTimes(&r.Status, p)...); len(errs) > 0 {
		return errs
	}
	if wrong := validateTimes(r, leaf, p); wrong != nil {
		return field.ErrorList{wrong}
	}
	return validateIntermediates(rest, r.Status.CertificateChain, chain)
}

// firstCertificate returns the certificate that a chain begins with, or why it does not.
func firstCertificate(chain string) (leaf *x509.Certificate, rest []byte, reason string) {
	block, rest := pem.Decode([]byte(chain))
	if block == nil {
		return nil, nil, "issued certificate chain must contain at least one certificate"
	}
	if block.Type != "CERTIFICATE" {
		return nil, nil, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, "leaf certificate does not parse as valid X.509"
	}
	return leaf, rest, ""
}

// validateNames refuses names that no certificate may have, which signers can write even so.
func validateNames(leaf *x509.Certificate, chain *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range leaf.DNSNames {
		if name == "" {
			errs = append(errs, field.Invalid(chain, name, "leaf certificate should not contain empty DNSName"))
		}
		if strings.Contains(name, "..") {
			errs = append(errs, field.Invalid(chain, name, "leaf certificate's DNSName should not contain '..'"))
		}
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			errs = append(errs, field.Invalid(chain, name, "leaf certificate's DNSName should not start or end with '.'"))
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			errs = append(errs, field.Invalid(chain, address, "leaf certificate should not contain invalid EmailAddress"))
		}
	}
	return errs
}

func requireTimes(s *certificatesv1.PodCertificateRequestStatus, p *field.Path) field.ErrorList {
	const consistent = "must be present and consistent with the issued certificate"
	var errs field.ErrorList
	if s.NotBefore == nil {
		errs = append(errs, field.Required(p.Child("notBefore"), consistent))
	}
	if s.NotAfter == nil {
		errs = append(errs, field.Required(p.Child("notAfter"), consistent))
	}
	if s.BeginRefreshAt == nil {
		errs = append(errs, field.Required(p.Child("beginRefreshAt"), "must be present and in the range [notbefore+10min, notafter-10min]"))
	}
	return errs
}

// validateTimes returns the first error of the certificate's times and of those in the status.
func validateTimes(r *podRequest, leaf *x509.Certificate, p *field.Path) *field.Error {
	begin, end, refresh := r.Status.NotBefore.Time, r.Status.NotAfter.Time, r.Status.BeginRefreshAt.Time
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	longest := *r.Spec.MaxExpirationSeconds
	switch now := time.Now(); {
	case !begin.Equal(leaf.NotBefore):
		return field.Invalid(p.Child("notBefore"), begin, "must be set to the NotBefore time encoded in the leaf certificate")
	case !begin.After(now.Add(-clockSkew)) || !begin.Before(now.Add(clockSkew)):
		return field.Invalid(p.Child("notBefore"), begin, "must be set to within 5 minutes of kube-apiserver's current time")
	case !end.Equal(leaf.NotAfter):
		return field.Invalid(p.Child("notAfter"), end, "must be set to the NotAfter time encoded in the leaf certificate")
	case life < time.Hour:
		return field.Invalid(p.Child("certificateChain"), life, "leaf certificate lifetime must be >= 1 hour")
	case life > time.Duration(longest)*time.Second:
		return field.Invalid(p.Child("certificateChain"), life, fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%v)", longest))
	case refresh.Before(begin.Add(refreshMargin)):
		return field.Invalid(p.Child("beginRefreshAt"), refresh, "must be at least 10 minutes after status.notBefore")
	case refresh.After(end.Add(-refreshMargin)):
		return field.Invalid(p.Child("beginRefreshAt"), refresh, "must be at least 10 minutes before status.notAfter")
	}
	return nil
}

// validateIntermediates requires certificates. That one has signed the other is not checked: the root is not known.
func validateIntermediates(rest []byte, shown string, chain *field.Path) field.ErrorList {
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil
		}
		if block.Type != "CERTIFICATE" {
			return field.ErrorList{field.Invalid(chain, shown, "issued certificate chain must consist entirely of CERTFICATE PEM blocks")}
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return field.ErrorList{field.Invalid(chain, shown, "intermediate certificate does not parse as valid X.509")}
		}
	}
}
