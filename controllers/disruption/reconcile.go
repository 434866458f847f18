package disruption

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	pdbhelper "k8s.io/component-helpers/apps/poddisruptionbudget"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

const (
	// evictionTimeout is how long the deletion of an evicted pod may take to appear; after that, the pod is considered
	// to stay.
	evictionTimeout = 2 * time.Minute
	// recheckDelay is what upstream's queue adds to a recheck; it also ensures that the timeout has passed.
	recheckDelay = 5 * time.Millisecond
)

// Reconcile updates the status of one budget.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	budget, ok := c.in.Budgets.Get(key.Namespace, key.Name)
	if !ok {
		return controllers.Result{}, nil
	}
	again, err := c.sync(ctx, budget, time.Now())
	switch {
	case err == nil:
		return controllers.Result{RequeueAfter: again}, nil
	case apierrors.IsConflict(err):
		return controllers.Result{}, err
	}
	// Pods that cannot be counted must not be disrupted. Once that is written there is nothing to retry: a change of a
	// pod or of the budget enqueues the key again.
	return controllers.Result{}, c.writeStatus(ctx, failed(budget, err))
}

// sync counts and writes; it returns when to reconcile again, 0 for never.
func (c *Controller) sync(ctx context.Context, budget *policyv1.PodDisruptionBudget, now time.Time) (time.Duration, error) {
	selected, err := c.podsOf(budget)
	if err != nil {
		c.record(budgetKind(), budget, corev1.EventTypeWarning, "NoPods", fmt.Sprintf("Failed to get pods: %v", err))
		return 0, err
	}
	if len(selected) == 0 {
		c.record(budgetKind(), budget, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	want, err := c.expect(ctx, &budget.Spec, selected)
	if err != nil {
		c.record(budgetKind(), budget, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed",
			fmt.Sprintf("Failed to calculate the number of expected pods: %v", err))
		return 0, err
	}
	if want.unmanaged {
		c.record(budgetKind(), budget, corev1.EventTypeWarning, "UnmanagedPods", fmt.Sprintf(
			"Pods selected by this PodDisruptionBudget (selector: %v) were found "+
				"to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
				"To account for these pods please set \".spec.minAvailable\" "+
				"field of the PDB to an integer value.", budget.Spec.Selector))
	}
	leaving, stayed, recheck := awaited(selected, budget.Status.DisruptedPods, now)
	for _, pod := range stayed {
		// The namespace in the place of the budget's name is upstream's.
		c.record(pods.Kind(), pod, corev1.EventTypeWarning, "NotDeleted",
			fmt.Sprintf("Pod was expected by PDB %s/%s to be deleted but it wasn't", budget.Namespace, budget.Namespace))
	}
	updated := withStatus(budget, want, healthy(selected, leaving, now), leaving)
	if updated == nil {
		return recheck, nil
	}
	return recheck, c.writeStatus(ctx, updated)
}

func (c *Controller) podsOf(budget *policyv1.PodDisruptionBudget) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return nil, err
	}
	var selected []*corev1.Pod
	for _, pod := range c.in.Pods.List(budget.Namespace) {
		if selector.Matches(labels.Set(pod.Labels)) {
			selected = append(selected, pod)
		}
	}
	return selected, nil
}

func (c *Controller) writeStatus(ctx context.Context, budget *policyv1.PodDisruptionBudget) error {
	at := budgetKind().Target(budget.Namespace, budget.Name)
	at.Subresource = "status"
	_, err := c.client.Update(ctx, at, budget, metav1.UpdateOptions{})
	return err
}

// awaited returns the evicted pods whose deletion does not show yet, those that were evicted so long ago that they are
// considered to stay, and when to check the former again, 0 for never.
func awaited(selected []*corev1.Pod, evicted map[string]metav1.Time, now time.Time) (leaving map[string]metav1.Time, stayed []*corev1.Pod, recheck time.Duration) {
	leaving = map[string]metav1.Time{}
	for _, pod := range selected {
		since, ok := evicted[pod.Name]
		if !ok || pod.DeletionTimestamp != nil {
			continue
		}
		left := since.Add(evictionTimeout).Sub(now)
		if left < 0 {
			stayed = append(stayed, pod)
			continue
		}
		leaving[pod.Name] = since
		if after := left + recheckDelay; recheck == 0 || after < recheck {
			recheck = after
		}
	}
	return leaving, stayed, recheck
}

// healthy counts the pods that are ready and not about to be deleted.
func healthy(selected []*corev1.Pod, leaving map[string]metav1.Time, now time.Time) int32 {
	n := int32(0)
	for _, pod := range selected {
		since, evicted := leaving[pod.Name]
		evicted = evicted && since.Add(evictionTimeout).After(now)
		if !evicted && pod.DeletionTimestamp == nil && pods.Ready(pod) {
			n++
		}
	}
	return n
}

// withStatus returns the budget with the status computed from the counts, or nil if it already has it.
func withStatus(budget *policyv1.PodDisruptionBudget, want expectation, current int32, leaving map[string]metav1.Time) *policyv1.PodDisruptionBudget {
	next := policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation,
		DisruptedPods:      leaving,
		CurrentHealthy:     current,
		DesiredHealthy:     want.healthy,
		ExpectedPods:       want.pods,
		Conditions:         budget.Status.Conditions,
	}
	// A budget that expects no pods allows no disruption: its first pods could be created and evicted before they are
	// counted.
	if want.pods > 0 {
		next.DisruptionsAllowed = max(current-want.healthy, 0)
	}
	if equality.Semantic.DeepEqual(budget.Status, next) && pdbhelper.ConditionsAreUpToDate(budget) {
		return nil
	}
	updated := budget.DeepCopy()
	updated.Status = *next.DeepCopy()
	pdbhelper.UpdateDisruptionAllowedCondition(updated)
	return updated
}

// failed returns the budget with a status that allows no disruption and has the error.
func failed(budget *policyv1.PodDisruptionBudget, err error) *policyv1.PodDisruptionBudget {
	updated := budget.DeepCopy()
	updated.Status.DisruptionsAllowed = 0
	meta.SetStatusCondition(&updated.Status.Conditions, metav1.Condition{
		Type:               policyv1.DisruptionAllowedCondition,
		Status:             metav1.ConditionFalse,
		Reason:             policyv1.SyncFailedReason,
		Message:            err.Error(),
		ObservedGeneration: updated.Status.ObservedGeneration,
	})
	return updated
}
