package cluster_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	stdx509 "crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/bootstraptoken"
	"github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/controllers/bootstrapsigner"
	"github.com/keelson-dev/keelson/controllers/clustertrustbundlepublisher"
	"github.com/keelson-dev/keelson/pki"
	"github.com/keelson-dev/keelson/registry"
)

// asking returns a request for a client certificate of a name and groups.
func asking(t *testing.T, name, signer, subject string, groups ...string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: stub(t, subject, groups...)}), SignerName: signer,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
}

// stub returns a request in PKCS#10.
func stub(t *testing.T, subject string, groups ...string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := stdx509.CreateCertificateRequest(rand.Reader, &stdx509.CertificateRequest{Subject: pkix.Name{CommonName: subject, Organization: groups}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// kubelets asks for a kubelet's client certificate.
func kubelets(t *testing.T, name, node string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return asking(t, name, certificatesv1.KubeAPIServerClientKubeletSignerName, "system:node:"+node, authn.GroupNodes)
}

// request makes a request as somebody.
func (w *world) request(cs kubernetes.Interface, r *certificatesv1.CertificateSigningRequest) {
	w.t.Helper()
	_, err := cs.CertificatesV1().CertificateSigningRequests().Create(w.ctx, r, metav1.CreateOptions{FieldManager: "kubelet"})
	w.check(err)
	time.Sleep(5 * time.Second)
}

func (w *world) requested(name string) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	r, err := w.cs.CertificatesV1().CertificateSigningRequests().Get(w.ctx, name, metav1.GetOptions{})
	w.check(err)
	return r
}

// decide gives a request a condition as somebody.
func (w *world) decide(cs kubernetes.Interface, name string, kind certificatesv1.RequestConditionType) error {
	w.t.Helper()
	r := w.requested(name)
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: "True", Reason: "ByHand"})
	_, err := cs.CertificatesV1().CertificateSigningRequests().UpdateApproval(w.ctx, name, r, metav1.UpdateOptions{})
	time.Sleep(5 * time.Second)
	return err
}

// user returns whom the API server would take for the owner of the certificate of a request.
func (w *world) user(name string, authority *pki.Authority) *authn.Identity {
	w.t.Helper()
	r := w.requested(name)
	block, _ := pem.Decode(r.Status.Certificate)
	if block == nil {
		w.t.Fatalf("%s has no certificate: %+v", name, r.Status)
	}
	cert, err := stdx509.ParseCertificate(block.Bytes)
	w.check(err)
	id, err := x509.New(x509.Static{Roots: authority.Pool()}).Authenticate(&http.Request{
		TLS: &tls.ConnectionState{PeerCertificates: []*stdx509.Certificate{cert}},
	})
	w.check(err)
	return id
}

// bind binds a cluster role to a group.
func (w *world) bind(role, group string) {
	w.t.Helper()
	_, err := w.cs.RbacV1().ClusterRoleBindings().Create(w.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role + ":" + group},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: group}},
	}, metav1.CreateOptions{})
	w.check(err)
}

// TestCertificates: a node joins with the identity of a bootstrap token and renews its certificate, a person gets one, and
// nothing of it is left some hours later. The controllers act under upstream's identities and roles.
func TestCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := pki.New("kubernetes") // in the bubble's time
		if err != nil {
			t.Fatal(err)
		}
		seen := newWitness()
		o := seen.options(cluster.Options{Server: cluster.Server{RootCA: authority.PEM(), Signer: authority}})
		c := start(t, o)
		w := &world{t: t, ctx: t.Context(), c: c, cs: clientset(t, c.Config())}
		w.bind("system:node-bootstrapper", "system:bootstrappers")
		w.bind("system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers")
		w.bind("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", authn.GroupNodes)
		w.nodeJoins(authority)
		w.personGetsCertificate(authority)
		w.podsCertificates()
		bundles, err := w.cs.CertificatesV1().ClusterTrustBundles().List(w.ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + clustertrustbundlepublisher.SignerName})
		w.check(err)
		if len(bundles.Items) != 1 || bundles.Items[0].Spec.TrustBundle != string(authority.PEM()) {
			t.Errorf("published are %+v", bundles.Items)
		}
		time.Sleep(4 * time.Hour)
		left, err := w.cs.CertificatesV1().CertificateSigningRequests().List(w.ctx, metav1.ListOptions{})
		w.check(err)
		if len(left.Items) > 0 {
			t.Errorf("left are %+v", left.Items)
		}
		for _, bad := range seen.violations(t, c) {
			if !strings.HasPrefix(bad, "system:bootstrap:") && !strings.HasPrefix(bad, "ann") && !strings.HasPrefix(bad, "ben") && !strings.HasPrefix(bad, "system:node:m:") {
				t.Error(bad)
			}
		}
	})
}

