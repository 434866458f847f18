package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/signer"
	"github.com/keelson-dev/keelson/podspec/signername"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

type podRequest = certificatesv1.PodCertificateRequest

// Limits of requests of pods.
const (
	shortestLife   = 60 * 60           // seconds
	longestLife    = 91 * 24 * 60 * 60 // of signers that are not Kubernetes' own
	longestOwnLife = 24 * 60 * 60      // of Kubernetes' signers
	maxUID         = 128
	maxStub        = 10 << 10  // bytes
	maxChain       = 100 << 10 // bytes
)

func podRequests(authorizer authz.Authorizer) registry.Kind {
	parts := registry.Parts[*podRequest]{
		Spec:      registry.PartOf(func(r *podRequest) *certificatesv1.PodCertificateRequestSpec { return &r.Spec }),
		Status:    registry.PartOf(func(r *podRequest) *certificatesv1.PodCertificateRequestStatus { return &r.Status }),
		Uncounted: true,
	}
	return registry.Definition[*podRequest]{
		Names:        registry.Names{Kind: "PodCertificateRequest", Plural: "podcertificaterequests", Singular: "podcertificaterequest"},
		GroupVersion: certificatesv1.SchemeGroupVersion,
		Older:        olderPodRequests(),
		Namespaced:   true,
		New:          func() *podRequest { return &podRequest{} },
		NewList:      func() runtime.Object { return &certificatesv1.PodCertificateRequestList{} },
		Fields: func(r *podRequest) fields.Set {
			return fields.Set{"spec.signerName": r.Spec.SignerName, "spec.podName": r.Spec.PodName, "spec.nodeName": string(r.Spec.NodeName)}
		},
		Rules: registry.Rules[*podRequest]{
			Default: func(r *podRequest) {
				if r.Spec.MaxExpirationSeconds == nil {
					r.Spec.MaxExpirationSeconds = new(int32(longestOwnLife))
				}
			},
			PrepareCreate: parts.PrepareCreate,
			PrepareUpdate: parts.PrepareUpdate,
			Validate:      validatePodRequest,
			ValidateUpdate: func(r, old *podRequest) field.ErrorList {
				if equality.Semantic.DeepEqual(r.Spec, old.Spec) {
					return nil
				}
				return check.ImmutableAs(field.NewPath("spec"), r.Spec, old.Spec, shown(&r.Spec))
			},
			ConditionalUpdate: true,
		},
		Sub: registry.Subresources[*podRequest]{Views: map[string]registry.View[*podRequest]{"status": {
			PrepareUpdate: func(ctx context.Context, r, old *podRequest) {
				parts.PrepareStatus(ctx, r, old)
				metav1.ResetObjectMetaForStatus(&r.ObjectMeta, old.ObjectMeta.DeepCopy())
			},
			ValidateUpdate: validatePodRequestStatus,
			Guard:          guardStatus(authorizer),
			Resets:         []string{"metadata", "spec"},
		}}},
		Columns: podRequestColumns(),
	}.Kind()
}

// guardStatus lets only who may sign for the signer change a status.
func guardStatus(authorizer authz.Authorizer) func(context.Context, *podRequest, *podRequest) error {
	if authorizer == nil {
		return nil
	}
	return func(ctx context.Context, r, old *podRequest) error {
		if equality.Semantic.DeepEqual(old.Status, r.Status) {
			return nil
		}
		name, p := old.Spec.SignerName, field.NewPath("spec", "signerName")
		user := authn.FromContext(ctx)
		var refusal *field.Error
		switch {
		case user == nil:
			refusal = field.InternalError(p, fmt.Errorf("cannot determine calling user to perform %q check", signer.Sign))
		case !signer.Allowed(ctx, authorizer, user, signer.Sign, name):
			refusal = field.Forbidden(p, fmt.Sprintf("User %q is not permitted to %q for signer %q", user.Name, signer.Sign, name))
		default:
			return nil
		}
		return &registry.Error{
			Err: registry.ErrInvalid, Resource: certificatesv1.Resource("podcertificaterequests"), Kind: "PodCertificateRequest", Name: r.Name,
			Fields: field.ErrorList{refusal},
		}
	}
}

// shownPodSpec is the form of a spec in errors; it has what v1beta1 alone has.
type shownPodSpec struct {
	SignerName                       string
	PodName                          string
	PodUID                           types.UID
	ServiceAccountName               string
	ServiceAccountUID                types.UID
	NodeName                         types.NodeName
	NodeUID                          types.UID
	MaxExpirationSeconds             *int32
	PKIXPublicKey, ProofOfPossession []byte
	StubPKCS10Request                []byte
	UnverifiedUserAnnotations        map[string]string
}

