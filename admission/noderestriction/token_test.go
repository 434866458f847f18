package noderestriction_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/noderestriction"
)

// token returns a request for a token of the service account.
func token(t *testing.T, ref *authenticationv1.BoundObjectReference, audiences ...string) *admission.Request {
	t.Helper()
	body := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: ref, Audiences: audiences}}
	return admissiontest.Create(t, body, at(schema.GroupResource{Resource: "serviceaccounts"}, "token", "account"))
}

func TestTokens(t *testing.T) {
	ref := func(change ...func(*authenticationv1.BoundObjectReference)) *authenticationv1.BoundObjectReference {
		r := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: "pod-uid"}
		for _, c := range change {
			c(r)
		}
		return r
	}
	type bound = authenticationv1.BoundObjectReference
	const pre = `serviceaccounts "account" is forbidden: `
	const unbound = pre + `node requested token not bound to a pod`
	run(t, []judged{
		{"of a pod", token(t, ref()), ""},
		{"for the API server", token(t, ref(), ""), ""},
		{"for an audience that it mounts", token(t, ref(), "vault"), ""},
		{"for an audience that is granted", token(t, ref(), "granted"), ""},
		{"for another audience", token(t, ref(), "bank"), pre + `system:node:mine is not authorized to request tokens for audience "bank"`},
		{"for two", token(t, ref(), "", "vault"), pre + `node may only request 0 or 1 audiences`},
		{"authorizer broken", token(t, ref(), "broken"), pre + `error authorizing system:node:mine to request tokens for audience "broken": no connection`},
		{"unbound", token(t, nil), unbound},
		{"of a node", token(t, ref(func(r *bound) { r.Kind = "Node" })), unbound},
		{"of another version", token(t, ref(func(r *bound) { r.APIVersion = "v2" })), unbound},
		{"of nobody", token(t, ref(func(r *bound) { r.Name = "" })), unbound},
		{"of any UID", token(t, ref(func(r *bound) { r.UID = "" })), pre + `node requested token with a pod binding without a uid`},
		{"of another UID", token(t, ref(func(r *bound) { r.UID = "old" })),
			pre + `the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated`},
		{"of another's pod", token(t, ref(func(r *bound) { r.Name = "foreign" })), pre + `node requested token bound to a pod scheduled on a different node`},
		{"of a missing pod", token(t, ref(func(r *bound) { r.Name = "gone" })), `pod "gone" not found`},
		{"another body", admissiontest.Create(t, pod("mine"), at(schema.GroupResource{Resource: "serviceaccounts"}, "token", "account")), pre + `unexpected type *v1.Pod`},
		{"no token", admissiontest.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "account"}}, byNode), ""},
	})
}

// TestAudiencesOfVolumes: the audiences for which a volume's driver requests tokens are audiences of the pod.
func TestAudiencesOfVolumes(t *testing.T) {
	const pre = `serviceaccounts "account" is forbidden: `
	claim := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	ephemeral := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}
	for name, test := range map[string]struct {
		volume   corev1.VolumeSource
		audience string
		refusal  string
	}{
		"inline":                 {corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "driver"}}, "csi", ""},
		"inline, another":        {corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "driver"}}, "x", `system:node:mine is not authorized to request tokens for audience "x"`},
		"inline, no such driver": {corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "none"}}, "csi", `error validating audience "csi": csidriver.storage.k8s.io "none" not found`},
		"claim":                  {claim("claim"), "csi", ""},
		"no such claim":          {claim("none"), "csi", `error validating audience "csi": persistentvolumeclaim "none" not found`},
		"claim without a volume": {claim("lost"), "csi", `error validating audience "csi": persistentvolume "nowhere" not found`},
		"ephemeral":              {ephemeral, "csi", ""},
		"migrated volume":        {claim("legacy"), "gce", ""},
		"migrated inline":        {corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{}}, "azure", ""},
		"no driver":              {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, "csi", `system:node:mine is not authorized to request tokens for audience "csi"`},
	} {
		t.Run(name, func(t *testing.T) {
			mine := pod("mine")
			mine.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: test.volume}}
			p := noderestriction.New(sources(mine), nil)
			r := token(t, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: "pod-uid"}, test.audience)
			if test.refusal != "" {
				admissiontest.Refuses(t, p, r, pre+test.refusal)
				return
			}
			admissiontest.Admits(t, p, r, r.Object)
		})
	}
}