// nodeJoins lets a node join, and renew its certificate.
func (w *world) nodeJoins(authority *pki.Authority) {
	w.t.Helper()
	bootstrap := clientset(w.t, w.c.ConfigFor(&authn.Identity{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", authn.GroupAuthenticated}}))
	w.request(bootstrap, kubelets(w.t, "joins", "node-new"))
	r := w.requested("joins")
	if s := r.Spec; s.Username != "system:bootstrap:abcdef" || !slices.Equal(s.Groups, []string{"system:bootstrappers", "system:authenticated"}) {
		w.t.Errorf("requested by %s of %q", s.Username, s.Groups)
	}
	if c := r.Status.Conditions; len(c) != 1 || c[0].Message != "Auto approving kubelet client certificate after SubjectAccessReview." {
		w.t.Errorf("conditions are %+v", c)
	}
	for _, f := range r.ManagedFields {
		if f.Manager == "kubelet" && strings.Contains(f.FieldsV1.String(), "f:spec") {
			w.t.Errorf("who requests owns what the server sets: %s", f.FieldsV1)
		}
	}
	id := w.user("joins", authority)
	if id.Name != "system:node:node-new" || !slices.Equal(id.Groups, []string{authn.GroupNodes}) {
		w.t.Fatalf("the certificate is that of %+v", id)
	}
	node := clientset(w.t, w.c.ConfigFor(&authn.Identity{Name: id.Name, Groups: append(id.Groups, authn.GroupAuthenticated)}))
	_, err := node.CoreV1().Nodes().Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-new"}}, metav1.CreateOptions{})
	w.check(err)
	w.request(node, kubelets(w.t, "renews", "node-new"))
	if c := w.requested("renews").Status.Conditions; len(c) != 1 || c[0].Message != "Auto approving self kubelet client certificate after SubjectAccessReview." {
		w.t.Errorf("conditions are %+v", c)
	}
	w.user("renews", authority)
	if _, err := node.CertificatesV1().CertificateSigningRequests().Create(w.ctx, kubelets(w.t, "poses", "node-other"), metav1.CreateOptions{}); err == nil ||
		err.Error() != `certificatesigningrequests.certificates.k8s.io "poses" is forbidden: can only create a node CSR with CN=system:node:node-new` {
		w.t.Errorf("a node poses as another: %v", err)
	}
}

// personGetsCertificate lets a person get a certificate once somebody approves, who may approve.
func (w *world) personGetsCertificate(authority *pki.Authority) {
	w.t.Helper()
	const signer = certificatesv1.KubeAPIServerClientSignerName
	w.request(w.cs, asking(w.t, "ann", signer, "ann", "readers"))
	_, err := w.cs.CertificatesV1().CertificateSigningRequests().Create(w.ctx, asking(w.t, "root", signer, "ann", authn.GroupMasters), metav1.CreateOptions{})
	if want := `certificatesigningrequests.certificates.k8s.io "root" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed`; err == nil || err.Error() != want {
		w.t.Errorf("a certificate of masters: %v", err)
	}
	w.bind("admin-of-requests", "approvers")
	_, err = w.cs.RbacV1().ClusterRoles().Create(w.ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "admin-of-requests"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests/approval", "certificatesigningrequests/status"}, Verbs: []string{"update"}}},
	}, metav1.CreateOptions{})
	w.check(err)
	ben := clientset(w.t, w.c.ConfigFor(&authn.Identity{Name: "ben", Groups: []string{"approvers", authn.GroupAuthenticated}}))
	if err := w.decide(ben, "ann", certificatesv1.CertificateApproved); err == nil ||
		err.Error() != `certificatesigningrequests.certificates.k8s.io "ann" is forbidden: user not permitted to approve requests with signerName "kubernetes.io/kube-apiserver-client"` {
		w.t.Errorf("who may not approve for the signer: %v", err)
	}
	forged := w.requested("ann")
	forged.Status.Certificate = authority.PEM()
	if _, err := ben.CertificatesV1().CertificateSigningRequests().UpdateStatus(w.ctx, forged, metav1.UpdateOptions{}); err == nil ||
		err.Error() != `certificatesigningrequests.certificates.k8s.io "ann" is forbidden: user not permitted to sign requests with signerName "kubernetes.io/kube-apiserver-client"` {
		w.t.Errorf("who may not sign for the signer: %v", err)
	}
	w.bind("system:certificates.k8s.io:kube-apiserver-client-approver", "approvers")
	w.check(w.decide(ben, "ann", certificatesv1.CertificateApproved))
	if id := w.user("ann", authority); id.Name != "ann" || !slices.Equal(id.Groups, []string{"readers"}) {
		w.t.Errorf("the certificate is that of %+v", id)
	}
	w.request(w.cs, asking(w.t, "denied", signer, "ann"))
	w.check(w.decide(ben, "denied", certificatesv1.CertificateDenied))
	if r := w.requested("denied"); r.Status.Certificate != nil {
		w.t.Error("what was denied is signed")
	}
}

// podsCertificates requests a certificate for a pod, which nobody signs.
func (w *world) podsCertificates() {
	w.t.Helper()
	requests := w.cs.CertificatesV1().PodCertificateRequests("default")
	r, err := requests.Create(w.ctx, &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/ca", PodName: "p", PodUID: "1", ServiceAccountName: "default", ServiceAccountUID: "2", NodeName: "n", NodeUID: "3",
			StubPKCS10Request: stub(w.t, ""),
		},
	}, metav1.CreateOptions{})
	w.check(err)
	for node, may := range map[string]bool{"n": true, "m": false} {
		cs := clientset(w.t, w.c.ConfigFor(authn.NodeIdentity(node)))
		if _, err := cs.CertificatesV1().PodCertificateRequests("default").Get(w.ctx, "r", metav1.GetOptions{}); (err == nil) != may || err != nil && !apierrors.IsForbidden(err) {
			w.t.Errorf("node %s reads the request of n: %v", node, err)
		}
	}
	ben := clientset(w.t, w.c.ConfigFor(&authn.Identity{Name: "ben", Groups: []string{authn.GroupAuthenticated}}))
	_, err = w.cs.RbacV1().ClusterRoles().Create(w.ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "status-of-requests"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"podcertificaterequests/status"}, Verbs: []string{"update"}}},
	}, metav1.CreateOptions{})
	w.check(err)
	w.bind("status-of-requests", authn.GroupAuthenticated)
	r.Status.Conditions = []metav1.Condition{{Type: "Denied", Status: "True", Reason: "No", LastTransitionTime: metav1.Now()}}
	_, err = ben.CertificatesV1().PodCertificateRequests("default").UpdateStatus(w.ctx, r, metav1.UpdateOptions{})
	if want := `PodCertificateRequest.certificates.k8s.io "r" is invalid: spec.signerName: Forbidden: User "ben" is not permitted to "sign" for signer "example.com/ca"`; err == nil || err.Error() != want {
		w.t.Errorf("who may not sign for the signer: %v", err)
	}
	_, err = requests.UpdateStatus(w.ctx, r, metav1.UpdateOptions{})
	w.check(err)
	time.Sleep(time.Hour)
	if _, err := requests.Get(w.ctx, "r", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		w.t.Errorf("after an hour: %v", err)
	}
}

