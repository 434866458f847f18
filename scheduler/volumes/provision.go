package volumes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/ptr"
)

// noProvisioner is the provisioner of classes whose volumes are not made on demand.
const noProvisioner = "kubernetes.io/no-provisioner"

// provisioning is where a volume can be made for a claim.
type provisioning struct {
	err   error // why that cannot be said
	never bool
	// topologies select the nodes; nil means all.
	topologies []labels.Selector
	// limited means that the driver publishes how much room there is, and rooms are those with enough.
	limited bool
	rooms   []room
}

// room is storage of a class with enough capacity, and the nodes that have access to it.
type room struct {
	capacity *storagev1.CSIStorageCapacity
	nodes    labels.Selector
}

func (v *Volumes) provisioning(claim *corev1.PersistentVolumeClaim) provisioning {
	name := ClassOf(claim)
	if name == "" {
		return provisioning{err: fmt.Errorf("no class for claim %q", nameOf(claim))}
	}
	class, err := v.Class(name)
	if err != nil {
		return provisioning{err: fmt.Errorf("failed to find storage class %q", name)}
	}
	p := provisioning{never: class.Provisioner == "" || class.Provisioner == noProvisioner}
	if !p.never {
		p.topologies = topologies(class.AllowedTopologies)
		p.limited, p.rooms = v.rooms(claim, class)
	}
	return p
}

// topologies returns a selector for each term that can match, and nil if there are no terms.
func topologies(terms []corev1.TopologySelectorTerm) []labels.Selector {
	if len(terms) == 0 {
		return nil
	}
	selectors := []labels.Selector{}
	for _, term := range terms {
		selector, valid := labels.NewSelector(), len(term.MatchLabelExpressions) > 0
		for _, e := range term.MatchLabelExpressions {
			r, err := labels.NewRequirement(e.Key, selection.In, e.Values)
			if err != nil {
				valid = false
				break
			}
			selector = selector.Add(*r)
		}
		if valid {
			selectors = append(selectors, selector)
		}
	}
	return selectors
}

// rooms returns whether the driver of a class publishes capacities, and those that suffice for a claim.
func (v *Volumes) rooms(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (limited bool, rooms []room) {
	size, sized := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	driver, ok := v.in.CSIDrivers.Get("", class.Provisioner)
	if !sized || !ok || !ptr.Deref(driver.Spec.StorageCapacity, false) {
		return false, nil
	}
	for _, capacity := range v.in.Capacities.List("") {
		limit := Limit(capacity)
		if capacity.StorageClassName != class.Name || limit == nil || limit.Value() < size.Value() || capacity.NodeTopology == nil {
			continue
		}
		if nodes, err := metav1.LabelSelectorAsSelector(capacity.NodeTopology); err == nil {
			rooms = append(rooms, room{capacity, nodes})
		}
	}
	return true, rooms
}

// Limit returns the size of the largest volume that a capacity allows, or nil.
func Limit(capacity *storagev1.CSIStorageCapacity) *resource.Quantity {
	if capacity.MaximumVolumeSize != nil {
		return capacity.MaximumVolumeSize
	}
	return capacity.Capacity
}

// on reports whether a volume can be made for a node, and whether there is room for it, with the room if that is limited.
func (p *provisioning) on(node *corev1.Node) (possible, enough bool, capacity *storagev1.CSIStorageCapacity) {
	set := labels.Set(node.Labels)
	if p.never || p.topologies != nil && !anyMatches(p.topologies, set) {
		return false, true, nil
	}
	if !p.limited {
		return true, true, nil
	}
	for _, r := range p.rooms {
		if r.nodes.Matches(set) {
			return true, true, r.capacity
		}
	}
	return true, false, nil
}

func anyMatches(selectors []labels.Selector, set labels.Set) bool {
	for _, s := range selectors {
		if s.Matches(set) {
			return true
		}
	}
	return false
}
