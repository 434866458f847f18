package certificates_test

import (
	"reflect"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/certificates"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestColumns(t *testing.T) {
	now := time.Unix(1e9, 0)
	request := func(changes ...func(signingRequest)) signingRequest {
		r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r", CreationTimestamp: metav1.Unix(1e9-60, 0)}}
		for _, change := range changes {
			change(r)
		}
		return r
	}
	full := func(r signingRequest) {
		r.Spec.SignerName, r.Spec.Username, r.Spec.ExpirationSeconds = "example.com/ca", "ann", new(int32(86400*3))
	}
	signed := func(r signingRequest) { r.Status.Certificate = []byte("x") }
	for _, tt := range []struct {
		plural string
		obj    registry.Object
		want   []any
	}{
		{"certificatesigningrequests", request(), []any{"r", "60s", "<none>", "", "<none>", "Pending"}},
		{"certificatesigningrequests", request(full, add("Approved", "True"), signed), []any{"r", "60s", "example.com/ca", "ann", "3d", "Approved,Issued"}},
		{"certificatesigningrequests", request(add("Approved", "True"), add("Denied", "True"), add("Failed", "True"), signed), []any{"r", "60s", "<none>", "", "<none>", "Denied,Failed,Issued"}},
		{"clustertrustbundles", &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, []any{"b", "<none>"}},
		{"clustertrustbundles", bundle(t), []any{"example.com:ca:b", "example.com/ca"}},
		{"podcertificaterequests", ofPod(t, newKey(t)), []any{"r", "p", "a", "n", "example.com/ca", "Pending", "<none>"}},
		{"podcertificaterequests", func() registry.Object {
			r := ofPod(t, newKey(t))
			r.Spec.UnverifiedUserAnnotations = map[string]string{"b": "2", "a": "1"}
			r.Status.Conditions = ended("Denied", "X")
			return r
		}(), []any{"r", "p", "a", "n", "example.com/ca", "Denied", "a=1,b=2"}},
	} {
		if got := registrytest.Find(t, certificates.Kinds(nil), tt.plural).Columns.Cells(tt.obj, now); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestOlder: objects are read that servers stored as v1beta1, and requests get what that version let them omit.
func TestOlder(t *testing.T) {
	read := func(plural string, obj runtime.Object) registry.Object {
		older := registrytest.Find(t, certificates.Kinds(nil), plural).Older
		if len(older) != 1 || older[0].GroupVersion != v1beta1.SchemeGroupVersion || reflect.TypeOf(older[0].New()) != reflect.TypeOf(obj) {
			t.Fatalf("older versions %+v", older)
		}
		if written := plural != "certificatesigningrequests"; older[0].Written != written {
			t.Errorf("%s: written by others: %t", plural, older[0].Written)
		}
		return older[0].ToStored(obj)
	}
	meta := metav1.ObjectMeta{Name: "x"}
	now := metav1.Unix(1e9, 0)
	got := read("certificatesigningrequests", &v1beta1.CertificateSigningRequest{
		ObjectMeta: meta,
		Spec: v1beta1.CertificateSigningRequestSpec{
			Request: []byte("x"), SignerName: new("example.com/ca"), ExpirationSeconds: new(int32(7)), Usages: []v1beta1.KeyUsage{"any"},
			Username: "ann", UID: "1", Groups: []string{"g"}, Extra: map[string]v1beta1.ExtraValue{"k": {"v"}},
		},
		Status: v1beta1.CertificateSigningRequestStatus{Certificate: []byte("y"), Conditions: []v1beta1.CertificateSigningRequestCondition{
			{Type: "Approved", Reason: "R", Message: "m", LastUpdateTime: now, LastTransitionTime: now}, {Type: "x", Status: "False"},
		}},
	})
	want := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: meta,
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: []byte("x"), SignerName: "example.com/ca", ExpirationSeconds: new(int32(7)), Usages: []certificatesv1.KeyUsage{"any"},
			Username: "ann", UID: "1", Groups: []string{"g"}, Extra: map[string]certificatesv1.ExtraValue{"k": {"v"}},
		},
		Status: certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("y"), Conditions: []certificatesv1.CertificateSigningRequestCondition{
			{Type: "Approved", Status: "True", Reason: "R", Message: "m", LastUpdateTime: now, LastTransitionTime: now}, {Type: "x", Status: "False"},
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for name, tt := range map[string]struct {
		request []byte
		usages  []v1beta1.KeyUsage
		signer  string
	}{
		"nothing":            {nil, nil, "kubernetes.io/legacy-unknown"},
		"someone":            {block("CERTIFICATE REQUEST", asking(t, newKey(t), "ann")), nil, "kubernetes.io/legacy-unknown"},
		"a kubelet":          {kubelets(t), []v1beta1.KeyUsage{"digital signature", "client auth"}, "kubernetes.io/kube-apiserver-client-kubelet"},
		"a kubelet's server": {kubelets(t, "a"), []v1beta1.KeyUsage{"digital signature", "server auth"}, "kubernetes.io/kubelet-serving"},
	} {
		got := read("certificatesigningrequests", &v1beta1.CertificateSigningRequest{
			Spec: v1beta1.CertificateSigningRequestSpec{Request: tt.request, Usages: tt.usages},
		}).(signingRequest)
		usages := 2 // two are the default, as those of the cases
		if got.Spec.SignerName != tt.signer || len(got.Spec.Usages) != usages {
			t.Errorf("%s: %+v", name, got.Spec)
		}
	}
	b := bundle(t)
	if got := read("clustertrustbundles", &v1beta1.ClusterTrustBundle{ObjectMeta: b.ObjectMeta, Spec: v1beta1.ClusterTrustBundleSpec(b.Spec)}); !reflect.DeepEqual(got, b) {
		t.Errorf("%+v", got)
	}
	r := ofPod(t, newKey(t))
	r.Spec.UnverifiedUserAnnotations = map[string]string{"a": "b"}
	r.Status.Conditions = ended("Issued")
	old := &v1beta1.PodCertificateRequest{ObjectMeta: r.ObjectMeta, Status: v1beta1.PodCertificateRequestStatus(r.Status), Spec: v1beta1.PodCertificateRequestSpec{
		SignerName: "example.com/ca", PodName: "p", PodUID: "p1", ServiceAccountName: "a", ServiceAccountUID: "a1", NodeName: "n", NodeUID: "n1",
		MaxExpirationSeconds: new(int32(86400)), StubPKCS10Request: r.Spec.StubPKCS10Request, UnverifiedUserAnnotations: map[string]string{"a": "b"},
	}}
	if got := read("podcertificaterequests", old); !reflect.DeepEqual(got, r) {
		t.Errorf("%+v", got)
	}
}
