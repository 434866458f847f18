package node_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/authztest"
	"github.com/keelson-dev/keelson/authz/node"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/informer"
)

// table is a source that a test writes to.
type table[T informer.Object] struct {
	objects map[string]T
	values  func(T) []string
}

func (f *table[T]) put(obj T) {
	if f.objects == nil {
		f.objects = map[string]T{}
	}
	f.objects[obj.GetNamespace()+"/"+obj.GetName()] = obj
}

func (f *table[T]) delete(obj T) { delete(f.objects, obj.GetNamespace()+"/"+obj.GetName()) }

func (f *table[T]) Get(namespace, name string) (T, bool) {
	obj, ok := f.objects[namespace+"/"+name]
	return obj, ok
}

func (f *table[T]) AddIndex(_ string, values func(T) []string) { f.values = values }

func (f *table[T]) ByIndex(_, value string) []T {
	var found []T
	for _, obj := range f.objects {
		if slices.Contains(f.values(obj), value) {
			found = append(found, obj)
		}
	}
	return found
}

type cluster struct {
	pods        table[*corev1.Pod]
	volumes     table[*corev1.PersistentVolume]
	attachments table[*storagev1.VolumeAttachment]
	slices      table[*resourcev1.ResourceSlice]
	requests    table[*certificatesv1.PodCertificateRequest]
	z           *node.Authorizer
}

func start() *cluster {
	c := &cluster{}
	c.z = node.New(node.Sources{
		Pods: &c.pods, Volumes: &c.volumes, Attachments: &c.attachments, ResourceSlices: &c.slices, CertificateRequests: &c.requests,
	}, rbac.Rules(bootstrap.NodeRules()))
	return c
}

func kubelet(name string) *authn.Identity {
	return &authn.Identity{Name: "system:node:" + name, Groups: []string{"system:nodes", "system:authenticated"}}
}

func ask(node, verb, group, resource, sub, namespace, name string) authz.Attributes {
	return authz.Attributes{User: kubelet(node), Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name, ResourceRequest: true}
}

func selecting(a authz.Attributes, field, operator, value string) authz.Attributes {
	a.FieldSelector = []authz.Requirement{{Key: "x", Operator: "=", Values: []string{"y"}}, {Key: field, Operator: operator, Values: []string{value}}}
	return a
}

func env(name string) corev1.EnvVar {
	return corev1.EnvVar{ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef:    &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
	}}
}

func from(name string) corev1.EnvFromSource {
	return corev1.EnvFromSource{
		SecretRef:    &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
	}
}

// busy is a pod on n1 that refers to something in every way.
func busy() *corev1.Pod {
	local := func(name string) *corev1.LocalObjectReference { return &corev1.LocalObjectReference{Name: name} }
	volume := func(source corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: "scratch", VolumeSource: source}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "web"},
		Spec: corev1.PodSpec{
			NodeName: "n1", ServiceAccountName: "sa",
			ImagePullSecrets:    []corev1.LocalObjectReference{{Name: "pull"}, {}},
			InitContainers:      []corev1.Container{{Env: []corev1.EnvVar{env("init"), {Name: "plain"}}}},
			Containers:          []corev1.Container{{Env: []corev1.EnvVar{env("env")}, EnvFrom: []corev1.EnvFromSource{from("from")}}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{EnvFrom: []corev1.EnvFromSource{from("debug")}}}},
			Volumes: []corev1.Volume{
				volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "vol"}}),
				volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: *local("vol")}}),
				volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}),
				volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}),
				volume(corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "azure"}}),
				volume(corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{SecretRef: local("ceph")}}),
				volume(corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{SecretRef: local("cinder")}}),
				volume(corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{SecretRef: local("flex")}}),
				volume(corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{SecretRef: local("rbd")}}),
				volume(corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: local("scaleio")}}),
				volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: local("iscsi")}}),
				volume(corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: local("storageos")}}),
				volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: local("csi")}}),
				volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
				volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{Secret: &corev1.SecretProjection{LocalObjectReference: *local("proj")}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: *local("proj")}},
				}}}),
			},
			ResourceClaims: []corev1.PodResourceClaim{
				{Name: "a", ResourceClaimName: ptr.To("gpu")}, {Name: "b", ResourceClaimTemplateName: ptr.To("t")}, {Name: "c", ResourceClaimTemplateName: ptr.To("t")},
			},
		},
		Status: corev1.PodStatus{
			ResourceClaimStatuses:       []corev1.PodResourceClaimStatus{{Name: "b", ResourceClaimName: ptr.To("made")}},
			ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"},
		},
	}
}

