package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/scheduler"
)

// ErrChanged means that the pod's devices have been taken since its node was chosen.
var ErrChanged = errors.New("the pod's devices have changed")

// reservation is what Bind has to do for a pod.
type reservation struct {
	claims []reserved
}

// reserved is a claim, and its devices if they were chosen for this pod.
type reserved struct {
	*resourcev1.ResourceClaim
	allocation *resourcev1.AllocationResult
}

// Reserve reserves devices of a node for those claims of a pod that have none. The returned undo takes that back as far as
// it has not been written. Bind needs a reservation.
func (d *Devices) Reserve(pod *corev1.Pod, node string) (undo func(), err error) {
	object, ok := d.in.Nodes.Get("", node)
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("node"), node)
	}
	claims, err := d.Of(pod)
	if err != nil {
		return nil, err
	}
	found, err := claims.Find(object)
	if err != nil {
		if refusal := (*scheduler.Refusal)(nil); errors.As(err, &refusal) {
			return nil, fmt.Errorf("%w: %s", ErrChanged, refusal.Error())
		}
		return nil, err
	}
	r := &reservation{}
	for i := range claims.all {
		one := reserved{ResourceClaim: claims.all[i].ResourceClaim}
		if one.Status.Allocation == nil {
			one.allocation, found = &found[0], found[1:]
		}
		r.claims = append(r.claims, one)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range r.claims {
		// If the pod refers to the claim twice, the first result counts, as upstream.
		if _, twice := d.ledger.entries[one.UID]; !twice && one.allocation != nil {
			c := one.DeepCopy()
			c.Status.Allocation = one.allocation
			d.ledger.add(c, 0)
		}
	}
	d.reserved[pod.UID] = r
	return func() { d.undo(pod, r) }, nil
}

func (d *Devices) undo(pod *corev1.Pod, r *reservation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reserved[pod.UID] == r {
		delete(d.reserved, pod.UID)
	}
	for _, one := range r.claims {
		if e, ok := d.ledger.entries[one.UID]; ok && one.allocation != nil && e.since == 0 {
			d.ledger.remove(one.UID)
		}
	}
}

// Reserved reports whether Bind has something to do for a pod.
func (d *Devices) Reserved(pod *corev1.Pod) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reserved[pod.UID] != nil
}

// Bind writes what was reserved for a pod on a node, and returns when all its devices are ready. It does nothing for a pod
// without a reservation. If it fails, the pod's name is taken off the claims again; what was allocated stays.
func (d *Devices) Bind(ctx context.Context, pod *corev1.Pod, node string) error {
	d.mu.Lock()
	r := d.reserved[pod.UID]
	d.mu.Unlock()
	if r == nil {
		return nil
	}
	if err := d.bind(ctx, pod, node, r); err != nil {
		d.leave(ctx, pod, r)
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reserved[pod.UID] == r {
		delete(d.reserved, pod.UID)
	}
	return nil
}

func (d *Devices) bind(ctx context.Context, pod *corev1.Pod, node string, r *reservation) error {
	for i := range r.claims {
		if !resourceclaim.IsReservedForPod(pod, r.claims[i].ResourceClaim, false) {
			if err := d.bindClaim(ctx, pod, &r.claims[i]); err != nil {
				return err
			}
		}
	}
	if !slices.ContainsFunc(r.claims, func(c reserved) bool { return prepared(c.ResourceClaim) }) {
		return nil
	}
	if d.o.Waiting != nil {
		d.o.Waiting(pod, node)
	}
	return d.awaitReady(ctx, r)
}

// conflicts is how often the claim is written before Bind gives up, if others change it.
const conflicts = 5

// bindClaim writes the allocation of a claim, if it has none yet, and reserves it for the pod.
func (d *Devices) bindClaim(ctx context.Context, pod *corev1.Pod, r *reserved) error {
	c := r.ResourceClaim
	var err error
	for attempt := range conflicts {
		if attempt > 0 {
			if c, err = d.get(ctx, c); err != nil {
				return fmt.Errorf("get updated claim %s after conflict: %w", nameOf(r.ResourceClaim), err)
			}
			if c.UID != r.UID {
				return fmt.Errorf("claim %s got deleted in the meantime", nameOf(c))
			}
		}
		if c, err = d.writeClaim(ctx, pod, c, r.allocation); !apierrors.IsConflict(err) {
			break
		}
		c = r.ResourceClaim
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r.ResourceClaim = c
	if stored, ok := d.in.Claims.Get(c.Namespace, c.Name); ok && stored.UID == c.UID && version(stored) < version(c) {
		d.written[c.UID] = c
		d.ledger.add(c, version(c))
	}
	return nil
}

// writeClaim makes one attempt and returns what was written.
func (d *Devices) writeClaim(ctx context.Context, pod *corev1.Pod, c *resourcev1.ResourceClaim, allocation *resourcev1.AllocationResult) (*resourcev1.ResourceClaim, error) {
	var err error
	name := nameOf(c)
	if c.DeletionTimestamp != nil {
		return nil, fmt.Errorf("claim %s got deleted in the meantime", name)
	}
	c = c.DeepCopy()
	doing := "add reservation"
	if allocation != nil {
		doing = "add allocation and reservation"
		if c.Status.Allocation != nil {
			return nil, fmt.Errorf("claim %s got allocated elsewhere in the meantime", name)
		}
		if !slices.Contains(c.Finalizers, resourcev1.Finalizer) {
			c.Finalizers = append(c.Finalizers, resourcev1.Finalizer)
			if c, err = d.update(ctx, c, ""); err != nil {
				return nil, fmt.Errorf("add finalizer to claim %s: %w", name, err)
			}
		}
		c.Status.Allocation = allocation.DeepCopy()
	}
	if c.Status.Allocation == nil {
		return nil, fmt.Errorf("claim %s got deallocated elsewhere in the meantime", name)
	}
	if c.Status.Allocation.AllocationTimestamp == nil {
		c.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Now()}
	}
	c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	if c, err = d.update(ctx, c, "status"); err != nil {
		return nil, fmt.Errorf("%s to claim %s: %w", doing, name, err)
	}
	return c, nil
}

func target(c *resourcev1.ResourceClaim, subresource string) client.Target {
	return client.Target{
		Resource:  resourcev1.SchemeGroupVersion.WithResource("resourceclaims"),
		Namespace: c.Namespace, Name: c.Name, Subresource: subresource,
	}
}

func (d *Devices) get(ctx context.Context, c *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	obj, err := d.write.Get(ctx, target(c, ""))
	return typed(obj, err)
}

// update writes a claim, which is ours to change, and returns a copy of what is stored.
func (d *Devices) update(ctx context.Context, c *resourcev1.ResourceClaim, subresource string) (*resourcev1.ResourceClaim, error) {
	obj, err := d.write.Update(ctx, target(c, subresource), c, metav1.UpdateOptions{})
	if c, err = typed(obj, err); err != nil {
		return nil, err
	}
	return c.DeepCopy(), nil
}

func typed(obj any, err error) (*resourcev1.ResourceClaim, error) {
	if err != nil {
		return nil, err
	}
	c, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return nil, fmt.Errorf("the server answered with a %T", obj)
	}
	return c, nil
}

