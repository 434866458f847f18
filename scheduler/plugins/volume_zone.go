package plugins

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// VolumeZone refuses nodes outside the zones or regions in the labels of the pod's volumes: "node(s) had no available
// volume zone". Nodes without such labels are in all of them.
//
// Without Volumes, it refuses none.
type VolumeZone struct {
	Volumes *volumes.Volumes
}

// Name returns "VolumeZone".
func (VolumeZone) Name() string { return "VolumeZone" }

// zoneLabels returns the labels of zones and regions.
func zoneLabels() []string {
	return []string{
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	}
}

// zones are the values of a label that a volume allows.
type zones struct {
	key    string
	values []string // sorted
}

// Check checks the zones of the pod's volumes.
func (z VolumeZone) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	prepared, _ := z.Prepare(pod, nil) // which does not fail
	if prepared.Check != nil {
		return prepared.Check(node)
	}
	return prepared.Refusal
}

// Prepare reads the labels of the pod's volumes once. It skips pods whose volumes have none.
func (z VolumeZone) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	if z.Volumes == nil {
		return scheduler.Prepared{Skip: true}, nil
	}
	var all []zones
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		pv, problem := z.volumeOf(pod.Namespace, source.ClaimName)
		if problem != "" {
			return scheduler.Prepared{Refusal: &scheduler.Refusal{Reasons: []string{problem}, Unresolvable: true}}, nil
		}
		if pv != nil {
			all = append(all, zonesOf(pv)...)
		}
	}
	if len(all) == 0 {
		return scheduler.Prepared{Skip: true}, nil
	}
	return scheduler.ByNode(func(n *scheduler.NodeInfo) *scheduler.Refusal { return inZones(all, n.Node.Labels) }), nil
}

// volumeOf returns the volume of a claim, nil if the claim waits for the pod, or why there is none.
func (z VolumeZone) volumeOf(namespace, name string) (*corev1.PersistentVolume, string) {
	if name == "" {
		return nil, "PersistentVolumeClaim had no name"
	}
	claim, err := z.Volumes.Claim(namespace, name)
	if err != nil {
		return nil, err.Error()
	}
	if claim.Spec.VolumeName != "" {
		pv, err := z.Volumes.Volume(claim.Spec.VolumeName)
		if err != nil {
			return nil, err.Error()
		}
		return pv, ""
	}
	className := volumes.ClassOf(claim)
	if className == "" {
		return nil, "PersistentVolumeClaim had no pv name and storageClass name"
	}
	class, err := z.Volumes.Class(className)
	switch {
	case err != nil:
		return nil, err.Error()
	case class.VolumeBindingMode == nil:
		return nil, fmt.Sprintf("VolumeBindingMode not set for StorageClass %q", className)
	case *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return nil, "PersistentVolume had no name"
	}
	return nil, ""
}

// zonesOf returns what the labels of a volume say. A label with an empty zone is ignored.
func zonesOf(pv *corev1.PersistentVolume) []zones {
	var all []zones
	for _, key := range zoneLabels() {
		label, ok := pv.Labels[key]
		if !ok {
			continue
		}
		values := strings.Split(label, "__")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		slices.Sort(values)
		if values[0] != "" {
			all = append(all, zones{key, slices.Compact(values)})
		}
	}
	return all
}

func inZones(all []zones, labels map[string]string) *scheduler.Refusal {
	if !slices.ContainsFunc(zoneLabels(), func(key string) bool { _, ok := labels[key]; return ok }) {
		return nil
	}
	for _, z := range all {
		value, ok := labels[z.key]
		if !ok {
			value, ok = labels[successor(z.key)]
		}
		if _, in := slices.BinarySearch(z.values, value); !ok || !in {
			return &scheduler.Refusal{Reasons: []string{"node(s) had no available volume zone"}, Unresolvable: true}
		}
	}
	return nil
}

// successor returns the label that has replaced one of a beta.
func successor(key string) string {
	switch key {
	case corev1.LabelFailureDomainBetaZone:
		return corev1.LabelTopologyZone
	case corev1.LabelFailureDomainBetaRegion:
		return corev1.LabelTopologyRegion
	}
	return key
}

// Events returns added and updated nodes, claims and volumes, and added classes.
func (VolumeZone) Events() scheduler.EventKind {
	return scheduler.NodeAdded | scheduler.NodeUpdated | scheduler.ObjectAdded | scheduler.ObjectUpdated
}

// MayHelp reports whether the event is about a claim of the pod, about where a volume is, or adds a class whose claims
// wait for their pods.
func (VolumeZone) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	if e.Kind&(scheduler.ObjectAdded|scheduler.ObjectUpdated) == 0 {
		return e.Kind == scheduler.NodeAdded || e.Change&scheduler.NodeLabelsChanged != 0
	}
	added := e.Kind == scheduler.ObjectAdded
	switch obj := e.Object.(type) {
	case *corev1.PersistentVolumeClaim:
		return obj.Namespace == pod.Namespace && namesClaim(pod, obj.Name)
	case *corev1.PersistentVolume:
		return added || !reflect.DeepEqual(zonesOf(obj), zonesOf(e.OldObject.(*corev1.PersistentVolume)))
	case *storagev1.StorageClass:
		return added && obj.VolumeBindingMode != nil && *obj.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	}
	return false
}
