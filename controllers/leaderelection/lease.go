package leaderelection

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
)

func errorf(what string) error { return fmt.Errorf("%w: %s", ErrOptions, what) }

// holder returns the holder of a Lease, or "".
func holder(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// valid reports whether a Lease that last changed at seen has not expired.
func valid(lease *coordinationv1.Lease, seen, now time.Time) bool {
	if lease.Spec.LeaseDurationSeconds == nil {
		return false
	}
	return seen.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second).After(now)
}

// claim returns the spec by which identity takes or renews a Lease; unless identity already held it, this is a new
// transition.
func claim(old *coordinationv1.Lease, identity string, duration time.Duration, now time.Time) coordinationv1.LeaseSpec {
	var (
		seconds     = int32(duration / time.Second)
		at          = metav1.NewMicroTime(now)
		transitions int32
		spec        = coordinationv1.LeaseSpec{HolderIdentity: &identity, LeaseDurationSeconds: &seconds, AcquireTime: &at, RenewTime: &at}
	)
	spec.LeaseTransitions = &transitions
	if old == nil {
		return spec
	}
	if old.Spec.LeaseTransitions != nil {
		transitions = *old.Spec.LeaseTransitions
	}
	if holder(old) == identity {
		spec.AcquireTime = old.Spec.AcquireTime
	} else {
		transitions++
	}
	return spec
}

func (e *Elector) target() client.Target {
	return client.Target{
		Resource:  coordinationv1.SchemeGroupVersion.WithResource("leases"),
		Namespace: e.name.Namespace, Name: e.name.Name,
	}
}

func (e *Elector) observed() (*coordinationv1.Lease, time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lease, e.seen
}

// observe records the server's Lease; the clock restarts if it has changed.
func (e *Elector) observe(lease *coordinationv1.Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lease == nil || !equality.Semantic.DeepEqual(e.lease.Spec, lease.Spec) {
		e.seen = time.Now()
	}
	e.lease = lease
}

// try takes or renews the Lease, and reports whether it is held.
func (e *Elector) try(ctx context.Context) bool {
	now := time.Now()
	lease, seen := e.observed()
	if holder(lease) == e.identity && valid(lease, seen, now) && e.update(ctx, lease, now) == nil {
		return true // nobody else wrote since
	}
	lease, err := asLease(e.client.Get(ctx, e.target()))
	if apierrors.IsNotFound(err) {
		return e.create(ctx, now)
	}
	if err != nil {
		e.log.Warn("reading the lease failed", "error", err)
		return false
	}
	e.observe(lease)
	lease, seen = e.observed()
	if h := holder(lease); h != "" && h != e.identity && valid(lease, seen, now) {
		return false
	}
	if err := e.update(ctx, lease, now); err != nil {
		e.log.Warn("taking the lease failed", "error", err)
		return false
	}
	return true
}

func (e *Elector) create(ctx context.Context, now time.Time) bool {
	lease := &coordinationv1.Lease{Spec: claim(nil, e.identity, e.options.LeaseDuration, now)}
	lease.Namespace, lease.Name = e.name.Namespace, e.name.Name
	target := e.target()
	target.Name = ""
	created, err := asLease(e.client.Create(ctx, target, lease, metav1.CreateOptions{}))
	if err != nil {
		e.log.Warn("creating the lease failed", "error", err)
		return false
	}
	e.observe(created)
	return true
}

func (e *Elector) update(ctx context.Context, old *coordinationv1.Lease, now time.Time) error {
	next := old.DeepCopy()
	next.Spec = claim(old, e.identity, e.options.LeaseDuration, now)
	return e.put(ctx, next)
}

func (e *Elector) put(ctx context.Context, next *coordinationv1.Lease) error {
	updated, err := asLease(e.client.Update(ctx, e.target(), next, metav1.UpdateOptions{}))
	if err == nil {
		e.observe(updated)
	}
	return err
}

// release gives up the Lease if this process still holds it, however often others write to it meanwhile.
func (e *Elector) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.options.RenewDeadline)
	defer cancel()
	for ctx.Err() == nil {
		lease, err := asLease(e.client.Get(ctx, e.target()))
		if err == nil && holder(lease) != e.identity {
			return
		}
		if err == nil {
			next := lease.DeepCopy()
			at, nobody, second := metav1.NewMicroTime(time.Now()), "", int32(1)
			next.Spec = coordinationv1.LeaseSpec{
				HolderIdentity: &nobody, LeaseDurationSeconds: &second, AcquireTime: &at, RenewTime: &at,
				LeaseTransitions: lease.Spec.LeaseTransitions,
			}
			err = e.put(ctx, next)
		}
		if !apierrors.IsConflict(err) {
			if err != nil {
				e.log.Warn("releasing the lease failed", "error", err)
			}
			return
		}
	}
}

func asLease(obj runtime.Object, err error) (*coordinationv1.Lease, error) {
	if err != nil {
		return nil, err
	}
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return nil, fmt.Errorf("server answered with a %T, not a Lease", obj)
	}
	return lease, nil
}