// awaitReady returns when the drivers have prepared the devices of all claims.
func (d *Devices) awaitReady(ctx context.Context, r *reservation) error {
	wake := make(chan struct{}, 1)
	d.mu.Lock()
	d.waiting[wake] = struct{}{}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(d.waiting, wake)
		d.mu.Unlock()
	}()
	for {
		ready, left, err := d.ready(r)
		if err != nil || ready {
			return err
		}
		timer := time.NewTimer(max(left, 0) + time.Millisecond)
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// ready reports whether all devices are ready, or how long they may still take.
func (d *Devices) ready(r *reservation) (ready bool, left time.Duration, err error) {
	for i := range r.claims {
		c, err := d.claim(r.claims[i].Namespace, r.claims[i].Name)
		if err != nil {
			return false, 0, err
		}
		switch ready, err := isReady(c); {
		case err != nil:
			return false, 0, err
		case ready:
			continue
		}
		left := d.left(c)
		if left < 0 {
			return false, 0, fmt.Errorf("%w: claim=%s", ErrBindTimeout, c.Name)
		}
		return false, left, nil
	}
	return true, 0, nil
}

// leaving is how long Bind may take to take back reservations after the context has ended.
const leaving = time.Second

// leave takes the pod's name off its claims as far as they are reserved for it. What fails is done at the pod's next attempt,
// or when it is gone, by the resource claim controller.
func (d *Devices) leave(ctx context.Context, pod *corev1.Pod, r *reservation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	for i := range r.claims {
		for range conflicts {
			c, err := d.get(ctx, r.claims[i].ResourceClaim)
			if err != nil || c.UID != r.claims[i].UID || !resourceclaim.IsReservedForPod(pod, c, false) {
				break
			}
			c = c.DeepCopy()
			c.Status.ReservedFor = slices.DeleteFunc(c.Status.ReservedFor, func(of resourcev1.ResourceClaimConsumerReference) bool { return of.UID == pod.UID })
			if _, err = d.update(ctx, c, "status"); !apierrors.IsConflict(err) {
				break
			}
		}
	}
}

// Release takes the devices of one of the pod's claims back if they cannot be used on a node that may take the pod
// otherwise, and no other pod has the claim. It reports whether there was such a claim.
func (d *Devices) Release(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node) (bool, error) {
	claims, err := d.Of(pod)
	if err != nil {
		return false, nil //nolint:nilerr // the pod waits for its claims, which have no devices to take back
	}
	for i := range claims.all {
		one := &claims.all[i]
		unusable := slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return !d.usable(one, n) })
		if !unusable || slices.ContainsFunc(one.Status.ReservedFor, func(of resourcev1.ResourceClaimConsumerReference) bool { return of.UID != pod.UID }) {
			continue
		}
		c := one.DeepCopy()
		c.Status.ReservedFor, c.Status.Allocation, c.Status.Devices = nil, nil, nil
		_, err := d.update(ctx, c, "status")
		return true, err
	}
	return false, nil
}
