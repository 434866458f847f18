package noderestriction_test

import (
	"encoding/pem"
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/noderestriction"
)

// TestOtherTypes: an object of another type than its resource is refused.
func TestOtherTypes(t *testing.T) {
	object := func(r *admission.Request) { r.Object = &corev1.Node{} }
	pods := func(r *admission.Request) { r.Object = pod("mine") }
	old := func(r *admission.Request) { r.OldObject = pod("mine") }
	nodes := func(r *admission.Request) { r.OldObject = &corev1.Node{} }
	status := admissiontest.Subresource("status")
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "x"}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "mine"}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}}
	const typeNode, typePod = `unexpected type *v1.Node`, `unexpected type *v1.Pod`
	run(t, []judged{
		{"node", admissiontest.Update(t, node("mine", nil), node("mine", nil), byNode, pods), `nodes "mine" is forbidden: ` + typePod},
		{"old node", admissiontest.Update(t, node("mine", nil), node("mine", nil), byNode, old), `nodes "mine" is forbidden: ` + typePod},
		{"lease", admissiontest.Create(t, lease, byNode, object), `leases.coordination.k8s.io "mine" is forbidden: ` + typeNode},
		{"claim", admissiontest.Update(t, claim, claim, byNode, status, object), `persistentvolumeclaims "x" is forbidden: ` + typeNode},
		{"old claim", admissiontest.Update(t, claim, claim, byNode, status, nodes), `persistentvolumeclaims "x" is forbidden: ` + typeNode},
		{"pod's status", admissiontest.Update(t, pod("mine"), pod("mine"), byNode, status, object), `pods "pod" is forbidden: ` + typeNode},
		{"old pod", admissiontest.Update(t, pod("mine"), pod("mine"), byNode, status, nodes), `pods "pod" is forbidden: ` + typeNode},
		{"eviction", admissiontest.Create(t, eviction, at(schema.GroupResource{Resource: "pods"}, "eviction", "pod"), object), `pods "pod" is forbidden: ` + typeNode},
		{"slice", admissiontest.Create(t, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, byNode, object), `resourceslices.resource.k8s.io "s" is forbidden: ` + typeNode},
		{"CSR", admissiontest.Create(t, &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, byNode, object), `certificatesigningrequests.certificates.k8s.io "c" is forbidden: ` + typeNode},
		{"pod's certificate", admissiontest.Create(t, &certificatesv1.PodCertificateRequest{ObjectMeta: meta}, byNode, object,
			func(r *admission.Request) { r.Resource.Resource = "podcertificaterequests" }), `podcertificaterequests.certificates.k8s.io "x" is forbidden: ` + typeNode},
		{"CSINode", admissiontest.Create(t, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, byNode, func(r *admission.Request) { r.Object = &metav1.Status{} }),
			`csinodes.storage.k8s.io "mine" is forbidden: unable to access the object name`},
	})
}

// TestCreateUsesObjectName: a create is checked by the object's own name; the request has no name yet.
func TestCreateUsesObjectName(t *testing.T) {
	nameless := func(r *admission.Request) { byNode(r); r.Name = "" }
	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: name}}
	}
	csi := func(name string) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	eviction := func(name string) *admission.Request {
		return admissiontest.Create(t, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}, at(schema.GroupResource{Resource: "pods"}, "eviction", ""))
	}
	run(t, []judged{
		{"lease", admissiontest.Create(t, lease("mine"), nameless), ""},
		{"another's lease", admissiontest.Create(t, lease("other"), nameless), `leases.coordination.k8s.io "other" is forbidden: can only access node lease with the same name as the requesting node`},
		{"CSINode", admissiontest.Create(t, csi("mine"), nameless), ""},
		{"another's CSINode", admissiontest.Create(t, csi("other"), nameless), `csinodes.storage.k8s.io "other" is forbidden: can only access CSINode with the same name as the requesting node`},
		{"eviction", eviction("pod"), ""},
		{"another's eviction", eviction("foreign"), `pods "foreign" is forbidden: node mine can only evict pods with spec.nodeName set to itself`},
		{"eviction that says another name", admissiontest.Create(t, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "foreign"}},
			at(schema.GroupResource{Resource: "pods"}, "eviction", "pod")), ""},
	})
}

