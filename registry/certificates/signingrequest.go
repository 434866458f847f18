package certificates

import (
	"context"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/registry"
)

func signingRequests() registry.Kind {
	type request = *certificatesv1.CertificateSigningRequest
	return registry.Definition[request]{
		Names: registry.Names{
			Kind: "CertificateSigningRequest", Plural: "certificatesigningrequests", Singular: "certificatesigningrequest",
			Short: []string{"csr"},
		},
		GroupVersion: certificatesv1.SchemeGroupVersion,
		Older:        olderSigningRequests(),
		New:          func() request { return &certificatesv1.CertificateSigningRequest{} },
		NewList:      func() runtime.Object { return &certificatesv1.CertificateSigningRequestList{} },
		Fields:       func(r request) fields.Set { return fields.Set{"spec.signerName": r.Spec.SignerName} },
		Rules: registry.Rules[request]{
			PrepareCreate: signBy,
			PrepareUpdate: func(_ context.Context, r, old request) {
				old.Spec.DeepCopyInto(&r.Spec)
				old.Status.DeepCopyInto(&r.Status)
			},
			Validate:       func(r request) field.ErrorList { return validateSigningRequest(r, nil) },
			ValidateUpdate: func(r, old request) field.ErrorList { return validateSigningRequestUpdate(r, old, may{}) },
			ValidateName:   func(string, bool) []string { return nil },
		},
		Sub: registry.Subresources[request]{
			Resets: []string{"spec", "status"},
			Views: map[string]registry.View[request]{
				"status": {
					PrepareUpdate:  prepareSigned,
					ValidateUpdate: func(r, old request) field.ErrorList { return validateSigningRequestUpdate(r, old, may{sign: true}) },
					Resets:         []string{"spec", "status.conditions"},
				},
				"approval": {
					PrepareUpdate:  prepareApproval,
					ValidateUpdate: func(r, old request) field.ErrorList { return validateSigningRequestUpdate(r, old, may{approve: true}) },
					Resets:         []string{"spec", "status.certificate"},
				},
			},
		},
		Columns: signingRequestColumns(),
	}.Kind()
}

// signBy puts the user who makes the request into it, and nothing of a status.
func signBy(ctx context.Context, r *certificatesv1.CertificateSigningRequest) {
	r.Spec.Username, r.Spec.UID, r.Spec.Groups, r.Spec.Extra = "", "", nil, nil
	if user := authn.FromContext(ctx); user != nil {
		r.Spec.Username, r.Spec.UID, r.Spec.Groups = user.Name, user.UID, slices.Clone(user.Groups)
		for key, values := range user.Extra {
			if r.Spec.Extra == nil {
				r.Spec.Extra = map[string]certificatesv1.ExtraValue{}
			}
			r.Spec.Extra[key] = slices.Clone(values)
		}
	}
	r.Status = certificatesv1.CertificateSigningRequestStatus{}
}

// prepareSigned keeps the spec, and the approval if it is of as many conditions: validation refuses others.
func prepareSigned(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) {
	old.Spec.DeepCopyInto(&r.Spec)
	for _, kind := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
		have, had := ofType(r, kind), ofType(old, kind)
		if len(have) == len(had) {
			for i, at := range have {
				old.Status.Conditions[had[i]].DeepCopyInto(&r.Status.Conditions[at])
			}
		}
	}
	setTimes(r, old)
}

// prepareApproval keeps everything but the conditions.
func prepareApproval(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) {
	setTimes(r, old)
	conditions := r.Status.Conditions
	old.Spec.DeepCopyInto(&r.Spec)
	old.Status.DeepCopyInto(&r.Status)
	r.Status.Conditions = conditions
}

// setTimes fills in missing times of conditions.
func setTimes(r, old *certificatesv1.CertificateSigningRequest) {
	now := metav1.Now()
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		for _, was := range old.Status.Conditions {
			if was.Type == c.Type && was.Status == c.Status && !was.LastTransitionTime.IsZero() {
				c.LastTransitionTime = was.LastTransitionTime
				break
			}
		}
	}
}

// ofType returns the indices of a request's conditions of a type.
func ofType(r *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) []int {
	var at []int
	for i, c := range r.Status.Conditions {
		if c.Type == kind {
			at = append(at, i)
		}
	}
	return at
}