func (c *cluster) reads(t *testing.T, node, group, resource, namespace, name string) bool {
	t.Helper()
	d, err := c.z.Authorize(t.Context(), ask(node, "get", group, resource, "", namespace, name))
	if err != nil {
		t.Fatal(err)
	}
	if want := "no relationship found between node '" + node + "' and this object"; d.Verdict != authz.Allow && d.Reason != want {
		t.Errorf("reason %q, want %q", d.Reason, want)
	}
	return d.Verdict == authz.Allow
}

func TestPodReferences(t *testing.T) {
	c := start()
	pod := busy()
	refs := map[[2]string][]string{
		{"", "secrets"}:                       {"pull", "init", "env", "from", "debug", "vol", "azure", "ceph", "cinder", "flex", "rbd", "scaleio", "iscsi", "storageos", "csi", "proj"},
		{"", "configmaps"}:                    {"init", "env", "from", "debug", "vol", "proj"},
		{"", "persistentvolumeclaims"}:        {"data", "web-scratch"},
		{"", "serviceaccounts"}:               {"sa"},
		{"", "pods"}:                          {"web"},
		{"resource.k8s.io", "resourceclaims"}: {"gpu", "made", "extended"},
	}
	check := func(when, node string, want bool) {
		t.Helper()
		for kind, names := range refs {
			for _, name := range names {
				if got := c.reads(t, node, kind[0], kind[1], "dev", name); got != want {
					t.Errorf("%s, %s reads %s %s: %v, want %v", when, node, kind[1], name, got, want)
				}
				if c.reads(t, node, kind[0], kind[1], "prod", name) {
					t.Errorf("%s, %s reads %s %s of another namespace", when, node, kind[1], name)
				}
			}
		}
	}
	check("before", "n1", false)
	unbound := pod.DeepCopy()
	unbound.Spec.NodeName = ""
	c.pods.put(unbound)
	check("unbound", "n1", false)
	c.pods.put(pod)
	check("bound", "n1", true)
	check("bound", "n2", false)
	if c.reads(t, "n1", "", "secrets", "dev", "other") {
		t.Error("n1 reads a secret nobody refers to")
	}
	twin := pod.DeepCopy()
	twin.Name = "web" // another pod of the same name, elsewhere
	twin.UID, twin.Spec.NodeName = "2", "n2"
	c.pods.put(twin)
	check("replaced", "n1", false)
	check("replaced", "n2", true)
	c.pods.delete(twin)
	check("deleted", "n2", false)
}

func TestTwoPodsShareASecret(t *testing.T) {
	c := start()
	a, b := busy(), busy()
	b.Name = "web2"
	c.pods.put(a)
	c.pods.put(b)
	c.pods.delete(a)
	if !c.reads(t, "n1", "", "secrets", "dev", "pull") || c.reads(t, "n1", "", "pods", "dev", "web") {
		t.Error("the second pod's secret went with the first pod")
	}
	c.pods.delete(b)
	if c.reads(t, "n1", "", "secrets", "dev", "pull") {
		t.Error("the secret outlives both pods")
	}
}

func TestPodUpdates(t *testing.T) {
	c := start()
	pod := busy()
	pod.Spec.EphemeralContainers, pod.Status.ResourceClaimStatuses, pod.Status.ExtendedResourceClaimStatus = nil, nil, nil
	c.pods.put(pod)
	if c.reads(t, "n1", "", "secrets", "dev", "debug") || c.reads(t, "n1", "resource.k8s.io", "resourceclaims", "dev", "made") {
		t.Error("n1 reads too much")
	}
	debugged := pod.DeepCopy()
	debugged.Spec.EphemeralContainers = busy().Spec.EphemeralContainers
	c.pods.put(debugged)
	if !c.reads(t, "n1", "", "secrets", "dev", "debug") {
		t.Error("an ephemeral container's secret does not count")
	}
	claimed := debugged.DeepCopy()
	claimed.Status.ResourceClaimStatuses = busy().Status.ResourceClaimStatuses
	c.pods.put(claimed)
	if !c.reads(t, "n1", "resource.k8s.io", "resourceclaims", "dev", "made") {
		t.Error("a claim made for the pod does not count")
	}
}

