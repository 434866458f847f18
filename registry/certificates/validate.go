package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/internal/signingrequest"
	"github.com/keelson-dev/keelson/podspec/signername"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

type (
	request = certificatesv1.CertificateSigningRequest
)

const legacySigner = "kubernetes.io/legacy-unknown"

func usages() []certificatesv1.KeyUsage {
	all := []certificatesv1.KeyUsage{
		certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature, certificatesv1.UsageContentCommitment,
		certificatesv1.UsageKeyEncipherment, certificatesv1.UsageKeyAgreement, certificatesv1.UsageDataEncipherment,
		certificatesv1.UsageCertSign, certificatesv1.UsageCRLSign, certificatesv1.UsageEncipherOnly, certificatesv1.UsageDecipherOnly,
		certificatesv1.UsageAny, certificatesv1.UsageServerAuth, certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning,
		certificatesv1.UsageEmailProtection, certificatesv1.UsageSMIME, certificatesv1.UsageIPsecEndSystem,
		certificatesv1.UsageIPsecTunnel, certificatesv1.UsageIPsecUser, certificatesv1.UsageTimestamping,
		certificatesv1.UsageOCSPSigning, certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC,
	}
	slices.Sort(all)
	return all
}

// validateSigningRequest validates a request; what a stored one already has stays allowed.
func validateSigningRequest(r, old *request) field.ErrorList {
	p := field.NewPath("spec")
	var errs field.ErrorList
	if err := checkRequest(r.Spec.Request); err != nil {
		errs = append(errs, field.Invalid(p.Child("request"), r.Spec.Request, err.Error()))
	}
	errs = append(errs, validateUsages(r, old, p.Child("usages"))...)
	if name := r.Spec.SignerName; name == legacySigner && (old == nil || old.Spec.SignerName != legacySigner) {
		errs = append(errs, field.Invalid(p.Child("signerName"), name, "the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, signername.Validate(p.Child("signerName"), name)...)
	}
	if s := r.Spec.ExpirationSeconds; s != nil && *s < 600 {
		errs = append(errs, field.Invalid(p.Child("expirationSeconds"), *s, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	errs = append(errs, validateConditions(r, old, field.NewPath("status", "conditions"))...)
	kept := old != nil && (bytes.Equal(r.Status.Certificate, old.Status.Certificate) || checkCertificate(old.Status.Certificate) != nil)
	if err := checkCertificate(r.Status.Certificate); err != nil && !kept {
		errs = append(errs, field.Invalid(field.NewPath("status", "certificate"), "<certificate data>", err.Error()))
	}
	return errs
}

func checkRequest(data []byte) error {
	asked, err := signingrequest.Parse(data)
	if err != nil {
		return err
	}
	return asked.CheckSignature()
}

func validateUsages(r, old *request, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Spec.Usages) == 0 {
		errs = append(errs, field.Required(p, ""))
	}
	known := usages()
	unknown := func(u certificatesv1.KeyUsage) bool { return !slices.Contains(known, u) }
	if old == nil || !slices.ContainsFunc(old.Spec.Usages, unknown) {
		for i, u := range r.Spec.Usages {
			errs = append(errs, check.OneOf(p.Index(i), u, known...)...)
		}
	}
	if old == nil || len(repeated(old.Spec.Usages)) == 0 {
		for _, i := range repeated(r.Spec.Usages) {
			errs = append(errs, field.Duplicate(p.Index(i), r.Spec.Usages[i]))
		}
	}
	return errs
}

// repeated returns the indices of elements that equal an earlier one.
func repeated[T comparable](list []T) []int {
	var at []int
	for i, v := range list {
		if slices.Contains(list[:i], v) {
			at = append(at, i)
		}
	}
	return at
}

func conditionTypes(r *request) []certificatesv1.RequestConditionType {
	types := make([]certificatesv1.RequestConditionType, len(r.Status.Conditions))
	for i, c := range r.Status.Conditions {
		types[i] = c.Type
	}
	return types
}

func validateConditions(r, old *request, p *field.Path) field.ErrorList {
	types := conditionTypes(r)
	var before []certificatesv1.RequestConditionType
	if old != nil {
		before = conditionTypes(old)
	}
	twice := repeated(types)
	var errs field.ErrorList
	for i, c := range r.Status.Conditions {
		if c.Type == "" && !slices.Contains(before, "") {
			errs = append(errs, field.Required(p.Index(i).Child("type"), ""))
		}
		supported := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		switch c.Type {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			supported = supported[1:2]
		}
		errs = append(errs, check.RequiredOneOf(p.Index(i).Child("status"), c.Status, supported...)...)
		if slices.Contains(twice, i) && len(repeated(before)) == 0 {
			errs = append(errs, field.Duplicate(p.Index(i).Child("type"), c.Type))
		}
	}
	return errs
}

// validateOutcome refuses a request that is both approved and denied, as a rule that upstream checks after all others.
func validateOutcome(r, old *request) field.ErrorList {
	both := func(r *request) bool {
		return len(ofType(r, certificatesv1.CertificateApproved)) > 0 && len(ofType(r, certificatesv1.CertificateDenied)) > 0
	}
	if !both(r) || both(old) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("status", "conditions"),
		`{conditions[{"type": "Approved"}], conditions[{"type": "Denied"}]}`,
		"must specify at most one of: `conditions[{\"type\": \"Approved\"}]`, `conditions[{\"type\": \"Denied\"}]`")}
}

func checkCertificate(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	blocks := 0
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) > 0 {
			return errors.New("no PEM block headers are permitted")
		}
		blocks++
		certs, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(certs) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
	}
	if blocks == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

// may says what an update may change.
type may struct{ approve, sign bool }

func validateSigningRequestUpdate(r, old *request, may may) field.ErrorList {
	errs := validateSigningRequest(r, old)
	p := field.NewPath("status", "conditions")
	for _, kind := range []certificatesv1.RequestConditionType{
		certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed,
	} {
		if len(ofType(r, kind)) < len(ofType(old, kind)) {
			errs = append(errs, field.Forbidden(p, fmt.Sprintf("updates may not remove a condition of type %q", kind)))
		}
	}
	if !may.approve {
		errs = append(errs, validateApprovalStays(r, old, p)...)
	}
	certificate := field.NewPath("status", "certificate")
	switch {
	case bytes.Equal(r.Status.Certificate, old.Status.Certificate):
	case !may.sign:
		errs = append(errs, field.Forbidden(certificate, "updates may not set certificate content"))
	case len(old.Status.Certificate) > 0:
		errs = append(errs, field.Forbidden(certificate, "updates may not modify existing certificate content"))
	}
	return append(errs, validateOutcome(r, old)...)
}

// validateApprovalStays refuses new and changed conditions that approve or deny.
func validateApprovalStays(r, old *request, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, kind := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
		have, had := pick(r, kind), pick(old, kind)
		switch {
		case len(have) < len(had): // refused already
		case len(have) > len(had):
			errs = append(errs, field.Forbidden(p, fmt.Sprintf("updates may not add a condition of type %q", kind)))
		case !equality.Semantic.DeepEqual(have, had):
			errs = append(errs, field.Forbidden(p, fmt.Sprintf("updates may not modify a condition of type %q\n%v", kind, diff.Diff(had, have))))
		}
	}
	return errs
}

// shownCondition is the form of a condition in errors.
type shownCondition struct {
	Type                               certificatesv1.RequestConditionType
	Status                             corev1.ConditionStatus
	Reason, Message                    string
	LastUpdateTime, LastTransitionTime metav1.Time
}

func pick(r *request, kind certificatesv1.RequestConditionType) []shownCondition {
	var picked []shownCondition
	for _, i := range ofType(r, kind) {
		picked = append(picked, shownCondition(r.Status.Conditions[i]))
	}
	return picked
}
