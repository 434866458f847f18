package core

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const minTokenSeconds = 10 * 60

func validateTokenRequest(r *authenticationv1.TokenRequest) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	expiration := *r.Spec.ExpirationSeconds
	if expiration < minTokenSeconds {
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), expiration, "may not specify a duration less than 10 minutes"))
	}
	if expiration > 1<<32 {
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), expiration, "may not specify a duration larger than 2^32 seconds"))
	}
	attestations := spec.Child("attestations")
	if !boundToWebhook(r.Spec.BoundObjectRef) {
		if len(r.Spec.Attestations) > 0 {
			return field.ErrorList{field.Invalid(attestations, r.Spec.Attestations, "attestations may only be specified with a webhook bound object reference")}
		}
		return errs
	}
	if len(r.Spec.Audiences) != 1 {
		errs = append(errs, field.Invalid(spec.Child("audiences"), r.Spec.Audiences, "must be length 1 when bound to a webhook config"))
	}
	return append(errs, validateAttestations(r.Spec.Attestations, attestations)...)
}

// boundToWebhook reports whether a token is for an admission webhook, an alpha feature of upstream that is off
// (KEP-6060): such a request is validated, and then refused.
func boundToWebhook(ref *authenticationv1.BoundObjectReference) bool {
	return ref != nil && ref.APIVersion == admissionv1.SchemeGroupVersion.String() &&
		(ref.Kind == "ValidatingWebhookConfiguration" || ref.Kind == "MutatingWebhookConfiguration")
}

func validateAttestations(attestations map[string]authenticationv1.AttestationValue, path *field.Path) field.ErrorList {
	if len(attestations) != 1 {
		return field.ErrorList{field.Invalid(path, attestations, "webhook bound requests require exactly one admissionReviewAPIGroups attestation")}
	}
	var errs field.ErrorList
	for key, values := range attestations {
		at := path.Key(key)
		switch {
		case key != authenticationv1.AttestationAdmissionReviewAPIGroups:
			errs = append(errs, field.NotSupported(at, key, []string{authenticationv1.AttestationAdmissionReviewAPIGroups}))
		case len(values) != 1:
			errs = append(errs, field.Invalid(at, values, "must specify a single value"))
		case values[0] == "":
			errs = append(errs, field.Invalid(at, values[0], "may not be an empty string"))
		case values[0] != "*":
			for _, reason := range validation.IsDNS1123Subdomain(values[0]) {
				errs = append(errs, field.Invalid(at, values[0], "must specify a valid API Group: "+reason))
			}
		}
	}
	return errs
}