func TestMirrorPodGivesNothing(t *testing.T) {
	c := start()
	pod := busy()
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	c.pods.put(pod)
	if !c.reads(t, "n1", "", "pods", "dev", "web") || c.reads(t, "n1", "", "secrets", "dev", "pull") || c.reads(t, "n1", "", "serviceaccounts", "dev", "sa") {
		t.Error("a mirror pod must give the node itself and nothing else")
	}
}

func TestVolumes(t *testing.T) {
	ref := func(namespace, name string) *corev1.SecretReference {
		return &corev1.SecretReference{Namespace: namespace, Name: name}
	}
	for name, source := range map[string]corev1.PersistentVolumeSource{
		"azure":     {AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "pv-azure"}},
		"azure-ns":  {AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "pv-azure-ns", SecretNamespace: ptr.To("dev")}},
		"ceph":      {CephFS: &corev1.CephFSPersistentVolumeSource{SecretRef: ref("", "pv-ceph")}},
		"flex":      {FlexVolume: &corev1.FlexPersistentVolumeSource{SecretRef: ref("dev", "pv-flex")}},
		"rbd":       {RBD: &corev1.RBDPersistentVolumeSource{SecretRef: ref("", "pv-rbd")}},
		"scaleio":   {ScaleIO: &corev1.ScaleIOPersistentVolumeSource{SecretRef: ref("", "pv-scaleio")}},
		"iscsi":     {ISCSI: &corev1.ISCSIPersistentVolumeSource{SecretRef: ref("", "pv-iscsi")}},
		"cinder":    {Cinder: &corev1.CinderPersistentVolumeSource{SecretRef: ref("dev", "pv-cinder")}},
		"storageos": {StorageOS: &corev1.StorageOSPersistentVolumeSource{SecretRef: &corev1.ObjectReference{Namespace: "dev", Name: "pv-storageos"}}},
		"publish":   {CSI: &corev1.CSIPersistentVolumeSource{NodePublishSecretRef: ref("dev", "pv-publish"), ControllerPublishSecretRef: ref("dev", "controller")}},
		"stage":     {CSI: &corev1.CSIPersistentVolumeSource{NodeStageSecretRef: ref("dev", "pv-stage"), ControllerExpandSecretRef: ref("dev", "controller")}},
		"expand":    {CSI: &corev1.CSIPersistentVolumeSource{NodeExpandSecretRef: ref("dev", "pv-expand")}},
	} {
		t.Run(name, func(t *testing.T) {
			c := start()
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}
			free := v.DeepCopy()
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "dev", Name: "data"}
			check := func(when string, want bool) {
				t.Helper()
				if got := c.reads(t, "n1", "", "persistentvolumes", "", "pv"); got != want {
					t.Errorf("%s, the volume: %v", when, got)
				}
				if got := c.reads(t, "n1", "", "secrets", "dev", "pv-"+name); got != want {
					t.Errorf("%s, its secret: %v", when, got)
				}
				if c.reads(t, "n2", "", "persistentvolumes", "", "pv") || c.reads(t, "n1", "", "secrets", "dev", "controller") {
					t.Errorf("%s, too much is read", when)
				}
			}
			c.volumes.put(v)
			check("without a pod", false)
			c.pods.put(busy())
			check("with a pod", true)
			c.volumes.put(free)
			check("released", false)
			c.volumes.put(v)
			check("bound again", true)
			c.volumes.delete(v)
			check("deleted", false)
		})
	}
}

func TestOwnedObjects(t *testing.T) {
	c := start()
	meta := metav1.ObjectMeta{Name: "x"}
	attachment := &storagev1.VolumeAttachment{ObjectMeta: meta, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1"}}
	c.attachments.put(attachment)
	c.slices.put(&resourcev1.ResourceSlice{ObjectMeta: meta, Spec: resourcev1.ResourceSliceSpec{NodeName: ptr.To("n1")}})
	c.slices.put(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "all"}})
	c.requests.put(&certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "x"}, Spec: certificatesv1.PodCertificateRequestSpec{NodeName: "n1"}})
	for _, node := range []string{"n1", "n2"} {
		want := node == "n1"
		if c.reads(t, node, "storage.k8s.io", "volumeattachments", "", "x") != want ||
			c.reads(t, node, "resource.k8s.io", "resourceslices", "", "x") != want ||
			c.reads(t, node, "certificates.k8s.io", "podcertificaterequests", "dev", "x") != want {
			t.Errorf("%s reads what it must not, or not what it must", node)
		}
		if c.reads(t, node, "resource.k8s.io", "resourceslices", "", "all") {
			t.Errorf("%s reads a slice of no node", node)
		}
	}
	moved := attachment.DeepCopy()
	moved.Spec.NodeName = "n2"
	c.attachments.put(moved)
	if c.reads(t, "n1", "storage.k8s.io", "volumeattachments", "", "x") || !c.reads(t, "n2", "storage.k8s.io", "volumeattachments", "", "x") {
		t.Error("the attachment did not move")
	}
	c.attachments.delete(moved)
	if c.reads(t, "n2", "storage.k8s.io", "volumeattachments", "", "x") {
		t.Error("the attachment outlives its deletion")
	}
}

