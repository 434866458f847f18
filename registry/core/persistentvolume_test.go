package core_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type pvChange = registrytest.Change[*corev1.PersistentVolume]

func onZone(key, zone string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
	}}}}
}

func csiVolume() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "h"},
			},
		},
	}
}

// source replaces the source of a volume.
func source(s corev1.PersistentVolumeSource) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.Spec.PersistentVolumeSource = s }
}

func pvKind(t *testing.T) registry.Kind {
	return registrytest.Find(t, core.Kinds(core.Options{}), "persistentvolumes")
}

func TestPersistentVolume(t *testing.T) {
	registrytest.Create(t, pvKind(t), csiVolume(), []pvChange{
		{Name: "nothing", To: func(pv *corev1.PersistentVolume) { pv.Spec = corev1.PersistentVolumeSpec{} }, Refused: []string{
			"spec.accessModes: Required value", "spec.capacity: Required value",
			`spec.capacity: Unsupported value: null: supported values: "storage"`, "spec: Required value: must specify a volume type"}},
		{Name: "modes", To: func(pv *corev1.PersistentVolume) {
			pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"Any", corev1.ReadOnlyMany, corev1.ReadWriteOncePod}
		}, Refused: []string{
			`spec.accessModes: Unsupported value: "Any": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`,
			"spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"}},
		{Name: "capacity", To: func(pv *corev1.PersistentVolume) {
			pv.Spec.Capacity = corev1.ResourceList{"cpu": resource.MustParse("-1"), "storage": resource.MustParse("0")}
		}, Refused: []string{
			`spec.capacity: Unsupported value: {"cpu":"-1","storage":"0"}: supported values: "storage"`,
			"spec.capacity[cpu]: Invalid value: -1: must be a valid resource quantity",
			`spec.capacity[cpu]: Invalid value: "-1": must be greater than zero`,
			`spec.capacity[storage]: Invalid value: "0": must be greater than zero`}},
		{Name: "words", To: func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy, pv.Spec.VolumeMode = "Keep", new(corev1.PersistentVolumeMode("Tape"))
			pv.Spec.StorageClassName, pv.Spec.VolumeAttributesClassName = "-", new("_")
		}, Refused: []string{
			`spec.persistentVolumeReclaimPolicy: Unsupported value: "Keep": supported values: "Delete", "Recycle", "Retain"`,
			`spec.storageClassName: Invalid value: "-": ` + notSubdomain,
			`spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"`,
			`spec.volumeAttributesClassName: Invalid value: "_": ` + notSubdomain}},
		{Name: "attributes without CSI", To: func(pv *corev1.PersistentVolume) {
			source(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})(pv)
			pv.Spec.VolumeAttributesClassName, pv.Spec.PersistentVolumeReclaimPolicy = new(""), corev1.PersistentVolumeReclaimRecycle
		}, Refused: []string{
			"spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
			"spec.volumeAttributesClassName: Required value: an empty string is disallowed",
			"spec.csi: Required value: has to be specified when using volumeAttributesClassName"}},
		{Name: "any node", To: func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{} }, Refused: []string{
			"spec.nodeAffinity.required: Required value: must specify required node constraints"}},
		{Name: "no terms", To: func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
		}, Refused: []string{"spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term"}},
		{Name: "bad zone", To: func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = onZone("zone", "a b") }, Refused: []string{
			`spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "a b": ` + notLabelValue}},
		{Name: "two sources", To: func(pv *corev1.PersistentVolume) {
			pv.Spec.HostPath, pv.Spec.CephFS = &corev1.HostPathVolumeSource{Path: "/x"}, &corev1.CephFSPersistentVolumeSource{}
			pv.Spec.FlexVolume = &corev1.FlexPersistentVolumeSource{Driver: "d"}
		}, Refused: []string{
			"spec.cephFS: Forbidden: may not specify more than 1 volume type", "spec.csi: Forbidden: may not specify more than 1 volume type"}},
		{Name: "mount options", To: func(pv *corev1.PersistentVolume) {
			pv.Annotations = map[string]string{corev1.MountOptionAnnotation: "ro"}
		}, Refused: []string{
			"metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this volume type"}},
		{Name: "mount options of NFS", To: func(pv *corev1.PersistentVolume) {
			pv.Annotations = map[string]string{corev1.MountOptionAnnotation: "ro"}
			source(corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}})(pv)
		}},
	})
}

