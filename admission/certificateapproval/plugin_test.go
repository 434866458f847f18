package certificateapproval_test

import (
	"context"
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/certificateapproval"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// onlyAnn lets ann approve for example.com/ca.
func onlyAnn(_ context.Context, a authz.Attributes) (authz.Decision, error) {
	if a.User.Name == "ann" && a.Verb == "approve" && a.Name == "example.com/ca" {
		return authz.Decision{Verdict: authz.Allow}, nil
	}
	return authz.Decision{}, nil
}

func request(signer string) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer},
	}
}

func TestPlugin(t *testing.T) {
	p := certificateapproval.New(authz.Func(onlyAnn))
	ours, theirs := request("example.com/ca"), request("example.com/other")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	approval, ann, ben := admissiontest.Subresource("approval"), admissiontest.By("ann"), admissiontest.By("ben")
	strange := func(r *admission.Request) { r.OldObject = pod }
	const refusal = `certificatesigningrequests.certificates.k8s.io "r" is forbidden: `
	for name, tt := range map[string]struct {
		request *admission.Request
		want    string
	}{
		"allowed":                {admissiontest.Update(t, ours, ours, approval, ann), ""},
		"of another user":        {admissiontest.Update(t, ours, ours, approval, ben), `user not permitted to approve requests with signerName "example.com/ca"`},
		"for another signer":     {admissiontest.Update(t, theirs, ours, approval, ann), `user not permitted to approve requests with signerName "example.com/other"`},
		"which is not stored":    {admissiontest.Update(t, ours, theirs, approval, ann), ""},
		"of another type":        {admissiontest.Update(t, ours, ours, approval, ann, strange), "expected type CertificateSigningRequest, got: *v1.Pod"},
		"of the object":          {admissiontest.Update(t, ours, ours, ben), ""},
		"of another subresource": {admissiontest.Update(t, ours, ours, admissiontest.Subresource("status"), ben), ""},
		"of another resource":    {admissiontest.Update(t, pod, pod, approval, ben), ""},
		"a create":               {admissiontest.Create(t, ours, approval, ben), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.want == "" {
				admissiontest.Admits(t, p, tt.request, tt.request.Object)
				return
			}
			admissiontest.Refuses(t, p, tt.request, refusal+tt.want)
		})
	}
	admissiontest.TestPlugin(t, p, admissiontest.Update(t, ours, ours, approval, ann), admissiontest.Update(t, ours, ours, approval, ben))
}

func Example() {
	r := &admission.Request{Operation: admission.Update, Subresource: "approval", Name: "r", User: &authn.Identity{Name: "ben"}, OldObject: request("example.com/ca")}
	r.Resource = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")
	fmt.Println(certificateapproval.New(authz.Func(onlyAnn)).Validate(context.Background(), r))
	// Output: certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to approve requests with signerName "example.com/ca"
}
