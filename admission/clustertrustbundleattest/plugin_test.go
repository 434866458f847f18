package clustertrustbundleattest_test

import (
	"context"
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/clustertrustbundleattest"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// onlyAnn lets ann attest for example.com/ca.
func onlyAnn(_ context.Context, a authz.Attributes) (authz.Decision, error) {
	if a.User.Name == "ann" && a.Verb == "attest" && a.Name == "example.com/ca" {
		return authz.Decision{Verdict: authz.Allow}, nil
	}
	return authz.Decision{}, nil
}

func bundle(signer string, changes ...func(*certificatesv1.ClusterTrustBundle)) *certificatesv1.ClusterTrustBundle {
	b := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer}}
	for _, change := range changes {
		change(b)
	}
	return b
}

func TestPlugin(t *testing.T) {
	p := clustertrustbundleattest.New(authz.Func(onlyAnn))
	const ca = "example.com/ca"
	collected := bundle(ca, func(b *certificatesv1.ClusterTrustBundle) {
		b.OwnerReferences, b.Finalizers, b.ResourceVersion = []metav1.OwnerReference{{Name: "o"}}, []string{"a/b"}, "2"
		b.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	})
	labeled := bundle(ca, func(b *certificatesv1.ClusterTrustBundle) { b.Labels = map[string]string{"a": "b"} })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	ann, ben := admissiontest.By("ann"), admissiontest.By("ben")
	const refusal, mayNot = `clustertrustbundles.certificates.k8s.io "b" is forbidden: `, `user not permitted to attest for signerName "example.com/ca"`
	for name, tt := range map[string]struct {
		request *admission.Request
		want    string
	}{
		"created":                  {admissiontest.Create(t, bundle(ca), ann), ""},
		"created by another":       {admissiontest.Create(t, bundle(ca), ben), mayNot},
		"created without a signer": {admissiontest.Create(t, bundle(""), ben), ""},
		"updated":                  {admissiontest.Update(t, bundle(ca), labeled, ann), ""},
		"updated by another":       {admissiontest.Update(t, bundle(ca), labeled, ben), mayNot},
		"updated for collection":   {admissiontest.Update(t, bundle(ca), collected, ben), ""},
		"deleted":                  {admissiontest.Delete(t, bundle(ca), ben), ""},
		"of another type":          {admissiontest.Update(t, bundle(ca), labeled, ann, func(r *admission.Request) { r.Object = pod }), "expected type ClusterTrustBundle, got: *v1.ClusterTrustBundle"},
		"of another resource":      {admissiontest.Create(t, pod, ben), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.want == "" {
				admissiontest.Admits(t, p, tt.request, tt.request.Object)
				return
			}
			admissiontest.Refuses(t, p, tt.request, refusal+tt.want)
		})
	}
	admissiontest.TestPlugin(t, p, admissiontest.Create(t, bundle(ca), ann), admissiontest.Update(t, bundle(ca), labeled, ben))
}

func Example() {
	r := &admission.Request{Operation: admission.Create, User: &authn.Identity{Name: "ben"}, Object: bundle("example.com/ca")}
	r.Resource = certificatesv1.SchemeGroupVersion.WithResource("clustertrustbundles")
	fmt.Println(clustertrustbundleattest.New(authz.Func(onlyAnn)).Validate(context.Background(), r))
	// Output: clustertrustbundles.certificates.k8s.io "b" is forbidden: user not permitted to attest for signerName "example.com/ca"
}
