package devicetainteviction

import (
	"context"
	"fmt"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
)

// statusPeriod is the shortest time between two updates of a rule's status.
const statusPeriod = 10 * time.Second

// tell sets the condition of a rule, at most once in a period unless the rule has changed.
func (c *Controller) tell(ctx context.Context, name string) (controllers.Result, error) {
	r, ok := c.in.Rules.Get("", name)
	if !ok {
		return controllers.Result{}, nil
	}
	var existing metav1.Condition
	at := slices.IndexFunc(r.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == resourcev1.DeviceTaintConditionEvictionInProgress
	})
	now := time.Now()
	if at >= 0 {
		existing = r.Status.Conditions[at]
		if since := now.Sub(existing.LastTransitionTime.Time); existing.ObservedGeneration == r.Generation && since < statusPeriod {
			return controllers.Result{RequeueAfter: statusPeriod - since}, nil
		}
	}
	want := condition(r, c.count(r))
	want.LastTransitionTime = existing.LastTransitionTime
	if want == existing {
		return controllers.Result{}, nil
	}
	want.LastTransitionTime = metav1.NewTime(now)
	changed := r.DeepCopy()
	if at < 0 {
		changed.Status.Conditions = append(changed.Status.Conditions, want)
	} else {
		changed.Status.Conditions[at] = want
	}
	target := client.Target{Resource: resourcev1.SchemeGroupVersion.WithResource("devicetaintrules"), Name: name, Subresource: "status"}
	if _, err := c.client.Update(ctx, target, changed, metav1.UpdateOptions{}); err != nil {
		return controllers.Result{}, fmt.Errorf("add condition to DeviceTaintRule status: %w", err)
	}
	return controllers.Result{}, nil
}

// count counts what a rule concerns. For a rule with effect None, that is what it would do with the effect NoExecute.
func (c *Controller) count(r *resourcev1.DeviceTaintRule) counts {
	c.mu.Lock()
	n := counts{evicted: c.counted[r.UID]}
	c.mu.Unlock()
	w := c.world()
	switch r.Spec.Taint.Effect {
	case resourcev1.DeviceTaintEffectNone:
		would := r.DeepCopy()
		would.Spec.Taint.Effect = resourcev1.DeviceTaintEffectNoExecute
		w.rules = []rule{would}
		n.published, n.allocated = c.selected(r)
	case resourcev1.DeviceTaintEffectNoExecute:
	default:
		return n
	}
	namespaces := map[string]bool{}
	for _, pod := range c.in.Pods.List("") {
		if pod.DeletionTimestamp != nil {
			continue
		}
		if f := w.fateOfPod(pod); f != nil && f.because(r.UID) {
			n.pods++
			namespaces[pod.Namespace] = true
		}
	}
	n.namespaces = len(namespaces)
	return n
}

// selected counts the devices that a rule selects, in slices and in claims.
func (c *Controller) selected(r *resourcev1.DeviceTaintRule) (published, allocated int) {
	for _, pool := range c.in.Slices.IndexValues(byPool) {
		for _, s := range newest(c.in.Slices.ByIndex(byPool, pool)) {
			for i := range s.Spec.Devices {
				if selects(r, s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name) {
					published++
				}
			}
		}
	}
	for _, claim := range c.in.Claims.List("") {
		if claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			if d := &claim.Status.Allocation.Devices.Results[i]; selects(r, d.Driver, d.Pool, d.Device) {
				allocated++
			}
		}
	}
	return published, allocated
}
