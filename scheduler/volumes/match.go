package volumes

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
)

// reach is from which nodes a volume is reachable.
type reach struct {
	selector *nodeaffinity.LazyErrorNodeSelector
}

func reachOf(pv *corev1.PersistentVolume) reach {
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		return reach{nodeaffinity.NewLazyErrorNodeSelector(a.Required)}
	}
	return reach{}
}

// from returns nil if the volume is reachable from a node. The node has labels and nothing else.
func (r reach) from(node *corev1.Node) error {
	if r.selector == nil {
		return nil
	}
	match, err := r.selector.Match(node)
	if err == nil && !match {
		err = errNoTerm
	}
	return err
}

// candidate is a volume that fits a claim, wherever the pod goes.
type candidate struct {
	volume *corev1.PersistentVolume
	// reserved means that the volume is the claim's already: the claim gets this one or none.
	reserved bool
	size     resource.Quantity
	hosts    []string // the only values of LabelHostname that its nodes can have, unless there are none
	reach    reach
}

// candidates returns the volumes that fit a claim: those reserved for it, then the others by size and name.
func candidates(claim *corev1.PersistentVolumeClaim, all []*corev1.PersistentVolume) (candidateList, error) {
	selector := labels.Everything()
	if claim.Spec.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(claim.Spec.Selector); err != nil {
			return candidateList{}, fmt.Errorf("error creating internal label selector for claim: %v: %w", nameOf(claim), err)
		}
	}
	var list []candidate
	for _, pv := range all {
		reserved := reservedFor(pv, claim)
		if !fits(pv, claim) || !reserved && (pv.Spec.ClaimRef != nil || pv.Status.Phase != corev1.VolumeAvailable ||
			!selector.Matches(labels.Set(pv.Labels)) || !accessible(pv, claim)) {
			continue
		}
		list = append(list, candidate{volume: pv, reserved: reserved, size: pv.Spec.Capacity[corev1.ResourceStorage]})
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		if a.reserved != b.reserved {
			if a.reserved {
				return -1
			}
			return 1
		}
		return cmp.Or(a.size.Cmp(b.size), cmp.Compare(a.volume.Name, b.volume.Name))
	})
	return newCandidateList(list), nil
}

// fits reports whether a volume has what a claim asks for, except for what does not matter once it is reserved.
func fits(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	size := pv.Spec.Capacity[corev1.ResourceStorage]
	return size.Cmp(claim.Spec.Resources.Requests[corev1.ResourceStorage]) >= 0 &&
		ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == ptr.Deref(pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) &&
		ptr.Deref(claim.Spec.VolumeAttributesClassName, "") == ptr.Deref(pv.Spec.VolumeAttributesClassName, "") &&
		pv.DeletionTimestamp == nil
}

func accessible(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return !slices.ContainsFunc(claim.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(pv.Spec.AccessModes, mode)
	})
}

func reservedFor(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Name == claim.Name && ref.Namespace == claim.Namespace && (ref.UID == "" || ref.UID == claim.UID)
}

// candidateList is the candidates for a claim, in the order of preference. Local volumes, of which there may be one or
// more for each node, are found by their node's name, so that looking at all nodes does not mean to look at all volumes
// for each of them.
type candidateList struct {
	all    []candidate
	byHost map[string][]int // the numbers of those with hosts, by each of these
	others []int            // the numbers of the rest
}

func newCandidateList(all []candidate) candidateList {
	l := candidateList{all: all, byHost: map[string][]int{}}
	for i := range all {
		c := &all[i]
		c.reach, c.hosts = reachOf(c.volume), hostsOf(c.volume)
		if len(c.hosts) == 0 || c.reserved {
			l.others = append(l.others, i)
		}
		for _, host := range c.hosts {
			if !c.reserved {
				l.byHost[host] = append(l.byHost[host], i)
			}
		}
	}
	return l
}

// hostsOf returns the only values of LabelHostname with which nodes can reach a volume, as far as its terms tell.
func hostsOf(pv *corev1.PersistentVolume) []string {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	terms := pv.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 {
		return nil
	}
	for _, r := range terms[0].MatchExpressions {
		if r.Key == corev1.LabelHostname && r.Operator == corev1.NodeSelectorOpIn {
			return slices.Compact(slices.Sorted(slices.Values(r.Values)))
		}
	}
	return nil
}

// best returns the preferred volume that is reachable from a node and not taken, or nil.
func (l *candidateList) best(node *corev1.Node, taken []*corev1.PersistentVolume) *corev1.PersistentVolume {
	here, others := l.byHost[node.Labels[corev1.LabelHostname]], l.others
	for len(here)+len(others) > 0 {
		var c *candidate
		if len(here) == 0 || len(others) > 0 && others[0] < here[0] {
			c, others = &l.all[others[0]], others[1:]
		} else {
			c, here = &l.all[here[0]], here[1:]
		}
		if slices.ContainsFunc(taken, func(pv *corev1.PersistentVolume) bool { return pv.Name == c.volume.Name }) {
			continue
		}
		if c.reach.from(node) == nil {
			return c.volume
		}
		if c.reserved {
			return nil
		}
	}
	return nil
}