// TestBootstrapTokens: who has a token can tell that the published kubeconfig is genuine, and is somebody who may be allowed to
// request certificates, until the token expires.
func TestBootstrapTokens(t *testing.T) {
	seen := newWitness()
	o := seen.options(cluster.Options{Components: append(cluster.DefaultComponents(), controllermanager.BootstrapTokens()...)})
	inBubble(t, o, func(t *testing.T, w *world) {
		secrets, maps := w.cs.CoreV1().Secrets("kube-system"), w.cs.CoreV1().ConfigMaps("kube-public")
		_, err := secrets.Create(w.ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
			StringData: map[string]string{
				"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true", "usage-bootstrap-authentication": "true",
				"expiration": time.Now().Add(time.Hour).Format(time.RFC3339),
			},
		}, metav1.CreateOptions{})
		w.check(err)
		_, err = maps.Create(w.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-info"}, Data: map[string]string{"kubeconfig": "x"}}, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(5 * time.Second)
		info, err := maps.Get(w.ctx, "cluster-info", metav1.GetOptions{})
		w.check(err)
		if info.Data["jws-kubeconfig-abcdef"] != bootstrapsigner.Sign("x", "abcdef", "0123456789abcdef") {
			t.Errorf("published is %q", info.Data)
		}
		live, err := registry.NewLive[*corev1.Secret](w.c.Registry(), corev1.Resource("secrets"))
		w.check(err)
		tokens := bootstraptoken.New(live)
		id, err := tokens.Verify(w.ctx, "abcdef.0123456789abcdef")
		w.check(err)
		if id.Name != "system:bootstrap:abcdef" || !slices.Equal(id.Groups, []string{"system:bootstrappers"}) {
			t.Errorf("the user is %+v", id)
		}
		time.Sleep(2 * time.Hour)
		if _, err := secrets.Get(w.ctx, "bootstrap-token-abcdef", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after it has expired: %v", err)
		}
		if info, err = maps.Get(w.ctx, "cluster-info", metav1.GetOptions{}); err != nil || len(info.Data) != 1 {
			t.Errorf("published is %q, %v", info.Data, err)
		}
		if id, err := tokens.Verify(w.ctx, "abcdef.0123456789abcdef"); err == nil {
			t.Errorf("the user is still %+v", id)
		}
		for _, bad := range seen.violations(t, w.c) {
			t.Error(bad)
		}
	})
}