const (
	notSubdomain  = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
	notLabel      = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
	notLabelValue = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
	subscription  = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
)

func TestPersistentVolumeSources(t *testing.T) {
	long := "iqn.2001-04.com.example:" + strings.Repeat("x", 60)
	registrytest.Create(t, pvKind(t), csiVolume(), []pvChange{
		{Name: "csi", To: source(corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: "-", ControllerPublishSecretRef: &corev1.SecretReference{}, ControllerExpandSecretRef: &corev1.SecretReference{Name: "_", Namespace: "_"},
			NodePublishSecretRef: &corev1.SecretReference{Name: "a"}, NodeExpandSecretRef: &corev1.SecretReference{Namespace: "a"},
		}}), Refused: []string{
			`spec.csi.driver: Invalid value: "-": ` + notSubdomain, "spec.csi.volumeHandle: Required value",
			"spec.csi.controllerPublishSecretRef.name: Required value", "spec.csi.controllerPublishSecretRef.namespace: Required value",
			`spec.csi.controllerExpandSecretRef.name: Invalid value: "_": ` + notSubdomain,
			`spec.csi.controllerExpandSecretRef.namespace: Invalid value: "_": ` + notLabel,
			"spec.csi.nodePublishSecretRef.namespace: Required value", "spec.csi.nodeExpandSecretRef.name: Required value"}},
		{Name: "long driver", To: source(corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: strings.Repeat("x", 64), VolumeHandle: "h"}}), Refused: []string{"spec.csi.driver: Too long: may not be more than 63 bytes"}},
		{Name: "local", To: source(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "a/../b"}}), Refused: []string{
			`spec.local.path: Invalid value: "a/../b": must not contain '..'`, "spec.nodeAffinity: Required value: Local volume requires node affinity"}},
		{Name: "local without a path", To: func(pv *corev1.PersistentVolume) {
			source(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}})(pv)
			pv.Spec.NodeAffinity = onZone("zone", "a")
		}, Refused: []string{"spec.local.path: Required value"}},
		{Name: "hostPath", To: source(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), Refused: []string{"spec.hostPath.path: Required value"}},
		{Name: "gce", To: source(corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{Partition: 256}}), Refused: []string{
			"spec.persistentDisk.pdName: Required value", "spec.persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive"}},
		{Name: "aws", To: source(corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}), Refused: []string{
			"spec.awsElasticBlockStore.volumeID: Required value"}},
		{Name: "glusterfs", To: source(corev1.PersistentVolumeSource{Glusterfs: &corev1.GlusterfsPersistentVolumeSource{EndpointsNamespace: new("")}}), Refused: []string{
			"spec.glusterfs.endpoints: Required value", "spec.glusterfs.path: Required value",
			`spec.glusterfs.endpointsNamespace: Invalid value: "": if the endpointnamespace is set, it must be a valid namespace name`}},
		{Name: "glusterfs elsewhere", To: source(corev1.PersistentVolumeSource{Glusterfs: &corev1.GlusterfsPersistentVolumeSource{
			EndpointsName: "e", Path: "p", EndpointsNamespace: new("_")}}), Refused: []string{`spec.glusterfs.endpointsNamespace: Invalid value: "_": ` + notLabel}},
		{Name: "flocker", To: source(corev1.PersistentVolumeSource{Flocker: &corev1.FlockerVolumeSource{}}), Refused: []string{
			"spec.flocker: Required value: one of datasetName and datasetUUID is required"}},
		{Name: "nfs", To: source(corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Path: "a"}}), Refused: []string{
			"spec.nfs.server: Required value", `spec.nfs.path: Invalid value: "a": must be an absolute path`}},
		{Name: "rbd", To: source(corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{}}), Refused: []string{
			"spec.rbd.monitors: Required value", "spec.rbd.image: Required value"}},
		{Name: "quobyte", To: source(corev1.PersistentVolumeSource{Quobyte: &corev1.QuobyteVolumeSource{Registry: "a:1"}}), Refused: []string{"spec.quobyte.volume: Required value"}},
		{Name: "cephfs", To: source(corev1.PersistentVolumeSource{CephFS: &corev1.CephFSPersistentVolumeSource{}}), Refused: []string{"spec.cephfs.monitors: Required value"}},
		{Name: "iscsi", To: source(corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{
			IQN: "x", Lun: 256, SecretRef: &corev1.SecretReference{}, InitiatorName: new("eui.1")}}), Refused: []string{
			"spec.iscsi.targetPortal: Required value", `spec.iscsi.iqn: Invalid value: "x": must be valid format`,
			"spec.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive", "spec.iscsi.secretRef.name: Required value",
			`spec.iscsi.initiatorname: Invalid value: "eui.1": must be valid format`}},
		{Name: "iscsi secrets", To: source(corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{
			TargetPortal: strings.Repeat("p", 62), IQN: long, SessionCHAPAuth: true, InitiatorName: &long}}), Refused: []string{
			`spec.iscsi.targetportal: Invalid value: "` + strings.Repeat("p", 62) + `": Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.`,
			"spec.iscsi.secretRef: Required value"}},
		{Name: "cinder", To: source(corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{SecretRef: &corev1.SecretReference{}}}), Refused: []string{
			"spec.cinder.volumeID: Required value", "spec.cinder.secretRef.name: Required value", "spec.cinder.secretRef.namespace: Required value"}},
		{Name: "fc", To: source(corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{}}), Refused: []string{
			"spec.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"}},
		{Name: "flex", To: source(corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Options: map[string]string{"k8s.io/a": ""}}}), Refused: []string{
			"spec.flexVolume.driver: Required value", `spec.flexVolume.options[k8s.io/a]: Invalid value: "k8s.io/a": kubernetes.io and k8s.io namespaces are reserved`}},
		{Name: "azure file", To: source(corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretNamespace: new("")}}), Refused: []string{
			"spec.azureFile.secretName: Required value", "spec.azureFile.shareName: Required value", "spec.azureFile.secretNamespace: Required value"}},
		{Name: "azure disk", To: source(corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{
			DiskName: "d", DataDiskURI: "x", Kind: new(corev1.AzureManagedDisk)}}), Refused: []string{
			`spec.azureDisk.diskURI: Unsupported value: "x": supported values: "` + subscription + `"`}},
		{Name: "azure disks", To: source(corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{
			DiskName: "d", DataDiskURI: "/subscriptions/x", Kind: new(corev1.AzureManagedDisk)}})},
		{Name: "vsphere", To: source(corev1.PersistentVolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}}), Refused: []string{"spec.vsphereVolume.volumePath: Required value"}},
		{Name: "photon", To: source(corev1.PersistentVolumeSource{PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{}}), Refused: []string{"spec.photonPersistentDisk.pdID: Required value"}},
		{Name: "portworx", To: source(corev1.PersistentVolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{}}), Refused: []string{"spec.portworxVolume.volumeID: Required value"}},
		{Name: "scaleIO", To: source(corev1.PersistentVolumeSource{ScaleIO: &corev1.ScaleIOPersistentVolumeSource{}}), Refused: []string{
			"spec.scaleIO.gateway: Required value", "spec.scaleIO.system: Required value", "spec.scaleIO.volumeName: Required value"}},
		{Name: "storageos", To: source(corev1.PersistentVolumeSource{StorageOS: &corev1.StorageOSPersistentVolumeSource{
			VolumeNamespace: "_", SecretRef: &corev1.ObjectReference{}}}), Refused: []string{
			"spec.storageos.volumeName: Required value", `spec.storageos.volumeNamespace: Invalid value: "_": ` + notLabel,
			"spec.storageos.secretRef.name: Required value", "spec.storageos.secretRef.namespace: Required value"}},
	})
}

