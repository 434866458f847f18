package kubelet

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/internal/pause"
)

// renewLease renews the node's lease (KEP-589) until the context ends: as long as it is renewed, the node counts as
// alive.
func (n *nodeReporter) renewLease(ctx context.Context) {
	select {
	case <-n.registered:
	case <-ctx.Done():
		return
	}
	period := n.k.options.Periods.LeaseDuration / 4
	var held *coordinationv1.Lease
	for {
		lease, err := n.renewOnce(ctx, held)
		switch {
		case err == nil:
			held = lease
		case ctx.Err() == nil:
			held = nil
			n.k.log.Warn("renewing the node's lease failed", "error", err)
		}
		if pause.For(ctx, period) != nil {
			return
		}
	}
}

// renewOnce renews the lease held. Without one, or if somebody else has changed it, it starts from the lease in the
// API, or creates it.
func (n *nodeReporter) renewOnce(ctx context.Context, held *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var err error
	for range 5 {
		if held == nil {
			var created bool
			if held, created, err = n.obtainLease(ctx); err != nil || created {
				return held, err
			}
		}
		var renewed *coordinationv1.Lease
		renewed, err = asLease(n.k.client.Update(ctx, n.leaseTarget(n.k.name), n.lease(held), metav1.UpdateOptions{}))
		if err == nil {
			return renewed, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return nil, err
		}
		held = nil
	}
	return nil, err
}

func (n *nodeReporter) obtainLease(ctx context.Context) (lease *coordinationv1.Lease, created bool, err error) {
	lease, err = asLease(n.k.client.Get(ctx, n.leaseTarget(n.k.name)))
	if !apierrors.IsNotFound(err) {
		return lease, false, err
	}
	lease, err = asLease(n.k.client.Create(ctx, n.leaseTarget(""), n.lease(nil), metav1.CreateOptions{}))
	return lease, err == nil, err
}

// lease returns the lease to write.
func (n *nodeReporter) lease(base *coordinationv1.Lease) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: n.k.name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &n.k.name},
	}
	if base != nil {
		lease = base.DeepCopy()
	}
	seconds := int32(n.k.options.Periods.LeaseDuration / time.Second)
	now := metav1.NewMicroTime(time.Now())
	lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &seconds, &now
	if node := n.current(); len(lease.OwnerReferences) == 0 && node.UID != "" {
		lease.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
		}}
	}
	return lease
}

func (n *nodeReporter) leaseTarget(name string) client.Target {
	return client.Target{
		Resource:  coordinationv1.SchemeGroupVersion.WithResource("leases"),
		Namespace: corev1.NamespaceNodeLease, Name: name,
	}
}

func asLease(obj any, err error) (*coordinationv1.Lease, error) {
	if err != nil {
		return nil, err
	}
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return nil, fmt.Errorf("the server answered with a %T instead of a lease", obj)
	}
	return lease, nil
}
