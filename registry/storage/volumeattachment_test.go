package storage_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/registry/storage"
)

type attachmentChange = registrytest.Change[*storagev1.VolumeAttachment]

func attachment() *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-1"},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "Disk.example.com", NodeName: "node-0",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")},
		},
	}
}

const caseless = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"

func TestVolumeAttachment(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "volumeattachments")
	const one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	long := strings.Repeat("a", 64)
	registrytest.Create(t, k, attachment(), []attachmentChange{
		{Name: "no attacher", To: func(a *storagev1.VolumeAttachment) { a.Spec.Attacher, a.Spec.NodeName = "", "a_b" }, Refused: []string{
			`spec.nodeName: Invalid value: "a_b": ` + subdomainRule,
			`spec.attacher: Required value`}},
		{Name: "63 bytes of an attacher", To: func(a *storagev1.VolumeAttachment) { a.Spec.Attacher = long[1:] }},
		{Name: "a long attacher", To: func(a *storagev1.VolumeAttachment) { a.Spec.Attacher = long }, Refused: []string{
			`spec.attacher: Too long: may not be more than 63 characters`}},
		{Name: "a bad attacher", To: func(a *storagev1.VolumeAttachment) { a.Spec.Attacher = "a_b" }, Refused: []string{
			`spec.attacher: Invalid value: "a_b": ` + caseless}},
		{Name: "no source", To: func(a *storagev1.VolumeAttachment) { a.Spec.Source.PersistentVolumeName = nil }, Refused: []string{
			`spec.source: Required value: ` + one}},
		{Name: "two sources", To: func(a *storagev1.VolumeAttachment) {
			a.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{}
		}, Refused: []string{`spec.source: Forbidden: ` + one}},
		{Name: "an empty volume", To: func(a *storagev1.VolumeAttachment) { a.Spec.Source.PersistentVolumeName = new("") }, Refused: []string{
			`spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName`,
			`spec.source.persistentVolumeName: Invalid value: "": ` + subdomainRule}},
		{Name: "a bad volume", To: func(a *storagev1.VolumeAttachment) { a.Spec.Source.PersistentVolumeName = new("A") }, Refused: []string{
			`spec.source.persistentVolumeName: Invalid value: "A": ` + subdomainRule}},
		{Name: "a bad status", To: func(a *storagev1.VolumeAttachment) {
			a.Status.AttachError = &storagev1.VolumeError{ErrorCode: new(int32(-1))}
		}},
	})
	registrytest.Update(t, k, "", attachment(), []attachmentChange{
		{Name: "another node", To: func(a *storagev1.VolumeAttachment) { a.Spec.NodeName = "node-1" }, Refused: []string{
			`spec: Invalid value: null: field is immutable`}},
		{Name: "another attacher", To: func(a *storagev1.VolumeAttachment) { a.Spec.Attacher = "a_b" }, Refused: []string{
			`spec.attacher: Invalid value: "a_b": ` + subdomainRule,
			`spec: Invalid value: null: field is immutable`}},
		{Name: "no source", To: func(a *storagev1.VolumeAttachment) { a.Spec.Source.PersistentVolumeName = nil }, Refused: []string{
			`spec.source: Required value: ` + one,
			`spec: Invalid value: null: field is immutable`}},
		{Name: "labels", To: func(a *storagev1.VolumeAttachment) { a.Labels = map[string]string{"a": "b"} }},
	})
	registrytest.Update(t, k, "status", attachment(), []attachmentChange{
		{Name: "attached", To: func(a *storagev1.VolumeAttachment) {
			a.Spec.NodeName, a.Status.Attached = "", true
			a.Status.AttachmentMetadata = map[string]string{"key": strings.Repeat("x", 256<<10-3)}
			a.Status.AttachError = &storagev1.VolumeError{Message: strings.Repeat("x", 1024), ErrorCode: new(int32(0))}
		}},
		{Name: "long", To: func(a *storagev1.VolumeAttachment) {
			a.Status.AttachmentMetadata = map[string]string{"key": strings.Repeat("x", 256<<10-2)}
			a.Status.AttachError = &storagev1.VolumeError{Message: strings.Repeat("x", 1025), ErrorCode: new(int32(-1))}
			a.Status.DetachError = a.Status.AttachError
		}, Refused: []string{
			`status.attachmentMetadata: Too long: may not be more than 262144 bytes`,
			`status.attachError.message: Too long: may not be more than 1024 bytes`,
			`status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive`,
			`status.detachError.message: Too long: may not be more than 1024 bytes`,
			`status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive`}},
	})
}

