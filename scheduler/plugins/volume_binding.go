package plugins

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// VolumeBinding places pods where their persistent volumes are, or can be, and has volumes bound to the pod's claims
// before the pod is bound. Claims of a class with WaitForFirstConsumer get the smallest volume that fits and is reachable
// from the node, or one is made for the node; all others must have been bound before: "pod has unbound immediate
// PersistentVolumeClaims". Of nodes with volumes to choose from, those score best where the volumes would be used least.
//
// Without Volumes, it refuses pods with claims.
type VolumeBinding struct {
	Volumes *volumes.Volumes
	// Shape is the score by the used share of the storage; nil falls from 100 to 0.
	Shape Shape
}

// Name returns "VolumeBinding".
func (VolumeBinding) Name() string { return "VolumeBinding" }

// Check checks where the pod's volumes are.
func (b VolumeBinding) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	prepared, err := b.Prepare(pod, nil)
	switch {
	case err != nil:
		return &scheduler.Refusal{Err: err}
	case prepared.Check != nil:
		return prepared.Check(node)
	}
	return prepared.Refusal
}

// Prepare examines the pod's claims once. It skips pods without claims.
func (b VolumeBinding) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	refuse := func(reason string) (scheduler.Prepared, error) {
		return scheduler.Prepared{Refusal: &scheduler.Refusal{Reasons: []string{reason}, Unresolvable: true}}, nil
	}
	switch {
	case !volumes.Uses(pod):
		return scheduler.Prepared{Skip: true}, nil
	case b.Volumes == nil:
		return refuse(fmt.Sprintf("pod requires persistentvolumeclaim %q, which this scheduler does not support", firstClaim(pod)))
	}
	if err := b.Volumes.Usable(pod); err != nil {
		return refuse(err.Error())
	}
	claims, err := b.Volumes.Of(pod)
	switch {
	case err != nil:
		return scheduler.Prepared{}, err
	case claims.Immediate > 0:
		return refuse("pod has unbound immediate PersistentVolumeClaims")
	}
	return scheduler.ByNode(func(n *scheduler.NodeInfo) *scheduler.Refusal {
		_, reasons, err := claims.Find(n.Node)
		if err == nil && len(reasons) == 0 {
			return nil
		}
		return &scheduler.Refusal{Reasons: reasons, Unresolvable: true, Err: err}
	}), nil
}

// firstClaim returns the pod's first claim; those of ephemeral volumes come last.
func firstClaim(pod *corev1.Pod) string {
	ephemeral := ""
	for i := range pod.Spec.Volumes {
		name, own := volumes.ClaimOf(pod, &pod.Spec.Volumes[i])
		switch {
		case name != "" && !own:
			return name
		case ephemeral == "":
			ephemeral = name
		}
	}
	return ephemeral
}

// Score returns how little of their storage the pod's volumes would use on the node.
func (b VolumeBinding) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	prepared, err := b.PrepareScores(pod, nil, nil)
	if err != nil || prepared.Skip {
		return 0
	}
	return prepared.Score(node)
}

// PrepareScores examines the pod's claims once. It skips pods without unbound claims.
func (b VolumeBinding) PrepareScores(pod *corev1.Pod, _ *scheduler.Snapshot, _ []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	if b.Volumes == nil || !volumes.Uses(pod) {
		return scheduler.PreparedScores{Skip: true}, nil
	}
	claims, err := b.Volumes.Of(pod)
	if err != nil || !claims.Unbound() {
		return scheduler.PreparedScores{Skip: true}, err
	}
	shape := b.Shape
	if shape == nil {
		shape = Shape{{0, scheduler.MaxScore}, {100, 0}}
	}
	return scheduler.PreparedScores{Score: func(n *scheduler.NodeInfo) int64 {
		placement, reasons, err := claims.Find(n.Node)
		if err != nil || len(reasons) > 0 {
			return 0
		}
		return placement.Score(shape.At)
	}}, nil
}

// SkipReserve skips pods without claims.
func (b VolumeBinding) SkipReserve(pod *corev1.Pod) bool {
	return b.Volumes == nil || !volumes.Uses(pod)
}

// Reserve reserves volumes for unbound claims, in memory.
func (b VolumeBinding) Reserve(_ context.Context, pod *corev1.Pod, node string) (undo func(), err error) {
	if b.SkipReserve(pod) {
		return nil, nil
	}
	return b.Volumes.Reserve(pod, node)
}

// SkipPreBind skips pods for which nothing is reserved.
func (b VolumeBinding) SkipPreBind(pod *corev1.Pod, _ string) bool {
	return b.Volumes == nil || !b.Volumes.Reserved(pod)
}

// PreBind writes what is reserved and waits until the claims are bound.
func (b VolumeBinding) PreBind(ctx context.Context, pod *corev1.Pod, node string) error {
	if b.Volumes == nil {
		return nil
	}
	return b.Volumes.Bind(ctx, pod, node)
}

// Events returns added and updated nodes, claims, volumes, classes, and what CSI drivers publish.
func (VolumeBinding) Events() scheduler.EventKind {
	return scheduler.NodeAdded | scheduler.NodeUpdated | scheduler.ObjectAdded | scheduler.ObjectUpdated
}

// MayHelp reports whether the event is about a claim of the pod, or about where volumes are or can be made.
func (VolumeBinding) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	if e.Kind&(scheduler.ObjectAdded|scheduler.ObjectUpdated) == 0 {
		return e.Kind == scheduler.NodeAdded || e.Change&scheduler.NodeLabelsChanged != 0
	}
	added := e.Kind == scheduler.ObjectAdded
	switch obj := e.Object.(type) {
	case *corev1.PersistentVolumeClaim:
		return volumes.Names(pod, obj)
	case *corev1.PersistentVolume:
		return true
	case *storagev1.StorageClass:
		return added || !equality.Semantic.DeepEqual(obj.AllowedTopologies, e.OldObject.(*storagev1.StorageClass).AllowedTopologies)
	case *storagev1.CSINode:
		return added || obj.Annotations[corev1.MigratedPluginsAnnotationKey] != e.OldObject.GetAnnotations()[corev1.MigratedPluginsAnnotationKey]
	case *storagev1.CSIDriver:
		return !added && unlimited(pod, e.OldObject.(*storagev1.CSIDriver), obj)
	case *storagev1.CSIStorageCapacity:
		limit := volumes.Limit(obj)
		if added || limit == nil {
			return added
		}
		old := volumes.Limit(e.OldObject.(*storagev1.CSIStorageCapacity))
		return old == nil || limit.Value() > old.Value()
	}
	return false
}

// unlimited reports whether a driver of the pod has ceased to publish capacities.
func unlimited(pod *corev1.Pod, old, driver *storagev1.CSIDriver) bool {
	for _, v := range pod.Spec.Volumes {
		if v.CSI != nil && v.CSI.Driver == driver.Name {
			return ptr.Deref(old.Spec.StorageCapacity, false) && !ptr.Deref(driver.Spec.StorageCapacity, false)
		}
	}
	return false
}