// TestUnrestrictedRequests: requests pass that only the Node authorizer, or nobody, restricts.
func TestUnrestrictedRequests(t *testing.T) {
	other := "other"
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{NodeName: &other}}
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeletServingSignerName, Request: []byte("x")}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "account"}}
	configured := func(n *corev1.Node) { n.Spec.ConfigSource = &corev1.NodeConfigSource{} }
	no := false
	unblocking := pod("mine", mirrored, func(p *corev1.Pod) { p.OwnerReferences[0].BlockOwnerDeletion = &no })
	eviction := admissiontest.Create(t, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}}, at(schema.GroupResource{Resource: "pods"}, "eviction", "pod"))
	eviction.Operation = admission.Update
	run(t, []judged{
		{"update of a slice", admissiontest.Update(t, slice, slice, byNode), ""},
		{"update of a CSR", admissiontest.Update(t, csr, csr, byNode), ""},
		{"update of an account", admissiontest.Update(t, account, account, byNode), ""},
		{"update of an account's token", admissiontest.Update(t, account, account, byNode, admissiontest.Subresource("token")), ""},
		{"a node that stays configured", admissiontest.Update(t, node("mine", nil, configured), node("mine", nil, configured), byNode), ""},
		{"a label that is called as a domain", admissiontest.Create(t, node("mine", map[string]string{"kubernetes.io": "x", "k8s.io": "x"}), byNode), ""},
		{"an owner that does not block", admissiontest.Create(t, unblocking, byNode), ""},
		{"update of an eviction", eviction, `pods "pod" is forbidden: unexpected operation UPDATE`},
	})
}

// TestWrongPEMBlock: a certificate is not a certificate request, though it is PEM.
func TestWrongPEMBlock(t *testing.T) {
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeletServingSignerName, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})}}
	admissiontest.Refuses(t, plugin(), admissiontest.Create(t, csr, byNode),
		`certificatesigningrequests.certificates.k8s.io "c" is forbidden: unable to parse csr: PEM block type must be CERTIFICATE REQUEST`)
}

// TestPodCertificatesWithoutCaches: an object missing from the caches is not a refusal.
func TestPodCertificatesWithoutCaches(t *testing.T) {
	whole := sources(pod("mine"))
	nodeless, accountless := whole, whole
	nodeless.Nodes, accountless.ServiceAccounts = nil, nil
	for want, in := range map[string]noderestriction.Sources{
		`while retrieving node "mine" named in the PodCertificateRequest: node "mine" not found`:                               nodeless,
		`while retrieving service account "ns/account" named in the PodCertificateRequest: serviceaccount "account" not found`: accountless,
	} {
		r := admissiontest.Create(t, &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/x", PodName: "pod", PodUID: "pod-uid", ServiceAccountName: "account", ServiceAccountUID: "account-uid", NodeName: "mine", NodeUID: "node-uid",
		}}, byNode, func(r *admission.Request) { r.Resource.Resource = "podcertificaterequests" })
		err := noderestriction.New(in, nil).Admit(t.Context(), r)
		var refusal *admission.Error
		if err == nil || err.Error() != want || errors.As(err, &refusal) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestMigratedVolumes: formerly in-tree volumes belong to the CSI drivers that serve them now, wherever they
// appear.
func TestMigratedVolumes(t *testing.T) {
	const audience = "aud"
	for driver, v := range map[string]struct {
		inline     corev1.VolumeSource
		persistent corev1.PersistentVolumeSource
	}{
		"pd.csi.storage.gke.io":    {corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}}, corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}}},
		"ebs.csi.aws.com":          {corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}, corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}},
		"cinder.csi.openstack.org": {corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{}}, corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{}}},
		"disk.csi.azure.com":       {corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{}}, corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{}}},
		"file.csi.azure.com":       {corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{}}, corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{}}},
		"csi.vsphere.vmware.com":   {corev1.VolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}}, corev1.PersistentVolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}}},
		"pxd.portworx.com":         {corev1.VolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{}}, corev1.PersistentVolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{}}},
		"none":                     {corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}, corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{}}},
	} {
		claimed := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}
		for place, volume := range map[string]corev1.VolumeSource{"inline": v.inline, "claimed": claimed} {
			mine := pod("mine")
			mine.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: volume}}
			in := sources(mine)
			in.Volumes = getter[*corev1.PersistentVolume]{"/volume": {Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: v.persistent}}}
			in.Drivers = getter[*storagev1.CSIDriver]{"/" + driver: {Spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "x"}, {Audience: audience}}}}}
			r := token(t, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: "pod-uid"}, audience)
			err, want := noderestriction.New(in, nil).Admit(t.Context(), r), ""
			if driver == "none" {
				want = `serviceaccounts "account" is forbidden: system:node:mine is not authorized to request tokens for audience "aud"`
			}
			if (err == nil) != (want == "") || err != nil && err.Error() != want {
				t.Errorf("%s, %s: %v", driver, place, err)
			}
		}
	}
}
