package volumes

import (
	"errors"
	"math"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons why a node cannot have a pod's volumes, in the order in which Find returns them.
const (
	NodeConflict   = "node(s) didn't match PersistentVolume's node affinity"
	BindConflict   = "node(s) didn't find available persistent volumes to bind"
	NotEnoughSpace = "node(s) did not have enough free storage"
	VolumeMissing  = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)

var errNoTerm = errors.New("no matching NodeSelectorTerms")

// boundClaim is the volume of a bound claim.
type boundClaim struct {
	volume *corev1.PersistentVolume // nil if it does not exist
	// plugin is the former plugin of the volume; "" unless its CSI driver may have replaced it on a node.
	plugin string
	reach  reach
}

func (v *Volumes) volumeOf(claim *corev1.PersistentVolumeClaim) boundClaim {
	pv, err := v.volumes.get(types.NamespacedName{Name: claim.Spec.VolumeName})
	if err != nil {
		return boundClaim{}
	}
	return boundClaim{volume: pv, plugin: replaceable(pv), reach: reachOf(pv)}
}

// waitingClaim is a claim whose volume depends on the pod's node.
type waitingClaim struct {
	claim      *corev1.PersistentVolumeClaim
	candidates candidateList
	err        error // why there are no candidates
	provision  provisioning
}

// Placement is the volumes that a pod's unbound claims would have on a node.
type Placement struct {
	static  []static
	dynamic []dynamic
}

// static is a volume that exists, for a claim.
type static struct {
	volume *corev1.PersistentVolume
	claim  *corev1.PersistentVolumeClaim
	// assumed means that this placement made the volume's state, rather than an earlier one.
	assumed bool
}

// dynamic is a claim for which a volume is to be made.
type dynamic struct {
	claim    *corev1.PersistentVolumeClaim
	capacity *storagev1.CSIStorageCapacity // where; nil if that is not limited
}

// Find returns where the pod's unbound claims would have their volumes if the pod were on the node, or the reasons why
// the node cannot have the pod, none of which removing pods would resolve.
func (c *Claims) Find(node *corev1.Node) (*Placement, []string, error) {
	bare := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: node.Labels}} // a volume may select labels only
	conflict, missing, err := c.checkBound(node.Name, bare)
	if err != nil {
		return nil, nil, err
	}
	p := &Placement{}
	bindable, enough := true, true
	if c.Unbound() {
		if bindable, enough, err = c.place(p, node.Name, bare); err != nil {
			return nil, nil, err
		}
	}
	var reasons []string
	for _, r := range []struct {
		holds  bool
		reason string
	}{{conflict, NodeConflict}, {!bindable, BindConflict}, {!enough, NotEnoughSpace}, {missing, VolumeMissing}} {
		if r.holds {
			reasons = append(reasons, r.reason)
		}
	}
	return p, reasons, nil
}

// checkBound finds the first bound claim whose volume is not reachable from the node, or missing.
func (c *Claims) checkBound(name string, node *corev1.Node) (conflict, missing bool, err error) {
	for _, b := range c.bound {
		if b.volume == nil {
			return false, true, nil
		}
		r := b.reach
		if b.plugin != "" && onNode(b.plugin, c.v.csiNode(name)) {
			pv, err := translated(b.volume)
			if err != nil {
				return false, false, err
			}
			r = reachOf(pv)
		}
		if r.from(node) == nil {
			continue
		}
		return true, false, nil
	}
	return false, false, nil
}

// place adds the volumes of the unbound claims to p.
func (c *Claims) place(p *Placement, name string, node *corev1.Node) (bindable, enough bool, err error) {
	for _, w := range c.chosen {
		if w.claim.Annotations[selectedNode] != name {
			return false, true, nil
		}
	}
	var taken []*corev1.PersistentVolume
	provision := c.chosen[:len(c.chosen):len(c.chosen)]
	for _, w := range c.waiting {
		if w.err != nil {
			return false, true, w.err
		}
		if pv := w.candidates.best(node, taken); pv != nil {
			taken = append(taken, pv)
			p.static = append(p.static, static{volume: pv, claim: w.claim})
		} else {
			provision = append(provision, w)
		}
	}
	for _, w := range provision {
		if w.provision.err != nil {
			return false, false, w.provision.err
		}
		possible, enough, capacity := w.provision.on(node)
		if !possible || !enough {
			p.dynamic = nil
			return possible, enough, nil
		}
		p.dynamic = append(p.dynamic, dynamic{w.claim, capacity})
	}
	return true, true, nil
}

// Score returns the score of the storage that the volumes come from by the share that they would use: the average over
// their classes of what score returns for a percentage. Volumes to be made count only if no other volume is used, and only where capacities are published.
func (p *Placement) Score(score func(utilization int64) int64) int64 {
	type use struct{ requested, capacity int64 }
	classes := map[string]use{}
	for _, s := range p.static {
		u := classes[s.volume.Spec.StorageClassName]
		request, size := s.claim.Spec.Resources.Requests[corev1.ResourceStorage], s.volume.Spec.Capacity[corev1.ResourceStorage]
		classes[s.volume.Spec.StorageClassName] = use{u.requested + request.Value(), u.capacity + size.Value()}
	}
	for _, d := range p.dynamic {
		if len(p.static) > 0 || d.capacity == nil {
			continue
		}
		u, request := classes[ClassOf(d.claim)], d.claim.Spec.Resources.Requests[corev1.ResourceStorage]
		u.requested += request.Value()
		if u.capacity = 0; d.capacity.Capacity != nil {
			u.capacity = d.capacity.Capacity.Value()
		}
		classes[ClassOf(d.claim)] = u
	}
	if len(classes) == 0 {
		return 0
	}
	var sum int64
	for _, u := range classes {
		used := int64(100)
		if u.capacity > 0 && u.requested <= u.capacity {
			used = u.requested * 100 / u.capacity
		}
		sum += score(used)
	}
	return int64(math.Round(float64(sum) / float64(len(classes))))
}
