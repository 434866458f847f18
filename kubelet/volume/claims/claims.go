package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodeaffinity "k8s.io/component-helpers/scheduling/corev1"

	"github.com/keelson-dev/keelson/client"
)

// pvcProtection is the finalizer that keeps a claim while pods use it.
const pvcProtection = "kubernetes.io/pvc-protection"

// Reader reads claims and persistent volumes, each by its name: a node may not list them. For a missing object,
// apierrors.IsNotFound reports true for the error.
type Reader interface {
	Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) // reads a claim
	Volume(ctx context.Context, name string) (*corev1.PersistentVolume, error)                // reads a volume
}

// ReaderOf is a Reader that asks the server each time.
func ReaderOf(server client.Getter) Reader { return reader{server} }

type reader struct{ server client.Getter }

func (r reader) Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return client.As[*corev1.PersistentVolumeClaim](r.server.Get(ctx, client.Target{
		Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), Namespace: namespace, Name: name,
	}))
}

func (r reader) Volume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	return client.As[*corev1.PersistentVolume](r.server.Get(ctx, client.Target{
		Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumes"), Name: name,
	}))
}

// Mount is a volume that a pod uses, as the plugin that mounts it sees it. Its objects are shared and only read.
type Mount struct {
	Pod *corev1.Pod
	// Volume is the volume in the pod's spec.
	Volume *corev1.Volume
	// Claim and Persistent are the claim and the persistent volume bound to it; both are nil for a volume whose
	// source is in the pod's spec.
	Claim      *corev1.PersistentVolumeClaim
	Persistent *corev1.PersistentVolume
	// ReadOnly means that the pod's reference to the claim is read-only.
	ReadOnly bool
}

// Name names the volume in directories and messages: the persistent volume's name, or else that in the pod.
func (m Mount) Name() string {
	if m.Persistent != nil {
		return m.Persistent.Name
	}
	return m.Volume.Name
}

// Block reports whether the volume is a raw device.
func (m Mount) Block() bool {
	return m.Persistent != nil && m.Persistent.Spec.VolumeMode != nil && *m.Persistent.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// Options are the mount options of the persistent volume.
func (m Mount) Options() []string {
	if m.Persistent == nil {
		return nil
	}
	return m.Persistent.Spec.MountOptions
}

// ErrInUse means that another pod has a volume that only one may have at a time.
var ErrInUse = errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")

// Exclusive reports whether only one pod may use the volume at a time.
func (m Mount) Exclusive() bool {
	return m.Persistent != nil && slices.Equal(m.Persistent.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod})
}

// ClaimName returns the name of the claim of a volume, also of that which is made for an ephemeral volume; empty for
// other volumes.
func ClaimName(pod *corev1.Pod, vol *corev1.Volume) string {
	switch {
	case vol.PersistentVolumeClaim != nil:
		return vol.PersistentVolumeClaim.ClaimName
	case vol.Ephemeral != nil:
		return pod.Name + "-" + vol.Name
	}
	return ""
}

// Resolve finds what is behind a volume of a pod. Volumes without claim are returned without reading anything.
func Resolve(ctx context.Context, from Reader, pod *corev1.Pod, vol *corev1.Volume) (Mount, error) {
	m := Mount{Pod: pod, Volume: vol}
	name := ClaimName(pod, vol)
	if name == "" {
		return m, nil
	}
	m.ReadOnly = vol.PersistentVolumeClaim != nil && vol.PersistentVolumeClaim.ReadOnly
	wrong := func(err error) error { return fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, name, err) }
	claim, err := boundClaim(ctx, from, pod.Namespace, name)
	if err != nil {
		return m, wrong(err)
	}
	if vol.Ephemeral != nil && !metav1.IsControlledBy(claim, pod) {
		return m, fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", pod.Namespace, name, pod.Namespace, pod.Name)
	}
	pv, err := volumeOf(ctx, from, claim)
	if err != nil {
		return m, wrong(err)
	}
	m.Claim, m.Persistent = claim, pv
	return m, checkMode(m)
}

// boundClaim reads a claim that is bound to a volume and stays so while pods use it.
func boundClaim(ctx context.Context, from Reader, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := from.Claim(ctx, namespace, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, pvcProtection):
		return nil, errors.New("PVC is being deleted")
	case claim.Status.Phase != corev1.ClaimBound:
		return nil, errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return nil, errors.New("PVC has empty pvc.Spec.VolumeName")
	}
	return claim, nil
}

