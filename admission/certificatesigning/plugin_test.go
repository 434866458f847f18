package certificatesigning_test

import (
	"context"
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/certificatesigning"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// onlyAnn lets ann sign for example.com/ca.
func onlyAnn(_ context.Context, a authz.Attributes) (authz.Decision, error) {
	if a.User.Name == "ann" && a.Verb == "sign" && a.Name == "example.com/ca" {
		return authz.Decision{Verdict: authz.Allow}, nil
	}
	return authz.Decision{}, nil
}

func request(signer, certificate string, conditions ...certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
	r := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer},
	}
	if certificate != "" {
		r.Status.Certificate = []byte(certificate)
	}
	for _, kind := range conditions {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind})
	}
	return r
}

func TestPlugin(t *testing.T) {
	p := certificatesigning.New(authz.Func(onlyAnn))
	const ca = "example.com/ca"
	asked, signed, failed := request(ca, ""), request(ca, "x"), request(ca, "", "Failed")
	other := request("example.com/other", "")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	status, ann, ben := admissiontest.Subresource("status"), admissiontest.By("ann"), admissiontest.By("ben")
	const refusal, mayNot = `certificatesigningrequests.certificates.k8s.io "r" is forbidden: `, `user not permitted to sign requests with signerName "example.com/ca"`
	for name, tt := range map[string]struct {
		request *admission.Request
		want    string
	}{
		"signed":                 {admissiontest.Update(t, asked, signed, status, ann), ""},
		"failed":                 {admissiontest.Update(t, asked, failed, status, ann), ""},
		"signed by another":      {admissiontest.Update(t, asked, signed, status, ben), mayNot},
		"failed by another":      {admissiontest.Update(t, asked, failed, status, ben), mayNot},
		"for another signer":     {admissiontest.Update(t, other, signed, status, ann), `user not permitted to sign requests with signerName "example.com/other"`},
		"without a change":       {admissiontest.Update(t, failed, failed, status, ben), ""},
		"of another old type":    {admissiontest.Update(t, asked, signed, status, ann, func(r *admission.Request) { r.OldObject = pod }), "expected type CertificateSigningRequest, got: *v1.Pod"},
		"of another type":        {admissiontest.Update(t, asked, signed, status, ann, func(r *admission.Request) { r.Object = pod }), "expected type CertificateSigningRequest, got: *v1.Pod"},
		"of the object":          {admissiontest.Update(t, asked, signed, ben), ""},
		"of another subresource": {admissiontest.Update(t, asked, failed, admissiontest.Subresource("approval"), ben), ""},
		"of another resource":    {admissiontest.Update(t, pod, pod, status, ben), ""},
		"a create":               {admissiontest.Create(t, signed, status, ben), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.want == "" {
				admissiontest.Admits(t, p, tt.request, tt.request.Object)
				return
			}
			admissiontest.Refuses(t, p, tt.request, refusal+tt.want)
		})
	}
	admissiontest.TestPlugin(t, p, admissiontest.Update(t, asked, signed, status, ann), admissiontest.Update(t, asked, signed, status, ben))
}

func Example() {
	r := &admission.Request{Operation: admission.Update, Subresource: "status", Name: "r", User: &authn.Identity{Name: "ben"}}
	r.OldObject, r.Object = request("example.com/ca", ""), request("example.com/ca", "x")
	r.Resource = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")
	fmt.Println(certificatesigning.New(authz.Func(onlyAnn)).Validate(context.Background(), r))
	// Output: certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to sign requests with signerName "example.com/ca"
}