const unrelated = "no relationship found between node 'n1' and this object"

// expected are requests and what is to become of them.
type expected []authztest.Case

func (e *expected) allow(name string, a authz.Attributes) {
	*e = append(*e, authztest.Case{Name: name, Attributes: a, Want: authz.Allow})
}

func (e *expected) refuse(name string, a authz.Attributes, reason string) {
	*e = append(*e, authztest.Case{Name: name, Attributes: a, Reason: reason})
}

// hold runs the suite on a cluster where n1 runs the busy pod. Unlike the suite, it takes an
// expected reason that is empty for one.
func (e *expected) hold(t *testing.T) {
	t.Helper()
	c := start()
	c.pods.put(busy())
	authztest.Run(t, c.z, *e)
	for _, want := range *e {
		if d, err := c.z.Authorize(t.Context(), want.Attributes); err != nil || d.Reason != want.Reason {
			t.Errorf("%s: %v, %v; want reason %q", want.Name, d, err, want.Reason)
		}
	}
}

func TestOthersThanNodes(t *testing.T) {
	var c expected
	c.refuse("not a node", authz.Attributes{User: &authn.Identity{Name: "ann", Groups: []string{"system:nodes"}}, Verb: "get", Resource: "nodes", ResourceRequest: true}, "")
	c.refuse("not in the group", authz.Attributes{User: &authn.Identity{Name: "system:node:n1"}, Verb: "get", Resource: "nodes", ResourceRequest: true}, "")
	c.refuse("no name", ask("", "get", "", "nodes", "", "", "n1"), `unknown node for user "system:node:"`)
	c.hold(t)
}

func TestReferencedObjects(t *testing.T) {
	var c expected
	c.refuse("list secrets", ask("n1", "list", "", "secrets", "", "dev", ""), "No Object name found")
	c.allow("watch one secret", ask("n1", "watch", "", "secrets", "", "dev", "pull"))
	c.refuse("secrets everywhere", ask("n1", "list", "", "secrets", "", "", "pull"), "can only read namespaced object of this type")
	c.refuse("write a secret", ask("n1", "update", "", "secrets", "", "dev", "pull"), "can only read resources of this type")
	c.refuse("secret subresource", ask("n1", "get", "", "secrets", "x", "dev", "pull"), "cannot read subresource")
	c.refuse("list claims", ask("n1", "list", "", "persistentvolumeclaims", "", "dev", "data"), "can only get individual resources of this type")
	c.refuse("claim subresource", ask("n1", "get", "", "persistentvolumeclaims", "x", "dev", "data"), "cannot get subresource")
	c.allow("claim status", ask("n1", "patch", "", "persistentvolumeclaims", "status", "dev", "data"))
	c.refuse("another claim's status", ask("n1", "patch", "", "persistentvolumeclaims", "status", "dev", "other"), unrelated)
	c.refuse("get claim status", ask("n1", "get", "", "persistentvolumeclaims", "status", "dev", "data"), "can only get/update/patch this type")

	c.allow("token", ask("n1", "create", "", "serviceaccounts", "token", "dev", "sa"))
	c.refuse("another's token", ask("n1", "create", "", "serviceaccounts", "token", "dev", "root"), unrelated)
	c.refuse("make an account", ask("n1", "create", "", "serviceaccounts", "", "dev", "sa"), "can only create token subresource of serviceaccount")
	c.refuse("delete an account", ask("n1", "delete", "", "serviceaccounts", "", "dev", "sa"), "can only create tokens for individual service accounts")
	c.hold(t)
}

