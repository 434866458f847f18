package certificates_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/certificates"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type podRequest = *certificatesv1.PodCertificateRequest

func podRequests(t *testing.T) registry.Kind {
	return registrytest.Find(t, certificates.Kinds(nil), "podcertificaterequests")
}

func TestPodRequest(t *testing.T) {
	k := podRequests(t)
	if k.Rules.CreateOnUpdate || !k.Rules.ConditionalUpdate || !k.Namespaced {
		t.Error("it is created by updates, needs no version or has no namespace")
	}
	key := newKey(t)
	if got, want := k.Fields(ofPod(t, key)).String(), "spec.nodeName=n,spec.podName=p,spec.signerName=example.com/ca"; got != want {
		t.Errorf("fields %v", got)
	}
	long := types.UID(times("x", 129))
	life := func(seconds int32) func(podRequest) {
		return func(r podRequest) { r.Spec.MaxExpirationSeconds = &seconds }
	}
	ours := func(seconds int32) func(podRequest) {
		return func(r podRequest) { life(seconds)(r); r.Spec.SignerName = "kubernetes.io/x" }
	}
	registrytest.Create(t, k, ofPod(t, key), []registrytest.Change[podRequest]{
		{Name: "nothing", To: func(r podRequest) {
			r.Spec = certificatesv1.PodCertificateRequestSpec{UnverifiedUserAnnotations: map[string]string{"a": ""}}
		}, Refused: []string{
			"spec.signerName: Required value",
			`spec.unverifiedUserAnnotations: Invalid value: "a": must be a domain-prefixed key (such as "acme.io/foo")`,
			`spec.podName: Invalid value: "": ` + subdomain,
			`spec.podUID: Invalid value: "": must not be empty`,
			`spec.serviceAccountName: Invalid value: "": ` + subdomain,
			`spec.serviceAccountUID: Invalid value: "": must not be empty`,
			`spec.nodeName: Invalid value: "": ` + subdomain,
			`spec.nodeUID: Invalid value: "": must not be empty`,
			"spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set",
		}},
		{Name: "long UIDs", To: func(r podRequest) { r.Spec.PodUID, r.Spec.ServiceAccountUID, r.Spec.NodeUID = long, long, long }, Refused: []string{
			"spec.podUID: Too long: may not be more than 128 bytes", "spec.serviceAccountUID: Too long: may not be more than 128 bytes",
			"spec.nodeUID: Too long: may not be more than 128 bytes"}},
		{Name: "UIDs that are not quite long", To: func(r podRequest) { r.Spec.PodUID = long[1:] }},
		{Name: "no life", To: func(r podRequest) { r.Spec.MaxExpirationSeconds = nil }}, // it gets the default
		{Name: "short", To: life(3599), Refused: []string{"spec.maxExpirationSeconds: Invalid value: 3599: must be in the range [3600, 7862400]"}},
		{Name: "long", To: life(7862401), Refused: []string{"spec.maxExpirationSeconds: Invalid value: 7862401: must be in the range [3600, 7862400]"}},
		{Name: "the longest", To: life(7862400)},
		{Name: "the shortest", To: ours(3600)},
		{Name: "long for Kubernetes", To: ours(86401), Refused: []string{"spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]"}},
		{Name: "a long stub", To: func(r podRequest) { r.Spec.StubPKCS10Request = make([]byte, 10<<10+1) }, Refused: []string{
			"spec.stubPKCS10Request: Too long: may not be more than 10240 bytes"}},
		{Name: "parts of names", To: func(r podRequest) { r.Spec.PodName, r.Spec.ServiceAccountName, r.Spec.NodeName = "p-", "a-", "n-" }, Refused: []string{
			`spec.podName: Invalid value: "p-": ` + subdomain, `spec.serviceAccountName: Invalid value: "a-": ` + subdomain, `spec.nodeName: Invalid value: "n-": ` + subdomain}},
		{Name: "the longest stub", To: func(r podRequest) { r.Spec.StubPKCS10Request = make([]byte, 10<<10) }, Refused: []string{
			"spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"}},
		{Name: "no stub", To: func(r podRequest) { r.Spec.StubPKCS10Request = []byte("x") }, Refused: []string{
			"spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"}},
		{Name: "another's signature", To: func(r podRequest) { r.Spec.StubPKCS10Request[len(r.Spec.StubPKCS10Request)-1] ^= 1 }, Refused: []string{
			"spec.stubPKCS10Request: Invalid value: invalid signature"}},
	})
	none := ofPod(t, key)
	none.Spec.MaxExpirationSeconds = nil
	if errs := k.Rules.Validate(none); len(errs) != 1 || errs[0].Error() != "spec.maxExpirationSeconds: Required value: must be set" {
		t.Errorf("without a default: %v", errs)
	}
	made := ofPod(t, key)
	made.Status.CertificateChain, made.Spec.MaxExpirationSeconds = "x", nil
	if registrytest.Prepare(k, made); made.Status.CertificateChain != "" || *made.Spec.MaxExpirationSeconds != 86400 || made.Generation != 0 {
		t.Errorf("created as %+v", made)
	}
}

const subdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`

func TestKeys(t *testing.T) {
	k := podRequests(t)
	curve := func(c elliptic.Curve) crypto.Signer { return must(ecdsa.GenerateKey(c, rand.Reader)) }
	for name, tt := range map[string]struct {
		key  crypto.Signer
		want string
	}{
		"P224":     {curve(elliptic.P224()), `spec.stubPKCS10Request: Invalid value: "curve P-224": elliptic public keys must use curve P256, P384, or P521`},
		"P256":     {curve(elliptic.P256()), ""},
		"P384":     {curve(elliptic.P384()), ""},
		"P521":     {curve(elliptic.P521()), ""},
		"RSA 3072": {must(rsa.GenerateKey(rand.Reader, 3072)), ""},
		"RSA 2048": {must(rsa.GenerateKey(rand.Reader, 2048)), `spec.stubPKCS10Request: Invalid value: "2048-bit modulus": RSA keys must have modulus size 3072 or 4096`},
	} {
		got := ""
		if errs := k.Rules.Validate(ofPod(t, tt.key)); len(errs) > 0 {
			got = errs.ToAggregate().Error()
		}
		if got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestPodRequestStays: the spec never changes, and the status by its view only.
func TestPodRequestStays(t *testing.T) {
	k := podRequests(t)
	old := ofPod(t, newKey(t))
	old.Spec.StubPKCS10Request = []byte("x")
	registrytest.Update(t, k, "", old, []registrytest.Change[podRequest]{
		{Name: "labels", To: func(r podRequest) { r.Labels = map[string]string{"a": "b"} }},
		{Name: "spec", To: func(r podRequest) { r.Spec.PodName = "q" }, Refused: []string{
			`spec: Invalid value: {"SignerName":"example.com/ca","PodName":"q","PodUID":"p1","ServiceAccountName":"a","ServiceAccountUID":"a1","NodeName":"n","NodeUID":"n1","MaxExpirationSeconds":86400,"PKIXPublicKey":null,"ProofOfPossession":null,"StubPKCS10Request":"eA==","UnverifiedUserAnnotations":null}: field is immutable`}},
		{Name: "status", To: func(r podRequest) { r.Status.CertificateChain = "x" }},
	})
	next := old.DeepCopy()
	next.Status.CertificateChain = "x"
	if registrytest.Replace(k, "", next, old); next.Status.CertificateChain != "" {
		t.Error("the status has changed")
	}
	next = old.DeepCopy()
	next.Labels, next.Spec.PodName, next.Status.CertificateChain = map[string]string{"a": "b"}, "q", "x"
	if registrytest.Replace(k, "status", next, old); next.Labels != nil || next.Spec.PodName != "p" || next.Status.CertificateChain != "x" {
		t.Errorf("the view of the status wrote %+v", next)
	}
	if got := k.Sub.Views["status"].Resets; !slices.Equal(got, []string{"metadata", "spec"}) {
		t.Errorf("resets %v", got)
	}
}

// TestSigners: only who may sign for the signer changes a status.
func TestSigners(t *testing.T) {
	z := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
		if a.User.Name == "ca" && a.Verb == "sign" && a.Name == "example.com/ca" {
			return authz.Decision{Verdict: authz.Allow}, nil
		}
		return authz.Decision{}, nil
	})
	k := registrytest.Find(t, certificates.Kinds(z), "podcertificaterequests")
	if podRequests(t).Sub.Views["status"].Guard != nil {
		t.Error("without an authorizer there is a guard")
	}
	guard := k.Sub.Views["status"].Guard
	old := ofPod(t, newKey(t))
	denied := old.DeepCopy()
	denied.Status.Conditions = []metav1.Condition{{Type: "Denied", Status: "True"}}
	denied.Spec.SignerName = "example.com/mine"
	for user, want := range map[string]string{
		"ca":  "",
		"ann": `podcertificaterequests.certificates.k8s.io "r": invalid: spec.signerName: Forbidden: User "ann" is not permitted to "sign" for signer "example.com/ca"`,
		"":    `podcertificaterequests.certificates.k8s.io "r": invalid: spec.signerName: Internal error: cannot determine calling user to perform "sign" check`,
	} {
		ctx := t.Context()
		if user != "" {
			ctx = authn.NewContext(ctx, &authn.Identity{Name: user})
		}
		if err := guard(ctx, old.DeepCopy(), old); err != nil {
			t.Errorf("%q changes nothing: %v", user, err)
		}
		err, got := guard(ctx, denied, old), ""
		if err != nil {
			got = err.Error()
		}
		if got != want || want != "" && !errors.Is(err, registry.ErrInvalid) {
			t.Errorf("%q: %v", user, err)
		}
	}
}