// TestInlineVolume: only a CSI volume can be attached without a PersistentVolume.
func TestInlineVolume(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "volumeattachments")
	good := attachment()
	secret := &corev1.SecretReference{Name: "s", Namespace: "ns"}
	good.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{
		AccessModes:                   []corev1.PersistentVolumeAccessMode{"ReadWriteOnce", "ReadOnlyMany"},
		PersistentVolumeReclaimPolicy: "Retain", VolumeMode: new(corev1.PersistentVolumeFilesystem),
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: "d", VolumeHandle: "h", ControllerPublishSecretRef: secret, ControllerExpandSecretRef: secret,
			NodePublishSecretRef: secret, NodeExpandSecretRef: secret,
		}},
	}}
	const at, context = `spec.source.inlineVolumeSpec`, `may not be specified in the context of inline volumes`
	spec := func(to func(*corev1.PersistentVolumeSpec)) func(*storagev1.VolumeAttachment) {
		return func(a *storagev1.VolumeAttachment) { to(a.Spec.Source.InlineVolumeSpec) }
	}
	const label = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	registrytest.Create(t, k, good, []attachmentChange{
		{Name: "what belongs to PersistentVolumes", To: spec(func(s *corev1.PersistentVolumeSpec) {
			s.ClaimRef, s.Capacity = &corev1.ObjectReference{}, corev1.ResourceList{"storage": {}}
			s.PersistentVolumeReclaimPolicy, s.NodeAffinity = "Delete", &corev1.VolumeNodeAffinity{}
			s.StorageClassName, s.VolumeMode = "x", new(corev1.PersistentVolumeBlock)
		}), Refused: []string{
			at + `.claimRef: Forbidden: ` + context,
			at + `.capacity: Forbidden: ` + context,
			at + `.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes`,
			at + `.nodeAffinity: Forbidden: ` + context,
			at + `.storageClassName: Forbidden: ` + context,
			at + `.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes`}},
		{Name: "nothing", To: spec(func(s *corev1.PersistentVolumeSpec) { *s = corev1.PersistentVolumeSpec{} }), Refused: []string{
			at + `.csi: Required value: has to be specified in the context of inline volumes`,
			at + `.accessModes: Required value`,
			at + `: Required value: must specify a volume type`}},
		{Name: "another source", To: spec(func(s *corev1.PersistentVolumeSpec) {
			s.CSI, s.NFS = nil, &corev1.NFSVolumeSource{Server: "s", Path: "/"}
		}), Refused: []string{at + `.csi: Required value: has to be specified in the context of inline volumes`}},
		{Name: "two sources", To: spec(func(s *corev1.PersistentVolumeSpec) { s.NFS = &corev1.NFSVolumeSource{Server: "s", Path: "/"} }), Refused: []string{
			at + `.csi: Forbidden: may not specify more than 1 volume type`}},
		{Name: "access modes", To: spec(func(s *corev1.PersistentVolumeSpec) {
			s.AccessModes = []corev1.PersistentVolumeAccessMode{"ReadWriteOncePod", "x"}
		}), Refused: []string{
			at + `.accessModes: Unsupported value: "x": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`}},
		{Name: "access by one pod", To: spec(func(s *corev1.PersistentVolumeSpec) {
			s.AccessModes = []corev1.PersistentVolumeAccessMode{"ReadWriteOncePod", "ReadWriteMany"}
		}), Refused: []string{at + `.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes`}},
		{Name: "a CSI volume", To: spec(func(s *corev1.PersistentVolumeSpec) {
			s.CSI.Driver, s.CSI.VolumeHandle = "", ""
			s.CSI.ControllerPublishSecretRef = &corev1.SecretReference{}
			s.CSI.NodeExpandSecretRef = &corev1.SecretReference{Name: "A", Namespace: "B"}
		}), Refused: []string{
			at + `.csi.driver: Required value`,
			at + `.csi.volumeHandle: Required value`,
			at + `.csi.controllerPublishSecretRef.name: Required value`,
			at + `.csi.controllerPublishSecretRef.namespace: Required value`,
			at + `.csi.nodeExpandSecretRef.name: Invalid value: "A": ` + subdomainRule,
			at + `.csi.nodeExpandSecretRef.namespace: Invalid value: "B": ` + label}},
	})
}

// TestInlineDefaults: volumes inside attachments get the defaults of their sources, but none of their own.
func TestInlineDefaults(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "volumeattachments")
	a := &storagev1.VolumeAttachment{}
	k.Rules.Default(a)
	a.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{"storage": resource.MustParse("100u")}, PersistentVolumeSource: corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{}},
	}
	k.Rules.Default(a)
	got := a.Spec.Source.InlineVolumeSpec
	if q := got.Capacity["storage"]; q.String() != "1m" || got.ISCSI.ISCSIInterface != "default" || got.VolumeMode != nil || got.PersistentVolumeReclaimPolicy != "" {
		t.Errorf("%+v", got)
	}
}

func TestVolumeAttachmentPreparation(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "volumeattachments")
	old := attachment()
	old.Status.Attached = true
	registrytest.Prepare(k, old)
	if old.Status.Attached || old.Generation != 0 {
		t.Errorf("created: %+v", old)
	}
	next := old.DeepCopy()
	next.Status.Attached, next.Labels = true, map[string]string{"a": "b"}
	if registrytest.Replace(k, "", next, old); next.Status.Attached || next.Labels == nil {
		t.Errorf("updated: %+v", next)
	}
	next.Status.Attached, next.Spec.NodeName = true, "x"
	registrytest.Replace(k, "status", next, old)
	if !next.Status.Attached || next.Labels != nil || !reflect.DeepEqual(next.Spec, old.Spec) || next.Generation != 0 {
		t.Errorf("updated by its status: %+v", next)
	}
	if !slices.Equal(k.Sub.Views["status"].Resets, []string{"metadata", "spec"}) {
		t.Errorf("resets %v", k.Sub.Views["status"].Resets)
	}
}
