package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	pdbhelper "k8s.io/component-helpers/apps/poddisruptionbudget"

	"github.com/keelson-dev/keelson/registry"
)

const (
	// maxDisruptedPods is how many evictions may be unconfirmed by the disruption controller.
	maxDisruptedPods = 2000
	evictionTries    = 20
	evictionPause    = 500 * time.Millisecond
	wouldViolate     = "Cannot evict pod as it would violate the pod's disruption budget."
)

// eviction is the subresource that deletes a pod if its disruption budget allows (KEP-85).
func eviction() registry.Action {
	return registry.Action{
		GroupVersionKind: policyv1.SchemeGroupVersion.WithKind("Eviction"),
		New:              func() runtime.Object { return &policyv1.Eviction{} },
		Run: func(ctx context.Context, a registry.Access, at registry.ObjectKey, body runtime.Object, dryRun bool) (runtime.Object, error) {
			return evict(ctx, a, at, body.(*policyv1.Eviction), dryRun)
		},
	}
}

// evicting is one eviction in progress.
type evicting struct {
	registry.Access
	pod     registry.ObjectKey
	options metav1.DeleteOptions
	dryRun  bool
}

func evict(ctx context.Context, a registry.Access, at registry.ObjectKey, e *policyv1.Eviction, dryRun bool) (runtime.Object, error) {
	if e.Name != at.Name {
		return nil, registry.Errorf(registry.ErrBadRequest, at, "name in URL does not match name in Eviction object")
	}
	run := evicting{Access: a, pod: at}
	if e.DeleteOptions != nil {
		run.options = *e.DeleteOptions.DeepCopy()
	}
	if unsafe := run.options.IgnoreStoreReadErrorWithClusterBreakingPotential; unsafe != nil && *unsafe {
		return nil, &registry.Error{
			Err: registry.ErrInvalid, Resource: policyv1.Resource("evictions"), Kind: "Eviction", Name: at.Name,
			Fields: field.ErrorList{field.Invalid(field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential"),
				true, "can not be set for pod eviction, try after removing the option")},
		}
	}
	if dryRun {
		run.options.DryRun = []string{metav1.DryRunAll}
	}
	run.dryRun = len(run.options.DryRun) > 0
	pod, err := run.unprotected(ctx)
	if err != nil || pod == nil {
		return done(err)
	}
	return run.protected(ctx, pod)
}

func done(err error) (runtime.Object, error) {
	if err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// unprotected deletes a pod that no budget protects, and returns any other.
func (e evicting) unprotected(ctx context.Context) (*corev1.Pod, error) {
	for try := 1; ; try++ {
		obj, err := e.Get(ctx, e.pod)
		if err != nil {
			return nil, err
		}
		pod := obj.(*corev1.Pod)
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
		if !ended && pod.Status.Phase != corev1.PodPending {
			return pod, nil
		}
		options := e.options
		if !ended && !e.asksVersion() {
			// The pod must not have become ready in between.
			options = withVersion(options, pod.ResourceVersion)
		}
		err = e.remove(ctx, options)
		if !errors.Is(err, registry.ErrConflict) || e.asksVersion() || try == evictionTries {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(evictionPause):
		}
	}
}

// protected evicts a running pod if its budget allows.
func (e evicting) protected(ctx context.Context, pod *corev1.Pod) (runtime.Object, error) {
	budgets, err := e.budgets(ctx, pod)
	if err != nil {
		return nil, err
	}
	if len(budgets) > 1 {
		return &metav1.Status{
			Status: metav1.StatusFailure, Code: 500,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}, nil
	}
	if len(budgets) == 0 {
		return done(e.remove(ctx, e.options))
	}
	pdb := budgets[0]
	if !podReady(pod) && unhealthyMayGo(pdb) {
		err := e.remove(ctx, withVersion(e.options, pod.ResourceVersion))
		if errors.Is(err, registry.ErrConflict) && !e.asksVersion() {
			return nil, stillProcessing(pdb.Name)
		}
		return done(err)
	}
	if err := e.spend(ctx, pdb); err != nil {
		return nil, err
	}
	return done(e.remove(ctx, e.options))
}

// budgets returns the budgets that select the pod.
func (e evicting) budgets(ctx context.Context, pod *corev1.Pod) ([]*policyv1.PodDisruptionBudget, error) {
	objs, err := e.List(ctx, policyv1.Resource("poddisruptionbudgets"), pod.Namespace)
	if err != nil {
		return nil, err
	}
	var budgets []*policyv1.PodDisruptionBudget
	for _, obj := range objs {
		pdb := obj.(*policyv1.PodDisruptionBudget)
		// An invalid selector selects nothing.
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			budgets = append(budgets, pdb)
		}
	}
	return budgets, nil
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// unhealthyMayGo reports whether a pod that is not ready may be evicted without an allowed disruption
// (KEP-3017).
func unhealthyMayGo(pdb *policyv1.PodDisruptionBudget) bool {
	if p := pdb.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return pdb.Status.CurrentHealthy >= pdb.Status.DesiredHealthy && pdb.Status.DesiredHealthy > 0
}

// spend consumes one allowed disruption of the budget, and records the pod in it so that the disruption
// controller counts the pod as disrupted.
func (e evicting) spend(ctx context.Context, pdb *policyv1.PodDisruptionBudget) error {
	at := registry.ObjectKey{Resource: policyv1.Resource("poddisruptionbudgets"), Namespace: pdb.Namespace, Name: pdb.Name}
	_, err := e.Modify(ctx, at, func(obj registry.Object) error {
		pdb := obj.(*policyv1.PodDisruptionBudget)
		if err := refusal(pdb); err != nil {
			return err
		}
		pdb.Status.DisruptionsAllowed--
		if pdb.Status.DisruptionsAllowed == 0 {
			pdbhelper.UpdateDisruptionAllowedCondition(pdb)
		}
		if pdb.Status.DisruptedPods == nil {
			pdb.Status.DisruptedPods = map[string]metav1.Time{}
		}
		pdb.Status.DisruptedPods[e.pod.Name] = metav1.Now()
		return nil
	}, e.dryRun)
	return err
}

// refusal returns why a budget does not allow a disruption, or nil if it does.
func refusal(pdb *policyv1.PodDisruptionBudget) error {
	switch {
	case pdb.Status.ObservedGeneration < pdb.Generation:
		return stillProcessing(pdb.Name)
	case pdb.Status.DisruptionsAllowed < 0:
		return forbidEviction(pdb.Name, "pdb disruptions allowed is negative", "pdb disruptions allowed is negative")
	case len(pdb.Status.DisruptedPods) > maxDisruptedPods:
		return forbidEviction(pdb.Name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
			"too many pending evictions not confirmed by PDB controller")
	case pdb.Status.DisruptionsAllowed == 0:
		return tooManyEvictions(pdb.Name, exhaustion(pdb), 0)
	}
	return nil
}

// exhaustion returns the message of a budget that allows no disruption now.
func exhaustion(pdb *policyv1.PodDisruptionBudget) string {
	s := &pdb.Status
	c := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	told := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch {
	case told && c.Reason == policyv1.SyncFailedReason:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s", pdb.Name, c.Message)
	case s.CurrentHealthy <= s.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", pdb.Name, s.DesiredHealthy, s.CurrentHealthy)
	case told:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s", pdb.Name, c.Reason, c.Message)
	}
	return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", pdb.Name)
}

func stillProcessing(budget string) error {
	return tooManyEvictions(budget, fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget), 10)
}