func TestLeasesAndCSINodes(t *testing.T) {
	var c expected
	for _, verb := range []string{"get", "update", "patch", "delete"} {
		c.allow(verb+" own lease", ask("n1", verb, "coordination.k8s.io", "leases", "", "kube-node-lease", "n1"))
		c.refuse(verb+" another lease", ask("n1", verb, "coordination.k8s.io", "leases", "", "kube-node-lease", "n2"), "can only access node lease with the same name as the requesting node")
		c.allow(verb+" own csinode", ask("n1", verb, "storage.k8s.io", "csinodes", "", "", "n1"))
		c.refuse(verb+" another csinode", ask("n1", verb, "storage.k8s.io", "csinodes", "", "", "n2"), "can only access CSINode with the same name as the requesting node")
	}
	c.allow("create lease", ask("n1", "create", "coordination.k8s.io", "leases", "", "kube-node-lease", ""))
	c.refuse("lease elsewhere", ask("n1", "create", "coordination.k8s.io", "leases", "", "default", ""), `can only access leases in the "kube-node-lease" system namespace`)
	c.refuse("list leases", ask("n1", "list", "coordination.k8s.io", "leases", "", "kube-node-lease", ""), "can only get, create, update, patch, or delete a node lease")
	c.allow("create csinode", ask("n1", "create", "storage.k8s.io", "csinodes", "", "", ""))
	c.refuse("list csinodes", ask("n1", "list", "storage.k8s.io", "csinodes", "", "", ""), "can only get, create, update, patch, or delete a CSINode")
	c.refuse("csinode status", ask("n1", "get", "storage.k8s.io", "csinodes", "status", "", "n1"), "CSINode status access requires CSIVolumeHealth feature")
	c.refuse("csinode subresource", ask("n1", "get", "storage.k8s.io", "csinodes", "x", "", "n1"), "cannot authorize CSINode subresources")
	c.hold(t)
}

func TestDevicesAndCertificates(t *testing.T) {
	var c expected
	const devices = "resource.k8s.io"
	c.allow("create slice", ask("n1", "create", devices, "resourceslices", "", "", ""))
	c.refuse("another slice", ask("n1", "update", devices, "resourceslices", "", "", "x"), unrelated)
	c.allow("own slices", selecting(ask("n1", "deletecollection", devices, "resourceslices", "", "", ""), "spec.nodeName", "=", "n1"))
	c.refuse("all slices", ask("n1", "list", devices, "resourceslices", "", "", ""), "can only list/watch/deletecollection resourceslices with nodeName field selector")
	c.refuse("slice verb", ask("n1", "x", devices, "resourceslices", "", "", ""), "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection")
	c.refuse("slice subresource", ask("n1", "get", devices, "resourceslices", "x", "", "x"), "cannot authorize ResourceSlice subresources")
	const certs = "certificates.k8s.io"
	c.allow("ask for a certificate", ask("n1", "create", certs, "podcertificaterequests", "", "dev", ""))
	c.allow("own requests", selecting(ask("n1", "watch", certs, "podcertificaterequests", "", "", ""), "spec.nodeName", "=", "n1"))
	c.refuse("all requests", ask("n1", "list", certs, "podcertificaterequests", "", "", ""), "can only list/watch podcertificaterequests with nodeName field selector")
	c.refuse("request verb", ask("n1", "update", certs, "podcertificaterequests", "", "dev", "x"), "nodes may not update podcertificaterequests")
	c.refuse("request status", ask("n1", "get", certs, "podcertificaterequests", "status", "dev", "x"), "nodes may not access the status subresource of PodCertificateRequests")
	c.hold(t)
}

func TestNodes(t *testing.T) {
	var c expected
	for _, verb := range []string{"create", "update", "patch"} {
		c.allow(verb+" node", ask("n1", verb, "", "nodes", "", "", "n1"))
	}
	for _, verb := range []string{"get", "list", "watch"} {
		c.allow(verb+" own node", ask("n1", verb, "", "nodes", "", "", "n1"))
		c.refuse(verb+" another node", ask("n1", verb, "", "nodes", "", "", "n2"), "node 'n1' cannot read 'n2', only its own Node object")
		c.refuse(verb+" nodes", ask("n1", verb, "", "nodes", "", "", ""), "node 'n1' cannot read all nodes, only its own Node object")
	}
	c.allow("node status", ask("n1", "patch", "", "nodes", "status", "", "n1"))
	c.refuse("delete node", ask("n1", "delete", "", "nodes", "", "", "n1"), "")
	c.refuse("node proxy", ask("n1", "get", "", "nodes", "proxy", "", "n1"), "")
	c.hold(t)
}

