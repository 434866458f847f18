package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/internal/signingrequest"
	"github.com/keelson-dev/keelson/registry"
)

// olderSigningRequests returns the version that servers stored until 1.21.
func olderSigningRequests() []registry.Older {
	return []registry.Older{{
		GroupVersion: v1beta1.SchemeGroupVersion,
		New:          func() runtime.Object { return &v1beta1.CertificateSigningRequest{} },
		ToStored: func(obj runtime.Object) registry.Object {
			return signingRequestFromV1beta1(obj.(*v1beta1.CertificateSigningRequest))
		},
	}}
}

func signingRequestFromV1beta1(old *v1beta1.CertificateSigningRequest) *request {
	out := &request{ObjectMeta: old.ObjectMeta, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: old.Spec.Request, ExpirationSeconds: old.Spec.ExpirationSeconds,
		Username: old.Spec.Username, UID: old.Spec.UID, Groups: old.Spec.Groups,
	}}
	for _, u := range old.Spec.Usages {
		out.Spec.Usages = append(out.Spec.Usages, certificatesv1.KeyUsage(u))
	}
	if old.Spec.Usages == nil {
		out.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
	}
	out.Spec.SignerName = signerOf(old, out.Spec.Usages)
	for key, values := range old.Spec.Extra {
		if out.Spec.Extra == nil {
			out.Spec.Extra = map[string]certificatesv1.ExtraValue{}
		}
		out.Spec.Extra[key] = certificatesv1.ExtraValue(values)
	}
	out.Status.Certificate = old.Status.Certificate
	for _, c := range old.Status.Conditions {
		if c.Status == "" {
			c.Status = corev1.ConditionTrue // what conditions without a status meant
		}
		out.Status.Conditions = append(out.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.RequestConditionType(c.Type), Status: c.Status, Reason: c.Reason, Message: c.Message,
			LastUpdateTime: c.LastUpdateTime, LastTransitionTime: c.LastTransitionTime,
		})
	}
	return out
}

// signerOf returns the signer of a request, which v1beta1 need not name.
func signerOf(old *v1beta1.CertificateSigningRequest, usages []certificatesv1.KeyUsage) string {
	if old.Spec.SignerName != nil {
		return *old.Spec.SignerName
	}
	asked, err := signingrequest.Parse(old.Spec.Request)
	switch {
	case err != nil:
	case signingrequest.KubeletClient(asked, usages) == nil:
		return certificatesv1.KubeAPIServerClientKubeletSignerName
	case signingrequest.KubeletServing(asked, usages) == nil:
		return certificatesv1.KubeletServingSignerName
	}
	return legacySigner
}

func olderTrustBundles() []registry.Older {
	return []registry.Older{{
		Written:      true,
		GroupVersion: v1beta1.SchemeGroupVersion,
		New:          func() runtime.Object { return &v1beta1.ClusterTrustBundle{} },
		ToStored: func(obj runtime.Object) registry.Object {
			old := obj.(*v1beta1.ClusterTrustBundle)
			return &certificatesv1.ClusterTrustBundle{ObjectMeta: old.ObjectMeta, Spec: certificatesv1.ClusterTrustBundleSpec(old.Spec)}
		},
	}}
}

// olderPodRequests leaves out the public key of v1beta1, which v1 has in its stub of a request.
func olderPodRequests() []registry.Older {
	return []registry.Older{{
		Written:      true,
		GroupVersion: v1beta1.SchemeGroupVersion,
		New:          func() runtime.Object { return &v1beta1.PodCertificateRequest{} },
		ToStored: func(obj runtime.Object) registry.Object {
			old := obj.(*v1beta1.PodCertificateRequest)
			s := &old.Spec
			return &podRequest{
				ObjectMeta: old.ObjectMeta,
				Spec: certificatesv1.PodCertificateRequestSpec{
					SignerName: s.SignerName, PodName: s.PodName, PodUID: s.PodUID,
					ServiceAccountName: s.ServiceAccountName, ServiceAccountUID: s.ServiceAccountUID, NodeName: s.NodeName, NodeUID: s.NodeUID,
					MaxExpirationSeconds: s.MaxExpirationSeconds, StubPKCS10Request: s.StubPKCS10Request,
					UnverifiedUserAnnotations: s.UnverifiedUserAnnotations,
				},
				Status: certificatesv1.PodCertificateRequestStatus(old.Status),
			}
		},
	}}
}
