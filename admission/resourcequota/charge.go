package resourcequota

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/internal/quota"
)

// payment is what a request was charged by a quota.
type payment struct {
	quota  string
	uid    types.UID
	amount corev1.ResourceList
}

// charge checks requests, in their order, and writes what they use.
func (p *Plugin) charge(ctx context.Context, namespace string, waiters []*waiter) {
	quotas := copies(p.quotas.List(namespace))
	charged := make([][]*waiter, len(quotas))
	for _, w := range waiters {
		var charges []corev1.ResourceList
		charges, w.err = w.fit(quotas)
		for i, amount := range charges { // none if the request does not fit
			if len(amount) > 0 {
				quotas[i].Status.Used = quota.Add(quotas[i].Status.Used, amount)
				charged[i] = append(charged[i], w)
			}
		}
	}
	for i, q := range quotas {
		p.chargeOne(ctx, q, charged[i])
	}
	p.refund(ctx, namespace, waiters)
}

// copies returns quotas whose usage can be changed.
func copies(shared []*corev1.ResourceQuota) []*corev1.ResourceQuota {
	own := make([]*corev1.ResourceQuota, len(shared))
	for i, q := range shared {
		c := *q
		own[i] = &c
	}
	return own
}

// chargeOne charges one quota for all requests, checking them again against its newest state.
func (p *Plugin) chargeOne(ctx context.Context, q *corev1.ResourceQuota, waiters []*waiter) {
	var open []*waiter
	for _, w := range waiters {
		if w.err == nil {
			open = append(open, w)
		}
	}
	if len(open) == 0 {
		return
	}
	payments, refusals := make([]payment, len(open)), make([]error, len(open))
	err := p.charger.Modify(ctx, q.Namespace, q.Name, func(newest *corev1.ResourceQuota) error {
		for i, w := range open {
			charges, err := w.fit([]*corev1.ResourceQuota{newest})
			payments[i], refusals[i] = payment{}, err
			if err == nil && len(charges[0]) > 0 {
				payments[i] = payment{newest.Name, newest.UID, charges[0]}
				newest.Status.Used = quota.Add(newest.Status.Used, charges[0])
			}
		}
		return nil
	})
	for i, w := range open {
		switch {
		case errors.Is(err, ErrGone): // its limits no longer apply
		case errors.Is(err, context.DeadlineExceeded):
			w.err = admission.Internal(errTimeout)
		case err != nil:
			w.err = admission.Internal(err)
		case refusals[i] != nil:
			w.err = refusals[i]
		case payments[i].amount != nil:
			w.paid = append(w.paid, payments[i])
		}
	}
}

// refund returns what requests were charged that another quota refused in the end. The controller corrects what
// it fails to return.
func (p *Plugin) refund(ctx context.Context, namespace string, waiters []*waiter) {
	due := map[string]payment{}
	for _, w := range waiters {
		if w.err == nil {
			continue
		}
		for _, paid := range w.paid {
			sum := due[paid.quota]
			due[paid.quota] = payment{paid.quota, paid.uid, quota.Add(sum.amount, paid.amount)}
		}
	}
	for name, sum := range due {
		_ = p.charger.Modify(ctx, namespace, name, func(newest *corev1.ResourceQuota) error {
			if newest.UID == sum.uid {
				newest.Status.Used = quota.Refund(newest.Status.Used, sum.amount)
			}
			return nil
		})
	}
}
