package devices

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/keelson-dev/keelson/scheduler"
)

// Uses reports whether a pod refers to resource claims.
func Uses(pod *corev1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 }

// Names reports whether a claim is one of a pod's, as far as its claims exist.
func (d *Devices) Names(pod *corev1.Pod, c *resourcev1.ResourceClaim) bool {
	claims, err := d.claimsOf(pod)
	if err != nil {
		return false
	}
	for _, of := range claims {
		if of.UID == c.UID {
			return true
		}
	}
	return false
}

// Exist returns a *scheduler.Refusal unless all claims of a pod exist.
func (d *Devices) Exist(pod *corev1.Pod) error {
	_, err := d.claimsOf(pod)
	return err
}

// claimsOf returns the claims of a pod. References for which none is needed are left out.
func (d *Devices) claimsOf(pod *corev1.Pod) ([]*resourcev1.ResourceClaim, error) {
	var all []*resourcev1.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		name, own, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, wait(err.Error())
		}
		if name == nil {
			continue
		}
		c, err := d.claim(pod.Namespace, *name)
		switch {
		case err != nil:
			return nil, wait(err.Error())
		case c.DeletionTimestamp != nil:
			return nil, wait(fmt.Sprintf("resourceclaim %q is being deleted", c.Name))
		case own:
			if err := resourceclaim.IsForPod(pod, c, false); err != nil {
				return nil, wait(err.Error())
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// wait refuses a pod for a reason that no removal of pods resolves.
func wait(reason string) *scheduler.Refusal {
	return &scheduler.Refusal{Reasons: []string{reason}, Unresolvable: true}
}

// Claims are the claims of a pod at one moment.
type Claims struct {
	d   *Devices
	all []claim
	// allocate chooses devices for the claims without any; nil if there are none of these.
	allocate Allocate
}

type claim struct {
	*resourcev1.ResourceClaim
	reach *nodeaffinity.NodeSelector // of allocated devices; nil is everywhere
}

// None reports whether there is nothing to do.
func (c *Claims) None() bool { return len(c.all) == 0 }

// Of examines a pod's claims.
func (d *Devices) Of(pod *corev1.Pod) (*Claims, error) {
	found, err := d.claimsOf(pod)
	if err != nil {
		return nil, err
	}
	c := &Claims{d: d}
	without := false
	for _, of := range found {
		one := claim{ResourceClaim: of}
		if of.Status.Allocation == nil {
			without = true
			if err := d.allocatable(of); err != nil {
				return nil, err
			}
		} else if selector := of.Status.Allocation.NodeSelector; selector != nil {
			if one.reach, err = nodeaffinity.NewNodeSelector(selector); err != nil {
				return nil, err
			}
		}
		c.all = append(c.all, one)
	}
	if without {
		if c.allocate, err = d.allocate(d.state()); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// allocatable returns why devices cannot be chosen for a claim at the moment.
func (d *Devices) allocatable(c *resourcev1.ResourceClaim) error {
	d.mu.Lock()
	_, pending := d.ledger.entries[c.UID]
	d.mu.Unlock()
	if pending {
		return wait(fmt.Sprintf("resource claim %s is in the process of being allocated", nameOf(c)))
	}
	for _, r := range c.Spec.Devices.Requests {
		switch {
		case r.Exactly != nil:
			if err := d.classOf(r.Exactly.DeviceClassName, r.Name); err != nil {
				return err
			}
		case len(r.FirstAvailable) > 0:
			for _, sub := range r.FirstAvailable {
				if err := d.classOf(sub.DeviceClassName, strings.Join([]string{r.Name, sub.Name}, "/")); err != nil {
					return err
				}
			}
		default:
			return wait(fmt.Sprintf("resource claim %s, request %s: unknown request type", nameOf(c), r.Name))
		}
	}
	return nil
}

func (d *Devices) classOf(name, request string) error {
	if name == "" {
		return fmt.Errorf("request %s: unsupported request type", request)
	}
	if _, err := d.class(name); apierrors.IsNotFound(err) {
		return wait(fmt.Sprintf("request %s: device class %s does not exist", request, name))
	}
	return nil
}

func nameOf(c *resourcev1.ResourceClaim) string { return c.Namespace + "/" + c.Name }

// without returns the claims that have no devices yet.
func (c *Claims) without() []*resourcev1.ResourceClaim {
	var some []*resourcev1.ResourceClaim
	for i := range c.all {
		if c.all[i].Status.Allocation == nil {
			some = append(some, c.all[i].ResourceClaim)
		}
	}
	return some
}

// Find returns the devices of a node for the claims without any, in the order of the claims. A *scheduler.Refusal as the
// error says why the pod cannot go to this node.
func (c *Claims) Find(node *corev1.Node) ([]resourcev1.AllocationResult, error) {
	var found []resourcev1.AllocationResult
	if c.allocate != nil {
		ctx := context.Background()
		if limit := c.d.o.FindTimeout; limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		claims := c.without()
		var err error
		found, err = c.allocate(ctx, node, claims)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return nil, fmt.Errorf("node %s: timed out trying to allocate devices", node.Name)
		case err != nil:
			return nil, err
		case len(found) != len(claims):
			return nil, wait("cannot allocate all claims")
		}
	}
	for i := range c.all {
		if !c.d.usable(&c.all[i], node) {
			return nil, wait("resourceclaim not available on the node")
		}
	}
	return found, nil
}

// usable reports whether a claim's devices, if it has any, can be used on a node.
func (d *Devices) usable(c *claim, node *corev1.Node) bool {
	switch {
	case c.Status.Allocation == nil:
		return true
	case c.reach != nil && !c.reach.Match(node):
		return false
	}
	ready, err := isReady(c.ResourceClaim)
	return err == nil && (ready || !d.late(c.ResourceClaim))
}

// Ranked reports whether Score tells nodes apart: if devices are to be chosen, and some request has alternatives.
func (c *Claims) Ranked() bool {
	if c.allocate == nil {
		return false
	}
	for i := range c.all {
		for _, r := range c.all[i].Spec.Devices.Requests {
			if len(r.FirstAvailable) > 0 {
				return true
			}
		}
	}
	return false
}

// Score returns how well requests with alternatives are met by what the claims have and by what Find has found: the earlier
// alternatives are better.
func (c *Claims) Score(found []resourcev1.AllocationResult) int64 {
	var score int64
	for i := range c.all {
		allocation := c.all[i].Status.Allocation
		if allocation == nil {
			if len(found) == 0 {
				return 0
			}
			allocation, found = &found[0], found[1:]
		}
		met := map[string]bool{}
		for _, r := range allocation.Devices.Results {
			met[r.Request] = true
		}
		for _, r := range c.all[i].Spec.Devices.Requests {
			for j, sub := range r.FirstAvailable {
				if met[resourceclaim.CreateSubRequestRef(r.Name, sub.Name)] {
					score += int64(resourcev1.FirstAvailableDeviceRequestMaxSize - j)
				}
			}
		}
	}
	return score
}
