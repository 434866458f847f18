package node_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/node"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
)

// TestNamesInPods: only what a pod names is used by it, and each thing once; a claim that is made of a template has its name in the status.
func TestNamesInPods(t *testing.T) {
	c := start()
	pod := busy()
	twice := pod.Spec.Volumes[0]
	pod.Spec.Volumes = append(pod.Spec.Volumes, twice, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}})
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "none"}, corev1.PodResourceClaim{Name: "pending", ResourceClaimTemplateName: ptr.To("t")})
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{
		{Name: "none", ResourceClaimName: ptr.To("invented")}, {Name: "pending"}, {Name: "b", ResourceClaimName: ptr.To("made")}, {Name: "c", ResourceClaimName: ptr.To("other")},
	}
	c.pods.put(pod)
	for name, want := range map[string]bool{"gpu": true, "made": true, "other": true, "extended": true, "invented": false} {
		if got := c.reads(t, "n1", "resource.k8s.io", "resourceclaims", "dev", name); got != want {
			t.Errorf("claim %s: %t", name, got)
		}
	}
	keys := c.pods.values(pod)
	slices.Sort(keys)
	if once := slices.Compact(slices.Clone(keys)); len(once) != len(keys) {
		t.Errorf("filed twice: %q", keys)
	}
	// Nothing is nobody's: a volume that is bound to a claim without a name is not that of a pod that names none.
	c.volumes.put(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "dev"}}})
	if c.reads(t, "n1", "", "persistentvolumes", "", "pv") {
		t.Error("a claim without a name is used")
	}
	pod.Spec.NodeName = ""
	if keys := c.pods.values(pod); len(keys) != 0 {
		t.Errorf("a pod on no node is filed under %q", keys)
	}
}

// TestSecretsOfVolumes: the secrets of a volume are where it says, or where its claim is, or there are none.
func TestSecretsOfVolumes(t *testing.T) {
	ref := func(namespace, name string) *corev1.SecretReference {
		return &corev1.SecretReference{Namespace: namespace, Name: name}
	}
	for name, tt := range map[string]struct {
		source corev1.PersistentVolumeSource
		want   []string
	}{
		"share at home":       {corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "s", SecretNamespace: ptr.To("")}}, []string{"sdev/s"}},
		"share elsewhere":     {corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "s", SecretNamespace: ptr.To("far")}}, []string{"sfar/s"}},
		"share":               {corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{}}, nil},
		"reference at home":   {corev1.PersistentVolumeSource{CephFS: &corev1.CephFSPersistentVolumeSource{SecretRef: ref("", "s")}}, []string{"sdev/s"}},
		"reference elsewhere": {corev1.PersistentVolumeSource{CephFS: &corev1.CephFSPersistentVolumeSource{SecretRef: ref("far", "s")}}, []string{"sfar/s"}},
		"no reference":        {corev1.PersistentVolumeSource{CephFS: &corev1.CephFSPersistentVolumeSource{}}, nil},
		"no name":             {corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{SecretRef: ref("far", "")}}, nil},
		"cinder":              {corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{}}, nil},
		"storageos":           {corev1.PersistentVolumeSource{StorageOS: &corev1.StorageOSPersistentVolumeSource{}}, nil},
		"csi": {corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			NodePublishSecretRef: ref("far", "s"), NodeStageSecretRef: ref("far", "r"), NodeExpandSecretRef: ref("far", "s")}}, []string{"sfar/r", "sfar/s"}},
		"csi without": {corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{}}, nil},
	} {
		c := start()
		v := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: tt.source, ClaimRef: &corev1.ObjectReference{Namespace: "dev", Name: "data"}}}
		if got := c.volumes.values(v); !slices.Equal(got, tt.want) {
			t.Errorf("%s: filed under %q, want %q", name, got, tt.want)
		}
	}
}

// TestVerbsOfNodes: what a node may write it may update and patch; an account it may read as its namespace's, and name for a token.
func TestVerbsOfNodes(t *testing.T) {
	var c expected
	for _, verb := range []string{"update", "patch"} {
		c.allow(verb+" claim status", ask("n1", verb, "", "persistentvolumeclaims", "status", "dev", "data"))
		c.allow(verb+" node status", ask("n1", verb, "", "nodes", "status", "", "n1"))
		c.allow(verb+" pod status", ask("n1", verb, "", "pods", "status", "dev", "any"))
	}
	c.refuse("account everywhere", ask("n1", "get", "", "serviceaccounts", "", "", "sa"), "can only read namespaced object of this type")
	c.refuse("read a token", ask("n1", "get", "", "serviceaccounts", "token", "dev", "sa"), "can only create tokens for individual service accounts")
	c.refuse("token of nobody", ask("n1", "create", "", "serviceaccounts", "token", "dev", ""), "can only create tokens for individual service accounts")
	two := selecting(ask("n1", "list", "", "pods", "", "", ""), "spec.nodeName", "=", "n1")
	two.FieldSelector[1].Values = []string{"n1", "n2"}
	c.refuse("pods of two nodes", two, "can only list/watch pods with spec.nodeName field selector")
	c.hold(t)
}

// TestPathsAreNotJudged: only resources are divided by node; the rest is for common.
func TestPathsAreNotJudged(t *testing.T) {
	var pods table[*corev1.Pod]
	z := node.New(node.Sources{Pods: &pods}, authz.Func(func(context.Context, authz.Attributes) (authz.Decision, error) {
		return authz.Decision{Verdict: authz.Allow}, nil
	}))
	for name, a := range map[string]authz.Attributes{
		"path": {User: kubelet("n1"), Verb: "get", Path: "/healthz"}, "path with more": {User: kubelet("n1"), Verb: "delete", Path: "/api", Resource: "secrets"},
	} {
		if d, err := z.Authorize(t.Context(), a); err != nil || d.Verdict != authz.Allow {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
}

// TestWithoutSources: what there is no source of nobody has to do with.
func TestWithoutSources(t *testing.T) {
	var pods table[*corev1.Pod]
	z := node.New(node.Sources{Pods: &pods}, rbac.Rules(bootstrap.NodeRules()))
	pods.put(busy())
	for _, a := range []authz.Attributes{
		ask("n1", "get", "", "persistentvolumes", "", "", "x"), ask("n1", "get", "storage.k8s.io", "volumeattachments", "", "", "x"),
		ask("n1", "get", "resource.k8s.io", "resourceslices", "", "", "x"), ask("n1", "get", "certificates.k8s.io", "podcertificaterequests", "", "dev", "x"),
	} {
		if d, err := z.Authorize(t.Context(), a); err != nil || d.Verdict != authz.NoOpinion || d.Reason != unrelated {
			t.Errorf("%s: %v, %v", a.Resource, d, err)
		}
	}
}