// volumeOf reads the volume of a bound claim, which must name that claim.
func volumeOf(ctx context.Context, from Reader, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	pv, err := from.Volume(ctx, claim.Spec.VolumeName)
	switch {
	case err != nil:
		return nil, fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err)
	case pv.Spec.ClaimRef == nil:
		return nil, fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", pv.Name)
	case pv.Spec.ClaimRef.UID != claim.UID:
		return nil, fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s", pv.Name, pv.Spec.ClaimRef.UID, claim.UID)
	}
	return pv, nil
}

// checkMode compares the volume's mode with how containers use it.
func checkMode(m Mount) error {
	mode := corev1.PersistentVolumeFilesystem
	if m.Persistent.Spec.VolumeMode != nil {
		mode = *m.Persistent.Spec.VolumeMode
	}
	mounted, mapped := uses(m.Pod, m.Volume.Name)
	if mounted && mode != corev1.PersistentVolumeFilesystem {
		return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeMounts", m.Volume.Name, mode)
	}
	if mapped && mode != corev1.PersistentVolumeBlock {
		return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeDevices", m.Volume.Name, mode)
	}
	return nil
}

// Used reports whether containers of the pod mount a volume or have it as a device.
func Used(pod *corev1.Pod, volume string) bool {
	mounted, mapped := uses(pod, volume)
	return mounted || mapped
}

// uses reports whether containers mount a volume, and whether they have it as a device.
func uses(pod *corev1.Pod, volume string) (mounted, mapped bool) {
	see := func(mounts []corev1.VolumeMount, devices []corev1.VolumeDevice) {
		mounted = mounted || slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
		mapped = mapped || slices.ContainsFunc(devices, func(d corev1.VolumeDevice) bool { return d.Name == volume })
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			see(list[i].VolumeMounts, list[i].VolumeDevices)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		see(pod.Spec.EphemeralContainers[i].VolumeMounts, pod.Spec.EphemeralContainers[i].VolumeDevices)
	}
	return mounted, mapped
}

// CheckNode reports whether a node with these labels can reach the volume. Its error is a MountError.
func CheckNode(m Mount, labels map[string]string) error {
	if m.Persistent == nil || m.Persistent.Spec.NodeAffinity == nil || m.Persistent.Spec.NodeAffinity.Required == nil {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	matches, err := nodeaffinity.MatchNodeSelectorTerms(node, m.Persistent.Spec.NodeAffinity.Required)
	if err == nil && !matches {
		err = errors.New("no matching NodeSelectorTerms")
	}
	if err != nil {
		return &MountError{Operation: "MountVolume.NodeAffinity check failed", Volume: m.Name(), Err: err}
	}
	return nil
}

// MountError says why a volume is not ready, in the words of upstream's FailedMount events.
type MountError struct {
	// Operation says what failed; empty is "MountVolume.SetUp failed".
	Operation string
	Volume    string // its Mount.Name
	Err       error  // why it failed
}

func (e *MountError) Error() string {
	what := e.Operation
	if what == "" {
		what = "MountVolume.SetUp failed"
	}
	return fmt.Sprintf("%s for volume %q : %v", what, e.Volume, e.Err)
}

// Unwrap returns Err.
func (e *MountError) Unwrap() error { return e.Err }

// ErrAttachLimit means that a volume cannot be attached since the node has as many as it can have.
var ErrAttachLimit = errors.New("the node has reached its volume attachment limit")

// unprocessedRetry is upstream's pause before a pod whose claims led to no volumes is looked at again.
const unprocessedRetry = 10 * time.Second

// UnprocessedError says that claims of a pod do not lead to volumes that could be mounted, in the words of upstream's
// FailedMount event.
type UnprocessedError struct {
	// Unmounted are the pod's volumes that are not mounted, Unprocessed those that nothing is known about; both are
	// sorted.
	Unmounted, Unprocessed []string
	Errs                   []error // of Resolve
}

func (e *UnprocessedError) Error() string {
	var why string
	for i, err := range e.Errs {
		if i > 0 {
			why += "; "
		}
		why += err.Error()
	}
	return fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=%v, unattached volumes=[], failed to process volumes=%v: %s", e.Unmounted, e.Unprocessed, why)
}

// Unwrap returns Errs.
func (e *UnprocessedError) Unwrap() []error { return e.Errs }

// RetryAfter is the longest pause before the next attempt: nothing tells a node that a claim has been bound.
func (*UnprocessedError) RetryAfter() time.Duration { return unprocessedRetry }