// Checks of what is missing without a component, for TestDisable.

func withoutCSRSigning(w *world) {
	w.request(w.cs, kubelets(w.t, "r", "n"))
	if r := w.requested("r"); len(r.Status.Conditions) != 1 || r.Status.Certificate != nil {
		w.t.Errorf("the request is %+v", r.Status)
	}
}

func withoutCSRApproving(w *world) {
	w.request(w.cs, kubelets(w.t, "r", "n"))
	if r := w.requested("r"); len(r.Status.Conditions) != 0 {
		w.t.Errorf("the request is %+v", r.Status)
	}
	w.check(w.decide(w.cs, "r", certificatesv1.CertificateApproved))
	if r := w.requested("r"); r.Status.Certificate == nil {
		w.t.Errorf("the approved request is %+v", r.Status)
	}
}

func withoutCSRCleaner(w *world) {
	w.request(w.cs, kubelets(w.t, "r", "n"))
	time.Sleep(3 * time.Hour)
	if r := w.requested("r"); r.Status.Certificate == nil {
		w.t.Errorf("the request is %+v", r.Status)
	}
}

func withoutPodCertificateRequestCleaner(w *world) {
	requests := w.cs.CertificatesV1().PodCertificateRequests("default")
	_, err := requests.Create(w.ctx, &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/ca", PodName: "p", PodUID: "1", ServiceAccountName: "default", ServiceAccountUID: "2", NodeName: "n", NodeUID: "3",
			StubPKCS10Request: stub(w.t, ""),
		},
	}, metav1.CreateOptions{})
	w.check(err)
	time.Sleep(time.Hour)
	_, err = requests.Get(w.ctx, "r", metav1.GetOptions{})
	w.check(err)
}

func withoutClusterTrustBundlePublisher(w *world) {
	l, err := w.cs.CertificatesV1().ClusterTrustBundles().List(w.ctx, metav1.ListOptions{})
	if err != nil || len(l.Items) > 0 {
		w.t.Errorf("bundles: %v %v", l.Items, err)
	}
	w.running("web", 2, "")
}