func TestCertificateSigningRequests(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request := func(cn string) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: cn}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	create := func(signer string, data []byte) *admission.Request {
		return admissiontest.Create(t, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Request: data},
		}, byNode)
	}
	const pre = `certificatesigningrequests.certificates.k8s.io "c" is forbidden: `
	const serving, kubelet = "kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"
	run(t, []judged{
		{"serving", create(serving, request("system:node:mine")), ""},
		{"client", create(kubelet, request("system:node:mine")), ""},
		{"another's", create(serving, request("system:node:other")), pre + `can only create a node CSR with CN=system:node:mine`},
		{"another's client", create(kubelet, request("system:node:other")), pre + `can only create a node CSR with CN=system:node:mine`},
		{"another signer", create("example.com/x", request("jane")), ""},
		{"garbage", create(serving, []byte("x")), pre + `unable to parse csr: PEM block type must be CERTIFICATE REQUEST`},
	})
}

func TestPodCertificateRequests(t *testing.T) {
	type spec = certificatesv1.PodCertificateRequestSpec
	create := func(changes ...func(*spec)) *admission.Request {
		r := &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Spec: spec{
			SignerName: "example.com/mounted", PodName: "pod", PodUID: "pod-uid", ServiceAccountName: "account", ServiceAccountUID: "account-uid",
			NodeName: "mine", NodeUID: "node-uid",
		}}
		for _, change := range changes {
			change(&r.Spec)
		}
		return admissiontest.Create(t, r, byNode, func(r *admission.Request) { r.Resource.Resource = "podcertificaterequests" })
	}
	update := *create()
	update.Operation = admission.Update
	status := *create()
	status.Subresource = "status"
	const pre = `podcertificaterequests.certificates.k8s.io "c" is forbidden: `
	run(t, []judged{
		{"mounted", create(), ""},
		{"granted", create(func(s *spec) { s.SignerName = "example.com/granted" }), ""},
		{"another signer", create(func(s *spec) { s.SignerName = "example.com/x" }), pre + `pod "ns/pod" does not mount a podCertificate projected volume for signer "example.com/x"`},
		{"authorizer broken", create(func(s *spec) { s.SignerName = "example.com/broken" }),
			pre + `error authorizing system:node:mine to request podcertificaterequests for signer "example.com/broken": no connection`},
		{"update", &update, pre + `unexpected operation UPDATE`},
		{"status", &status, pre + `unexpected subresource status`},
		{"another node", create(func(s *spec) { s.NodeName = "other" }), pre + `PodCertificateRequest.Spec.NodeName="other", which is not the requesting node "mine"`},
		{"another's pod", create(func(s *spec) { s.PodName = "foreign" }), pre + `pod "ns/foreign" is not running on node "mine" named in the PodCertificateRequest`},
		{"a mirror pod", create(func(s *spec) { s.PodName = "mirror" }), pre + `pod "ns/mirror" is a mirror pod`},
		{"another account", create(func(s *spec) { s.ServiceAccountName = "x" }), pre + `PodCertificateRequest for pod "ns/pod" contains serviceAccountName ("x") that differs from running pod ("account")`},
	})
	// A failure that time may resolve is neither a refusal nor a "not found".
	for _, test := range []struct {
		request *admission.Request
		want    string
	}{
		{create(func(s *spec) { s.NodeUID = "x" }), `PodCertificateRequest for pod "ns/pod" names node UID "x", inconsistent with the running node ("node-uid")`},
		{create(func(s *spec) { s.PodName = "gone" }), `while retrieving pod "ns/gone" named in the PodCertificateRequest: pod "gone" not found`},
		{create(func(s *spec) { s.PodUID = "x" }), `PodCertificateRequest for pod "ns/pod" contains pod UID ("x") which differs from running pod "pod-uid"`},
		{create(func(s *spec) { s.ServiceAccountUID = "x" }), `PodCertificateRequest for pod "ns/pod" names service account UID "x", which differs from the running service account ("account-uid")`},
	} {
		_, err := admissiontest.Run(t, plugin(), test.request)
		var refusal *admission.Error
		if err == nil || err.Error() != test.want || errors.As(err, &refusal) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}
