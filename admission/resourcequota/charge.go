package resourcequota

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/internal/quota"
)

// payment is what a quota was charged for a request.
type payment struct {
	quota  string
	uid    types.UID
	amount corev1.ResourceList
}

// charge judges requests, in their order, and writes what they take.
func (p *Plugin) charge(ctx context.Context, namespace string, tickets []*ticket) {
	quotas := copies(p.quotas.List(namespace))
	charged := make([][]*ticket, len(quotas))
	for _, t := range tickets {
		var charges []corev1.ResourceList
		charges, t.err = t.fit(quotas)
		for i, amount := range charges { // nothing if it does not fit
			if len(amount) > 0 {
				quotas[i].Status.Used = quota.Add(quotas[i].Status.Used, amount)
				charged[i] = append(charged[i], t)
			}
		}
	}
	for i, q := range quotas {
		p.chargeOne(ctx, q, charged[i])
	}
	p.refund(ctx, namespace, tickets)
}

// copies are quotas whose usage can be changed.
func copies(shared []*corev1.ResourceQuota) []*corev1.ResourceQuota {
	own := make([]*corev1.ResourceQuota, len(shared))
	for i, q := range shared {
		c := *q
		own[i] = &c
	}
	return own
}

// chargeOne writes what one quota is charged, judging again by its newest state.
func (p *Plugin) chargeOne(ctx context.Context, q *corev1.ResourceQuota, tickets []*ticket) {
	var open []*ticket
	for _, t := range tickets {
		if t.err == nil {
			open = append(open, t)
		}
	}
	if len(open) == 0 {
		return
	}
	payments, refusals := make([]payment, len(open)), make([]error, len(open))
	err := p.charger.Modify(ctx, q.Namespace, q.Name, func(newest *corev1.ResourceQuota) error {
		for i, t := range open {
			charges, err := t.fit([]*corev1.ResourceQuota{newest})
			payments[i], refusals[i] = payment{}, err
			if err == nil && len(charges[0]) > 0 {
				payments[i] = payment{newest.Name, newest.UID, charges[0]}
				newest.Status.Used = quota.Add(newest.Status.Used, charges[0])
			}
		}
		return nil
	})
	for i, t := range open {
		switch {
		case errors.Is(err, ErrGone): // nothing limits any more
		case errors.Is(err, context.DeadlineExceeded):
			t.err = admission.Internal(errTimeout)
		case err != nil:
			t.err = admission.Internal(err)
		case refusals[i] != nil:
			t.err = refusals[i]
		case payments[i].amount != nil:
			t.paid = append(t.paid, payments[i])
		}
	}
}

// refund gives back what was charged for requests that another quota refused in the end. What it
// cannot give back the controller does.
func (p *Plugin) refund(ctx context.Context, namespace string, tickets []*ticket) {
	due := map[string]payment{}
	for _, t := range tickets {
		if t.err == nil {
			continue
		}
		for _, paid := range t.paid {
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