func TestPods(t *testing.T) {
	var c expected
	const onlyOwn = "can only list/watch pods with spec.nodeName field selector"
	c.allow("own pod", ask("n1", "get", "", "pods", "", "dev", "web"))
	c.refuse("another pod", ask("n1", "get", "", "pods", "", "dev", "db"), unrelated)
	c.allow("own pods", selecting(ask("n1", "watch", "", "pods", "", "", ""), "spec.nodeName", "=", "n1"))
	c.refuse("another node's pods", selecting(ask("n1", "list", "", "pods", "", "", ""), "spec.nodeName", "=", "n2"), onlyOwn)
	c.refuse("all but own pods", selecting(ask("n1", "list", "", "pods", "", "", ""), "spec.nodeName", "!=", "n1"), onlyOwn)
	c.refuse("pods of that name", selecting(ask("n1", "list", "", "pods", "", "", ""), "metadata.name", "=", "n1"), onlyOwn)
	c.refuse("all pods", ask("n1", "list", "", "pods", "", "", ""), onlyOwn)
	c.allow("watch own pod by name", ask("n1", "watch", "", "pods", "", "dev", "web"))
	c.allow("create pod", ask("n1", "create", "", "pods", "", "dev", ""))
	c.allow("delete pod", ask("n1", "delete", "", "pods", "", "dev", "any"))
	c.allow("pod status", ask("n1", "patch", "", "pods", "status", "dev", "any"))
	c.allow("evict", ask("n1", "create", "", "pods", "eviction", "dev", "any"))
	c.refuse("read an eviction", ask("n1", "get", "", "pods", "eviction", "dev", "web"), "")
	c.refuse("update pod", ask("n1", "update", "", "pods", "", "dev", "web"), "")
	c.refuse("exec", ask("n1", "create", "", "pods", "exec", "dev", "web"), "")
	c.refuse("read pod status", ask("n1", "get", "", "pods", "status", "dev", "web"), "")
	c.hold(t)
}

func TestCommonToNodes(t *testing.T) {
	var c expected
	c.allow("services", ask("n1", "watch", "", "services", "", "", ""))
	c.allow("events", ask("n1", "create", "events.k8s.io", "events", "", "dev", ""))
	c.allow("token reviews", ask("n1", "create", "authentication.k8s.io", "tokenreviews", "", "", ""))
	c.allow("csi drivers", ask("n1", "list", "storage.k8s.io", "csidrivers", "", "", ""))
	c.allow("signing requests", ask("n1", "create", "certificates.k8s.io", "certificatesigningrequests", "", "", ""))
	c.refuse("deployments", ask("n1", "list", "apps", "deployments", "", "", ""), "")
	c.refuse("path", authz.Attributes{User: kubelet("n1"), Verb: "get", Path: "/healthz"}, "")
	c.hold(t)
}

func TestRulesFor(t *testing.T) {
	z := start().z
	if rules, err := z.RulesFor(t.Context(), kubelet("n1"), "dev"); !errors.Is(err, node.ErrNotListed) || !rules.Incomplete {
		t.Errorf("a node: %+v, %v", rules, err)
	}
	if rules, err := z.RulesFor(t.Context(), &authn.Identity{Name: "ann"}, "dev"); err != nil || rules.Incomplete {
		t.Errorf("a user: %+v, %v", rules, err)
	}
}

func TestPodsAreEnough(t *testing.T) {
	var pods table[*corev1.Pod]
	z := node.New(node.Sources{Pods: &pods}, rbac.Rules(bootstrap.NodeRules()))
	pods.put(busy())
	if d, err := z.Authorize(t.Context(), ask("n1", "get", "", "secrets", "", "dev", "pull")); err != nil || d.Verdict != authz.Allow {
		t.Errorf("got %v, %v", d, err)
	}
}

// TestCommonDecidesNothingElse: what common denies, or cannot judge, the node authorizer has no opinion about.
func TestCommonDecidesNothingElse(t *testing.T) {
	var pods table[*corev1.Pod]
	broken := errors.New("broken")
	for verdict, want := range map[authz.Verdict]authz.Verdict{authz.Allow: authz.Allow, authz.Deny: authz.NoOpinion, authz.NoOpinion: authz.NoOpinion} {
		common := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, error) {
			return authz.Decision{Verdict: verdict, Reason: "because"}, broken
		})
		d, err := node.New(node.Sources{Pods: &pods}, common).Authorize(t.Context(), ask("n1", "list", "apps", "deployments", "", "", ""))
		if d.Verdict != want || d.Reason != "" || errors.Is(err, broken) != (want == authz.NoOpinion) {
			t.Errorf("%v of common: %v, %v", verdict, d, err)
		}
	}
}
