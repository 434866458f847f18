package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/keelson-dev/keelson/registry"
)

func signingRequestColumns() registry.Columns[*certificatesv1.CertificateSigningRequest] {
	spec := v1beta1.CertificateSigningRequestSpec{}.SwaggerDoc()
	return registry.Columns[*certificatesv1.CertificateSigningRequest]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.AgeColumn(),
			registry.TextColumn("SignerName", spec["signerName"]),
			registry.TextColumn("Requestor", spec["request"]),
			registry.TextColumn("RequestedDuration", spec["expirationSeconds"]),
			registry.TextColumn("Condition", v1beta1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"]),
		},
		Cells: func(r *certificatesv1.CertificateSigningRequest, now time.Time) []any {
			life := none
			if s := r.Spec.ExpirationSeconds; s != nil {
				life = duration.HumanDuration(time.Duration(*s) * time.Second)
			}
			return []any{r.Name, registry.Age(r.CreationTimestamp, now), orNone(r.Spec.SignerName), r.Spec.Username, life, progress(r)}
		},
	}
}

// progress says how far a request has come.
func progress(r *certificatesv1.CertificateSigningRequest) string {
	s := "Pending"
	switch {
	case len(ofType(r, certificatesv1.CertificateDenied)) > 0:
		s = "Denied"
	case len(ofType(r, certificatesv1.CertificateApproved)) > 0:
		s = "Approved"
	}
	if len(ofType(r, certificatesv1.CertificateFailed)) > 0 {
		s += ",Failed"
	}
	if len(r.Status.Certificate) > 0 {
		s += ",Issued"
	}
	return s
}

func trustBundleColumns() registry.Columns[*certificatesv1.ClusterTrustBundle] {
	return registry.Columns[*certificatesv1.ClusterTrustBundle]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("SignerName", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"]),
		},
		Cells: func(b *certificatesv1.ClusterTrustBundle, _ time.Time) []any {
			return []any{b.Name, orNone(b.Spec.SignerName)}
		},
	}
}

func podRequestColumns() registry.Columns[*certificatesv1.PodCertificateRequest] {
	spec := certificatesv1.PodCertificateRequestSpec{}.SwaggerDoc()
	return registry.Columns[*certificatesv1.PodCertificateRequest]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("PodName", spec["podName"]),
			registry.TextColumn("ServiceAccountName", spec["serviceAccountName"]),
			registry.TextColumn("NodeName", spec["nodeName"]),
			registry.TextColumn("SignerName", spec["signerName"]),
			registry.TextColumn("State", "Is the request Pending, Issued, Denied, or Failed?"),
			registry.TextColumn("UnverifiedUserAnnotations", spec["unverifiedUserAnnotations"]),
		},
		Cells: func(r *certificatesv1.PodCertificateRequest, _ time.Time) []any {
			state := "Pending"
			for _, c := range r.Status.Conditions {
				if terminal(c.Type) {
					state = c.Type
				}
			}
			return []any{
				r.Name, r.Spec.PodName, r.Spec.ServiceAccountName, string(r.Spec.NodeName), r.Spec.SignerName, state,
				labels.FormatLabels(r.Spec.UnverifiedUserAnnotations),
			}
		},
	}
}

const none = "<none>"

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}
