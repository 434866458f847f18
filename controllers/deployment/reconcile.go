package deployment

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/ownership"
)

// Reconcile implements controllers.Controller.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	d, ok := c.in.Deployments.Get(key.Namespace, key.Name)
	if !ok {
		c.unseen.Forget(key)
		c.written.Forget(key)
		return controllers.Result{}, nil
	}
	if c.written.Behind(d, d.UID) {
		return controllers.Result{}, nil // enqueued again when the cache has caught up
	}
	if wait := c.unseen.Wait(key, time.Now()); wait > 0 {
		return controllers.Result{RequeueAfter: wait}, nil
	}
	r := &rollout{Controller: c, d: d.DeepCopy()}
	after, err := r.run(ctx)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		err = nil // a retry would fail, too
	}
	return controllers.Result{RequeueAfter: after}, err
}

// rollout is one reconciliation of a Deployment.
type rollout struct {
	*Controller
	d    *appsv1.Deployment // our own copy, replaced by what the server returns
	sets sets
}

// run advances the Deployment by one step and returns when to reconcile it again.
func (r *rollout) run(ctx context.Context) (time.Duration, error) {
	switch s := r.d.Spec.Selector; {
	case s == nil:
		return 0, nil // validation does not admit this
	case len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0:
		return 0, r.refuseEmptySelector(ctx)
	}
	all := r.in.ReplicaSets.List(r.d.Namespace)
	for _, set := range all {
		if r.writtenSets.Behind(set, r.d.UID) {
			return 0, nil // enqueued again when the cache has caught up
		}
	}
	owned, err := r.claim(ctx, all)
	if err != nil {
		return 0, err
	}
	r.sets = sortSets(r.d, owned)
	if r.d.DeletionTimestamp != nil {
		if err := r.syncRevision(ctx); err != nil {
			return 0, err
		}
		return 0, r.writeStatus(ctx, counts(r.d, r.sets, time.Now()))
	}
	if c, changed := pauseCondition(r.d, time.Now()); changed {
		next := *r.d.Status.DeepCopy()
		setCondition(&next, c)
		if err := r.writeStatus(ctx, next); err != nil {
			return 0, err
		}
	}
	if _, asked := rollbackTo(r.d); asked && !r.d.Spec.Paused {
		return 0, r.rollback(ctx)
	}
	if err := r.syncRevision(ctx); err != nil {
		return 0, err
	}
	if r.d.Spec.Paused || scaled(r.d, r.sets.all()) {
		return 0, r.resize(ctx)
	}
	switch r.d.Spec.Strategy.Type {
	case appsv1.RecreateDeploymentStrategyType:
		return r.recreate(ctx)
	case appsv1.RollingUpdateDeploymentStrategyType:
		return r.roll(ctx)
	}
	return 0, fmt.Errorf("unexpected deployment strategy type: %s", r.d.Spec.Strategy.Type)
}

// claim returns those of all sets that belong to the Deployment; it adopts and releases sets.
func (r *rollout) claim(ctx context.Context, all []*appsv1.ReplicaSet) ([]*appsv1.ReplicaSet, error) {
	selector, err := metav1.LabelSelectorAsSelector(r.d.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("deployment %s/%s has invalid label selector: %w", r.d.Namespace, r.d.Name, err)
	}
	owner := ownership.Owner{Object: r.d, Kind: kind(), Selector: selector, Wrote: func(set metav1.Object) {
		r.writtenSets.Wrote(set, r.d.UID)
	}}
	return ownership.Claim(ctx, r.client, owner, setKind(), all)
}

func (r *rollout) refuseEmptySelector(ctx context.Context) error {
	r.record(corev1.EventTypeWarning, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required.")
	if r.d.Status.ObservedGeneration >= r.d.Generation {
		return nil
	}
	next := *r.d.Status.DeepCopy()
	next.ObservedGeneration = r.d.Generation
	return r.writeStatus(ctx, next)
}

// resize gives each set its share of the Deployment's size, without advancing the rollout.
func (r *rollout) resize(ctx context.Context) error {
	if _, err := r.scale(ctx, planScale(r.d, r.sets)); err != nil {
		return err
	}
	if _, asked := rollbackTo(r.d); r.d.Spec.Paused && !asked {
		if err := r.cleanUp(ctx); err != nil {
			return err
		}
	}
	return r.writeStatus(ctx, counts(r.d, r.sets, time.Now()))
}

// roll takes the next step of a rolling update.
func (r *rollout) roll(ctx context.Context) (time.Duration, error) {
	if err := r.ensureCurrent(ctx); err != nil {
		return 0, err
	}
	return r.step(ctx, planRolling(r.d, r.sets))
}

// recreate deletes the old pods, waits until they are gone, and starts the new ones.
func (r *rollout) recreate(ctx context.Context) (time.Duration, error) {
	if plan := planEndOld(r.sets); len(plan) > 0 {
		return r.step(ctx, plan)
	}
	if r.oldPodsLeft() {
		return r.report(ctx)
	}
	if err := r.ensureCurrent(ctx); err != nil {
		return 0, err
	}
	var plan []scaling
	if size(r.sets.current) != replicas(r.d) {
		plan = []scaling{{set: r.sets.current, to: replicas(r.d)}}
	}
	return r.step(ctx, plan)
}

// oldPodsLeft reports whether old sets count pods, or have pods that have not terminated.
func (r *rollout) oldPodsLeft() bool {
	for _, set := range r.sets.old {
		if set.Status.Replicas > 0 {
			return true
		}
		for _, pod := range ownership.ByOwner(r.in.Pods, setKind().Kind, set) {
			if !pods.Terminal(pod) {
				return true
			}
		}
	}
	return false
}

// step carries out a plan and writes the resulting status. If nothing was left to do, old sets are cleaned up.
func (r *rollout) step(ctx context.Context, plan []scaling) (time.Duration, error) {
	acted, err := r.scale(ctx, plan)
	if err != nil {
		return 0, err
	}
	if !acted && complete(r.d, &r.d.Status) {
		if err := r.cleanUp(ctx); err != nil {
			return 0, err
		}
	}
	return r.report(ctx)
}

// report writes the progress of the rollout; if it is already written, it returns when to check the progress deadline.
func (r *rollout) report(ctx context.Context) (time.Duration, error) {
	now := time.Now()
	next := rolloutStatus(r.d, r.sets, now)
	if equality.Semantic.DeepEqual(r.d.Status, next) {
		return progressCheck(r.d, &next, now), nil
	}
	return 0, r.writeStatus(ctx, next)
}
