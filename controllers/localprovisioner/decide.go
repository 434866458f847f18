package localprovisioner

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Provisioner is the name of the provisioner in storage classes.
const Provisioner = "keelson.dev/local"

// Annotations and the finalizer, by which the volume controller, the scheduler and provisioners understand each other.
const (
	provisionedBy = "pv.kubernetes.io/provisioned-by"
	selectedNode  = "volume.kubernetes.io/selected-node"
	askedFor      = "volume.kubernetes.io/storage-provisioner"
	askedForBeta  = "volume.beta.kubernetes.io/storage-provisioner"
	classBeta     = "volume.beta.kubernetes.io/storage-class"
	onNode        = "keelson.dev/node" // on volumes: the node that has the directory
	finalizer     = "external-provisioner.volume.kubernetes.io/finalizer"
)

// wanting reports whether a claim waits for a volume of this provisioner.
func wanting(claim *corev1.PersistentVolumeClaim) bool {
	if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
		return false
	}
	asked, ok := claim.Annotations[askedFor]
	if !ok {
		asked = claim.Annotations[askedForBeta]
	}
	return asked == Provisioner
}

// classOf is the name of a claim's storage class.
func classOf(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[classBeta]; ok {
		return name
	}
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// NameFor is the name of the volume for a claim, and of its directory.
func NameFor(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// waits reports whether volumes of a class are made only when a node has been selected.
func waits(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// refusal says what about a claim or its class cannot be provided; it is empty if nothing stands in the way.
func refusal(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) string {
	spec := &claim.Spec
	if spec.VolumeMode != nil && *spec.VolumeMode == corev1.PersistentVolumeBlock {
		return Provisioner + " does not support block volume provisioning"
	}
	var why string
	switch parameters := len(class.Parameters); {
	case spec.Selector != nil:
		why = "claim Selector is not supported"
	case spec.DataSource != nil || spec.DataSourceRef != nil:
		why = "claim DataSource is not supported"
	case spec.VolumeAttributesClassName != nil && *spec.VolumeAttributesClassName != "":
		why = "volume attributes classes are not supported"
	case !waits(class):
		why = "no node was selected: the class must have volumeBindingMode WaitForFirstConsumer"
	case parameters > 0:
		why = "the class has parameters, of which none is supported"
	case len(class.AllowedTopologies) > 0:
		why = "allowedTopologies of the class are not supported"
	default:
		why = refusedMode(spec.AccessModes)
	}
	if why == "" {
		return ""
	}
	return fmt.Sprintf("failed to provision volume with StorageClass %q: %s", class.Name, why)
}

// refusedMode rejects access from more than one node.
func refusedMode(modes []corev1.PersistentVolumeAccessMode) string {
	var bad []string
	for _, mode := range modes {
		if mode != corev1.ReadWriteOnce && mode != corev1.ReadWriteOncePod {
			bad = append(bad, string(mode))
		}
	}
	if len(bad) == 0 {
		return ""
	}
	return "only the access modes ReadWriteOnce and ReadWriteOncePod are supported, not " + strings.Join(bad, ", ")
}

// volumeFor is the volume for a claim, in a directory of a node.
func volumeFor(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node *corev1.Node, dir string) *corev1.PersistentVolume {
	host := node.Labels[corev1.LabelHostname]
	if host == "" {
		host = node.Name
	}
	reclaim, mode := corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeFilesystem
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: NameFor(claim), Finalizers: []string{finalizer}, Annotations: map[string]string{provisionedBy: Provisioner, onNode: node.Name},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: reclaim, StorageClassName: class.Name, MountOptions: class.MountOptions, VolumeMode: &mode,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
			}}}},
		},
	}
}

// fate is what is to become of a volume of this provisioner.
type fate int

const (
	keep   fate = iota
	remove      // its directory and the volume
	let         // go, without its directory
)

func fateOf(pv *corev1.PersistentVolume) fate {
	switch deleting := pv.DeletionTimestamp != nil; {
	case pv.Annotations[provisionedBy] != Provisioner || deleting && !slices.Contains(pv.Finalizers, finalizer):
		return keep
	case pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		if pv.Status.Phase == corev1.VolumeReleased {
			return remove
		}
	case deleting:
		return let
	}
	return keep
}