func TestPersistentVolumeUpdate(t *testing.T) {
	stored := csiVolume()
	stored.Spec.NodeAffinity = onZone(corev1.LabelFailureDomainBetaZone, "a b") // accepted under older rules
	stored.Spec.VolumeAttributesClassName = new("gold")
	k := pvKind(t)
	registrytest.Update(t, k, "", stored, []pvChange{
		{Name: "source", To: func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "" }, Refused: []string{
			"spec.csi.volumeHandle: Required value",
			"spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n" +
				"@@ -22,7 +22,7 @@\n  \"StorageOS\": null,\n  \"CSI\": {\n   \"Driver\": \"csi.example.com\",\n-  \"VolumeHandle\": \"h\",\n+  \"VolumeHandle\": \"\",\n" +
				"   \"ReadOnly\": false,\n   \"FSType\": \"\",\n   \"VolumeAttributes\": null,\n"}},
		{Name: "a secret for expansion", To: func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI.ControllerExpandSecretRef = &corev1.SecretReference{Name: "a", Namespace: "b"}
		}},
		{Name: "mode", To: func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }, Refused: []string{
			`volumeMode: Invalid value: "Block": field is immutable`}},
		{Name: "label of today", To: func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = onZone(corev1.LabelTopologyZone, "a b") }},
		{Name: "elsewhere", To: func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = onZone(corev1.LabelTopologyZone, "c") }, Refused: []string{
			`nodeAffinity: Invalid value: {"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"topology.kubernetes.io/zone","Operator":"In","Values":["c"]}],"MatchFields":null}]}}: field is immutable, except for updating from beta label to GA`}},
		{Name: "anywhere", To: func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nil }, Refused: []string{
			"nodeAffinity: Invalid value: null: field is immutable, except for updating from beta label to GA"}},
		{Name: "other attributes", To: func(pv *corev1.PersistentVolume) { pv.Spec.VolumeAttributesClassName = new("silver") }},
		{Name: "no attributes", To: func(pv *corev1.PersistentVolume) { pv.Spec.VolumeAttributesClassName = nil }, Refused: []string{
			"spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"}},
		{Name: "the rest", To: func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy, pv.Spec.StorageClassName = corev1.PersistentVolumeReclaimDelete, "c"
			pv.Spec.ClaimRef, pv.Spec.MountOptions = &corev1.ObjectReference{Name: "c", Namespace: "ns"}, []string{"ro"}
			pv.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("1Gi")
		}},
		{Name: "mount options", To: func(pv *corev1.PersistentVolume) {
			pv.Annotations = map[string]string{corev1.MountOptionAnnotation: "ro"}
		}, Refused: []string{
			"metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this volume type"}},
	})
	registrytest.Update(t, k, "", csiVolume(), []pvChange{
		{Name: "first affinity", To: func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = onZone("zone", "a") }},
	})
	secret := csiVolume()
	k.Rules.Default(secret)
	secret.Spec.CSI.ControllerExpandSecretRef = &corev1.SecretReference{Name: "a", Namespace: "b"}
	changed := secret.DeepCopy()
	changed.Spec.CSI.ControllerExpandSecretRef.Name = "c"
	if errs := registrytest.Replace(k, "", changed, secret); len(errs) != 1 || errs[0].Field != "spec.persistentvolumesource" {
		t.Errorf("another secret for expansion: %v", errs)
	}
	good := csiVolume()
	k.Rules.Default(good)
	worse := good.DeepCopy()
	worse.Spec.AccessModes = nil
	if errs := registrytest.Replace(k, "", worse, good); len(errs) != 2 {
		t.Errorf("upstream reports errors of a spec twice: %v", errs)
	}
}

