package certificatesubjectrestriction_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/certificatesubjectrestriction"
)

// request asks a signer for a certificate of groups.
func request(signer string, groups ...string) *certificatesv1.CertificateSigningRequest {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	der, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{Subject: pkix.Name{Organization: groups}}, key)
	if err != nil {
		panic(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: signer, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
}

func TestPlugin(t *testing.T) {
	p := certificatesubjectrestriction.New()
	const clients = "kubernetes.io/kube-apiserver-client"
	masters := request(clients, "a", "system:masters")
	unreadable := request(clients)
	unreadable.Spec.Request = []byte("x")
	others := request("example.com/ca")
	others.Spec.Request = []byte("x")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	const refusal = `certificatesigningrequests.certificates.k8s.io "r" is forbidden: `
	for name, tt := range map[string]struct {
		request *admission.Request
		want    string
	}{
		"others":              {admissiontest.Create(t, request(clients, "a", "b")), ""},
		"masters":             {admissiontest.Create(t, masters), "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"},
		"of another signer":   {admissiontest.Create(t, request("example.com/ca", "system:masters")), ""},
		"not read":            {admissiontest.Create(t, others), ""},
		"not readable":        {admissiontest.Create(t, unreadable), "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"},
		"of another type":     {admissiontest.Create(t, masters, func(r *admission.Request) { r.Object = pod }), "expected type CertificateSigningRequest, got: *v1.Pod"},
		"an update":           {admissiontest.Update(t, masters, masters), ""},
		"a subresource":       {admissiontest.Create(t, masters, admissiontest.Subresource("status")), ""},
		"of another resource": {admissiontest.Create(t, pod), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.want == "" {
				admissiontest.Admits(t, p, tt.request, tt.request.Object)
				return
			}
			admissiontest.Refuses(t, p, tt.request, refusal+tt.want)
		})
	}
	admissiontest.TestPlugin(t, p, admissiontest.Create(t, masters), admissiontest.Create(t, others))
}

func Example() {
	r := &admission.Request{Operation: admission.Create, Object: request("kubernetes.io/kube-apiserver-client", "system:masters")}
	r.Resource = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")
	fmt.Println(certificatesubjectrestriction.New().Validate(context.Background(), r))
	// Output: certificatesigningrequests.certificates.k8s.io "r" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed
}