func tooManyEvictions(budget, cause string, retryAfter int) error {
	return &registry.Error{
		Err: registry.ErrTooManyRequests, Resource: policyv1.Resource("poddisruptionbudgets"), Name: budget,
		Message: wouldViolate, RetryAfter: retryAfter,
		Causes: []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: cause}},
	}
}

func forbidEviction(budget, message, cause string) error {
	return &registry.Error{
		Err: registry.ErrForbidden, Resource: policyv1.Resource("poddisruptionbudget"), Name: budget, Message: message,
		Causes: []metav1.StatusCause{{
			Type:    policyv1.DisruptionBudgetCause,
			Message: fmt.Sprintf("The disruption budget %s does not allow evicting pods currently: %s", budget, cause),
		}},
	}
}

func (e evicting) asksVersion() bool {
	return e.options.Preconditions != nil && e.options.Preconditions.ResourceVersion != nil
}

func withVersion(o metav1.DeleteOptions, version string) metav1.DeleteOptions {
	o = *o.DeepCopy()
	if o.Preconditions == nil {
		o.Preconditions = &metav1.Preconditions{}
	}
	o.Preconditions.ResourceVersion = &version
	return o
}

// remove marks the pod as disrupted (KEP-3329) and deletes it.
func (e evicting) remove(ctx context.Context, options metav1.DeleteOptions) error {
	if e.dryRun {
		return e.Delete(ctx, e.pod, options)
	}
	marked, err := e.Modify(ctx, e.pod, func(obj registry.Object) error {
		if err := e.unchanged(obj, options.Preconditions); err != nil {
			return err
		}
		setPodCondition(&obj.(*corev1.Pod).Status, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
		}, time.Now())
		return nil
	}, false)
	if err != nil {
		return err
	}
	if options.Preconditions != nil && options.Preconditions.ResourceVersion != nil {
		options = withVersion(options, marked.GetResourceVersion())
	}
	return e.Delete(ctx, e.pod, options)
}

// unchanged checks the preconditions before the pod is marked; the conflicts name the kind.
func (e evicting) unchanged(obj registry.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	of := registry.ObjectKey{Resource: corev1.Resource("Pod"), Name: obj.GetName()}
	if p.UID != nil && *p.UID != "" && *p.UID != obj.GetUID() {
		return registry.Errorf(registry.ErrConflict, of, "the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, obj.GetUID())
	}
	if v := p.ResourceVersion; v != nil && *v != "" && *v != obj.GetResourceVersion() {
		return registry.Errorf(registry.ErrConflict, of, "the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *v, obj.GetResourceVersion())
	}
	return nil
}