func shown(s *certificatesv1.PodCertificateRequestSpec) shownPodSpec {
	return shownPodSpec{
		SignerName: s.SignerName, PodName: s.PodName, PodUID: s.PodUID,
		ServiceAccountName: s.ServiceAccountName, ServiceAccountUID: s.ServiceAccountUID, NodeName: s.NodeName, NodeUID: s.NodeUID,
		MaxExpirationSeconds: s.MaxExpirationSeconds, StubPKCS10Request: s.StubPKCS10Request, UnverifiedUserAnnotations: s.UnverifiedUserAnnotations,
	}
}

func validatePodRequest(r *podRequest) field.ErrorList {
	p := field.NewPath("spec")
	errs := signername.Validate(p.Child("signerName"), r.Spec.SignerName)
	if r.Spec.UnverifiedUserAnnotations != nil {
		errs = append(errs, signername.Annotations(p.Child("unverifiedUserAnnotations"), r.Spec.UnverifiedUserAnnotations)...)
	}
	errs = slices.Concat(errs,
		check.Messages(p.Child("podName"), r.Spec.PodName, apivalidation.NameIsDNSSubdomain(r.Spec.PodName, false)),
		validateUID(p.Child("podUID"), r.Spec.PodUID),
		check.Messages(p.Child("serviceAccountName"), r.Spec.ServiceAccountName, apivalidation.NameIsDNSSubdomain(r.Spec.ServiceAccountName, false)),
		validateUID(p.Child("serviceAccountUID"), r.Spec.ServiceAccountUID),
		check.Messages(p.Child("nodeName"), r.Spec.NodeName, apivalidation.NameIsDNSSubdomain(string(r.Spec.NodeName), false)),
		validateUID(p.Child("nodeUID"), r.Spec.NodeUID),
	)
	life := p.Child("maxExpirationSeconds")
	if r.Spec.MaxExpirationSeconds == nil {
		return append(errs, field.Required(life, "must be set"))
	}
	longest := int32(longestLife)
	if signername.Kubernetes(r.Spec.SignerName) {
		longest = longestOwnLife
	}
	if s := *r.Spec.MaxExpirationSeconds; s < shortestLife || s > longest {
		errs = append(errs, field.Invalid(life, s, fmt.Sprintf("must be in the range [%d, %d]", shortestLife, longest)))
	}
	if len(r.Spec.StubPKCS10Request) == 0 {
		return append(errs, field.Invalid(p, field.OmitValueType{}, "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"))
	}
	return append(errs, validateStub(p.Child("stubPKCS10Request"), r.Spec.StubPKCS10Request)...)
}

func validateUID(p *field.Path, uid types.UID) field.ErrorList {
	switch {
	case uid == "":
		return field.ErrorList{field.Invalid(p, uid, "must not be empty")}
	case len(uid) > maxUID:
		return field.ErrorList{field.TooLong(p, uid, maxUID)}
	}
	return nil
}

// validateStub validates the kind of key of a request in PKCS#10, and its signature. Its other contents are the signer's
// business.
func validateStub(p *field.Path, stub []byte) field.ErrorList {
	if len(stub) > maxStub {
		return field.ErrorList{field.TooLong(p, stub, maxStub)}
	}
	asked, err := x509.ParseCertificateRequest(stub)
	if err != nil {
		return field.ErrorList{field.Invalid(p, field.OmitValueType{}, "must be a valid PKCS#10 CSR")}
	}
	switch key := asked.PublicKey.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if !slices.Contains([]elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()}, key.Curve) {
			return field.ErrorList{field.Invalid(p, "curve "+key.Curve.Params().Name, "elliptic public keys must use curve P256, P384, or P521")}
		}
	case *rsa.PublicKey:
		if bits := key.Size() * 8; bits != 3072 && bits != 4096 {
			return field.ErrorList{field.Invalid(p, fmt.Sprintf("%d-bit modulus", bits), "RSA keys must have modulus size 3072 or 4096")}
		}
	default:
		return field.ErrorList{field.Invalid(p, field.OmitValueType{}, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")}
	}
	if err := asked.CheckSignature(); err != nil {
		return field.ErrorList{field.Invalid(p, field.OmitValueType{}, "invalid signature")}
	}
	return nil
}
