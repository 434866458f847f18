package quota

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Claim is the usage that one write requests from the quotas of its namespace.
type Claim struct {
	evaluator    Evaluator
	obj, old     runtime.Object
	usage, delta corev1.ResourceList
}

// NewClaim measures a write. old is nil for a create.
func NewClaim(e Evaluator, obj, old runtime.Object, now time.Time) (*Claim, error) {
	c := &Claim{evaluator: e, obj: obj, old: old, usage: e.Usage(obj, now)}
	if negative := names(c.usage, func(name corev1.ResourceName) bool {
		quantity := c.usage[name]
		return quantity.Sign() < 0
	}); len(negative) > 0 {
		return nil, fmt.Errorf("quota usage is negative for resource(s): %s", join(negative))
	}
	c.delta = Positive(c.usage)
	if old != nil {
		c.delta = Positive(Sub(c.usage, e.Usage(old, now)))
	}
	c.usage = Positive(c.usage)
	return c, nil
}

// Matches reports whether a quota limits any usage of the written object. The limits in the quota's status are in
// force.
func (c *Claim) Matches(q *corev1.ResourceQuota) bool {
	return len(names(q.Status.Hard, c.evaluator.tracks)) > 0 && c.evaluator.InScope(&q.Spec, c.obj)
}

// Check fails if a quota cannot be applied, because the object lacks required values or the quota's usage is not known
// yet.
func (c *Claim) Check(q *corev1.ResourceQuota) error {
	if !c.Matches(q) {
		return nil
	}
	restricted := names(q.Status.Hard, c.evaluator.tracks)
	if c.evaluator.constrain != nil {
		if err := c.evaluator.constrain(restricted, c.obj); err != nil {
			return fmt.Errorf("failed quota: %s: %w", q.Name, err)
		}
	}
	for _, name := range restricted {
		if _, ok := q.Status.Used[name]; !ok {
			return fmt.Errorf("status unknown for quota: %s, resources: %s", q.Name, join(restricted))
		}
	}
	return nil
}

// Charge returns by how much a quota's usage must rise, empty if not at all, or an error that says why it cannot.
func (c *Claim) Charge(q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	if !c.Matches(q) {
		return nil, nil
	}
	delta := c.usage
	if c.old != nil && c.evaluator.InScope(&q.Spec, c.old) {
		delta = c.delta
	}
	delta = Mask(delta, q.Status.Hard)
	exceeded := names(delta, func(name corev1.ResourceName) bool {
		sum, hard := q.Status.Used[name].DeepCopy(), q.Status.Hard[name]
		sum.Add(delta[name])
		return sum.Cmp(hard) > 0
	})
	if len(exceeded) > 0 {
		return nil, fmt.Errorf("exceeded quota: %s, requested: %s, used: %s, limited: %s",
			q.Name, format(delta, exceeded), format(q.Status.Used, exceeded), format(q.Status.Hard, exceeded))
	}
	return delta, nil
}
