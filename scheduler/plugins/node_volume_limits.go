package plugins

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// NodeVolumeLimits refuses nodes with more volumes of a CSI driver than its CSINode allows: "node(s) exceed max volume
// count"; and those without a driver that has pods wait for it: "disk.example.com CSI driver is not installed on the
// node".
//
// Without Volumes, it refuses none.
type NodeVolumeLimits struct {
	Volumes *volumes.Volumes
}

// Name returns "NodeVolumeLimits".
func (NodeVolumeLimits) Name() string { return "NodeVolumeLimits" }

// Prepare skips pods without volumes that a driver may have.
func (l NodeVolumeLimits) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	if l.Volumes == nil || !driven(pod) {
		return scheduler.Prepared{Skip: true}, nil
	}
	return scheduler.ByNode(func(n *scheduler.NodeInfo) *scheduler.Refusal { return l.Check(pod, n) }), nil
}

// driven reports whether a driver may have volumes of a pod.
func driven(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || volumes.Inline(&v)
	})
}

// Check counts the volumes of the node by driver.
func (l NodeVolumeLimits) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	if l.Volumes == nil {
		return nil
	}
	more := volumes.Attached{}
	if err := l.Volumes.AddOf(pod, node.Name, false, more); apierrors.IsNotFound(err) {
		return &scheduler.Refusal{Reasons: []string{err.Error()}, Unresolvable: true}
	} else if err != nil {
		return &scheduler.Refusal{Err: err}
	}
	for _, driver := range slices.Sorted(maps.Values(more)) {
		if !l.Volumes.Installed(driver, node.Name) {
			return scheduler.Refuse(driver + " CSI driver is not installed on the node")
		}
	}
	if len(more) == 0 {
		return nil
	}
	return l.within(l.Volumes.Limits(node.Name), more, node)
}

// within refuses a node where more volumes would exceed the limits.
func (l NodeVolumeLimits) within(limits map[string]int, more volumes.Attached, node *scheduler.NodeInfo) *scheduler.Refusal {
	if len(limits) == 0 {
		return nil
	}
	there := volumes.Attached{}
	for _, other := range node.Pods {
		if err := l.Volumes.AddOf(other.Pod, node.Name, true, there); err != nil {
			return &scheduler.Refusal{Err: err}
		}
	}
	maps.DeleteFunc(more, func(volume, _ string) bool { _, shared := there[volume]; return shared })
	l.Volumes.AddAttached(node.Name, there)
	count, added := map[string]int{}, map[string]int{}
	for _, driver := range there {
		count[driver]++
	}
	for _, driver := range more {
		added[driver]++
	}
	for driver, n := range added {
		if limit, ok := limits[driver]; ok && count[driver]+n > limit {
			return scheduler.Refuse("node(s) exceed max volume count")
		}
	}
	return nil
}

// Events returns deleted pods, added and updated CSINodes, added claims and deleted attachments.
func (NodeVolumeLimits) Events() scheduler.EventKind {
	return scheduler.AssignedPodDeleted | scheduler.ObjectAdded | scheduler.ObjectUpdated | scheduler.ObjectDeleted
}

// MayHelp reports whether a limit grew, volumes may have gone, or a claim of the pod is there.
func (NodeVolumeLimits) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	switch e.Kind {
	case scheduler.AssignedPodDeleted:
		placed := e.OldPod.Spec.NodeName != "" || e.OldPod.Status.NominatedNodeName != ""
		return placed && driven(e.OldPod)
	case scheduler.ObjectDeleted:
		attachment, ok := e.OldObject.(*storagev1.VolumeAttachment)
		return ok && mayHave(pod, attachment.Spec.Attacher)
	}
	added := e.Kind == scheduler.ObjectAdded
	switch obj := e.Object.(type) {
	case *corev1.PersistentVolumeClaim:
		return added && volumes.Names(pod, obj)
	case *storagev1.CSINode:
		return added || limitGrew(e.OldObject.(*storagev1.CSINode), obj)
	}
	return false
}

// mayHave reports whether the pod has a volume of a driver. That of a claim may be any driver's.
func mayHave(pod *corev1.Pod, driver string) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil {
			return true
		}
		if !volumes.Inline(v) {
			continue
		}
		if name, err := volumes.InlineDriver(pod.Namespace, v); err != nil || name == driver {
			return true
		}
	}
	return false
}

func limitGrew(old, node *storagev1.CSINode) bool {
	limit := func(d storagev1.CSINodeDriver) int32 {
		if d.Allocatable == nil || d.Allocatable.Count == nil {
			return 0
		}
		return *d.Allocatable.Count
	}
	was := map[string]int32{}
	for _, d := range old.Spec.Drivers {
		was[d.Name] = limit(d)
	}
	return slices.ContainsFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return limit(d) > was[d.Name] })
}