// TestPersistentVolumePhase: the server notes when the phase changes.
func TestPersistentVolumePhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, began := pvKind(t), metav1.Now()
		pv := csiVolume()
		pv.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound, Reason: "mine"}
		registrytest.Prepare(k, pv)
		if pv.Status.Phase != corev1.VolumePending || pv.Status.Reason != "" || !pv.Status.LastPhaseTransitionTime.Equal(&began) {
			t.Errorf("created with status %+v", pv.Status)
		}
		time.Sleep(time.Hour)
		later := metav1.Now()
		next := pv.DeepCopy()
		next.Status.Phase, next.Spec.StorageClassName = corev1.VolumeAvailable, "other"
		registrytest.Replace(k, "status", next, pv)
		if !next.Status.LastPhaseTransitionTime.Equal(&later) || next.Spec.StorageClassName != "" {
			t.Errorf("updated to %+v %+v", next.Spec, next.Status)
		}
		own := pv.DeepCopy()
		own.Status.Phase, own.Status.LastPhaseTransitionTime = corev1.VolumeBound, new(metav1.NewTime(began.Add(time.Minute)))
		registrytest.Replace(k, "status", own, pv)
		if own.Status.LastPhaseTransitionTime.Sub(began.Time) != time.Minute {
			t.Errorf("a client's own time became %v", own.Status.LastPhaseTransitionTime)
		}
		same := pv.DeepCopy()
		same.Status.LastPhaseTransitionTime = nil
		registrytest.Replace(k, "status", same, pv)
		if !same.Status.LastPhaseTransitionTime.Equal(&began) {
			t.Errorf("the same phase has time %v", same.Status.LastPhaseTransitionTime)
		}
		spec := pv.DeepCopy()
		spec.Status.Phase = corev1.VolumeFailed
		registrytest.Replace(k, "", spec, pv)
		if spec.Status.Phase != corev1.VolumePending {
			t.Error("an update changed the status")
		}
	})
}

func TestPersistentVolumeDefaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		source corev1.PersistentVolumeSource
		ok     func(s *corev1.PersistentVolumeSpec) bool
	}{
		{"hostPath", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{}}, func(s *corev1.PersistentVolumeSpec) bool { return *s.HostPath.Type == "" }},
		{"rbd", corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{}}, func(s *corev1.PersistentVolumeSpec) bool {
			return s.RBD.RBDPool == "rbd" && s.RBD.RadosUser == "admin" && s.RBD.Keyring == "/etc/ceph/keyring"
		}},
		{"iscsi", corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{}}, func(s *corev1.PersistentVolumeSpec) bool {
			return s.ISCSI.ISCSIInterface == "default"
		}},
		{"azureDisk", corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{}}, func(s *corev1.PersistentVolumeSpec) bool {
			return *s.AzureDisk.FSType == "ext4" && *s.AzureDisk.Kind == corev1.AzureSharedBlobDisk
		}},
		{"scaleIO", corev1.PersistentVolumeSource{ScaleIO: &corev1.ScaleIOPersistentVolumeSource{}}, func(s *corev1.PersistentVolumeSpec) bool {
			return s.ScaleIO.StorageMode == "ThinProvisioned" && s.ScaleIO.FSType == "xfs"
		}},
	} {
		pv := csiVolume()
		pv.Spec.PersistentVolumeSource = tt.source
		pv.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("1u")
		pvKind(t).Rules.Default(pv)
		q := pv.Spec.Capacity[corev1.ResourceStorage]
		if !tt.ok(&pv.Spec) || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain ||
			*pv.Spec.VolumeMode != corev1.PersistentVolumeFilesystem || pv.Status.Phase != corev1.VolumePending || q.MilliValue() != 1 || q.String() != "1m" {
			t.Errorf("%s: defaults %+v", tt.name, pv)
		}
	}
}

func TestPersistentVolumeWarnings(t *testing.T) {
	pv := csiVolume()
	pv.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "", corev1.MountOptionAnnotation: ""}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle
	pv.Spec.NodeAffinity = onZone(corev1.LabelInstanceType, "a")
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		CephFS: &corev1.CephFSPersistentVolumeSource{}, PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{},
		ScaleIO: &corev1.ScaleIOPersistentVolumeSource{}, StorageOS: &corev1.StorageOSPersistentVolumeSource{},
		Glusterfs: &corev1.GlusterfsPersistentVolumeSource{}, RBD: &corev1.RBDPersistentVolumeSource{},
	}
	want := []string{
		`metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead`,
		`metadata.annotations[volume.beta.kubernetes.io/mount-options]: deprecated since v1.31; use "mountOptions" attribute instead`,
		"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
		`spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/instance-type is deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
		"spec.cephfs: deprecated in v1.28, non-functional in v1.31+",
		"spec.photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+",
		"spec.scaleIO: deprecated in v1.16, non-functional in v1.22+",
		"spec.storageOS: deprecated in v1.22, non-functional in v1.25+",
		"spec.glusterfs: deprecated in v1.25, non-functional in v1.26+",
		"spec.rbd: deprecated in v1.28, non-functional in v1.31+",
	}
	var got []string
	ctx := registry.WithWarnings(context.Background(), func(text string) { got = append(got, text) })
	k := pvKind(t)
	if k.Rules.PrepareCreate(ctx, pv); !slices.Equal(got, want) {
		t.Errorf("warnings of a create:\n%s", strings.Join(got, "\n"))
	}
	got = nil
	if k.Rules.PrepareUpdate(ctx, pv, pv.DeepCopy()); !slices.Equal(got, want) {
		t.Errorf("warnings of an update:\n%s", strings.Join(got, "\n"))
	}
}
