package replicas

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/batch"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/events"
)

// Reconcile is that of a controllers.Controller.
func (c *Controller[T]) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	obj, ok := c.in.Sets.Get(key.Namespace, key.Name)
	if !ok {
		c.expected.Forget(key)
		c.written.Forget(key)
		return controllers.Result{}, nil
	}
	set := c.kind.View(obj)
	if c.written.Behind(set, set.UID) {
		return controllers.Result{}, nil // enqueued again when the cache has caught up
	}
	// This comes before the pods are listed: the list then includes what was waited for.
	wait := c.expected.Wait(key, time.Now())
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil || selector.Empty() || set.Spec.Selector == nil {
		return controllers.Result{}, nil //nolint:nilerr // validation does not let this in
	}
	candidates, terminating, current := c.pods(set, selector)
	if !current {
		return controllers.Result{}, nil // enqueued again when the cache has caught up
	}
	owner := ownership.Owner{Object: set, Kind: c.kind.Kind, Selector: selector, Wrote: func(pod metav1.Object) {
		c.writtenPods.Wrote(pod, set.UID)
	}}
	active, err := ownership.Claim(ctx, c.client, owner, pods.Kind(), candidates)
	if err != nil {
		return controllers.Result{}, err
	}
	var failure error
	if wait == 0 && set.DeletionTimestamp == nil {
		failure = c.scale(ctx, set, active)
	}
	now := time.Now()
	updated, err := c.updateStatus(ctx, obj, set, status(set, active, terminating, failure, now))
	if err != nil {
		return controllers.Result{}, err
	}
	if failure != nil {
		return controllers.Result{}, failure
	}
	return controllers.Result{RequeueAfter: again(updated, active, wait, now)}, nil
}

// again returns when to reconcile a set next: when a ready pod becomes available, and when the expectations
// expire.
func again(set *appsv1.ReplicaSet, active []*corev1.Pod, wait time.Duration, now time.Time) time.Duration {
	if set.Spec.MinReadySeconds <= 0 || set.Status.ReadyReplicas == set.Status.AvailableReplicas {
		return wait
	}
	after, ok := pods.UntilAvailable(active, set.Spec.MinReadySeconds, now)
	if !ok {
		after = time.Duration(set.Spec.MinReadySeconds) * time.Second
	}
	if wait > 0 {
		return min(wait, after)
	}
	return after
}

// pods returns the active pods that the set controls or that have no controller, and those of its pods that are being
// deleted. It is not current if a pod was adopted or released and the cache does not show that yet.
func (c *Controller[T]) pods(set *appsv1.ReplicaSet, selector labels.Selector) (candidates, terminating []*corev1.Pod, current bool) {
	all := append(ownership.ByOwner(c.in.Pods, c.kind.Kind.Kind, set), ownership.Orphans(c.in.Pods, set.Namespace)...)
	for _, pod := range all {
		switch {
		case c.writtenPods.Behind(pod, set.UID):
			return nil, nil, false
		case pods.Active(pod):
			candidates = append(candidates, pod)
		case pods.Terminating(pod) && metav1.IsControlledBy(pod, set) && selector.Matches(labels.Set(pod.Labels)):
			terminating = append(terminating, pod)
		}
	}
	return candidates, terminating, true
}

// scale creates or deletes pods until the desired number is reached, limited by the burst.
func (c *Controller[T]) scale(ctx context.Context, set *appsv1.ReplicaSet, active []*corev1.Pod) error {
	switch missing := int(replicas(set)) - len(active); {
	case missing > 0:
		if alive, err := ownership.Alive(ctx, c.client, c.kind.Kind, set); !alive {
			return err
		}
		return c.create(ctx, set, min(missing, c.burst))
	case missing < 0:
		return c.delete(ctx, set, victims(active, c.related(set), min(-missing, c.burst), time.Now()))
	}
	return nil
}

// create makes n pods in growing batches. It returns the first error; each has its event.
func (c *Controller[T]) create(ctx context.Context, set *appsv1.ReplicaSet, n int) error {
	c.expected.Creations(controllers.KeyOf(set), n)
	tried, failed := batch.SlowStart(n, c.parallel, func(int) error { return c.createPod(ctx, set) })
	if len(failed) == 0 {
		return nil
	}
	for range n - tried + len(failed) {
		c.expected.Created(controllers.KeyOf(set)) // they will not appear
	}
	return failed[0]
}

func (c *Controller[T]) createPod(ctx context.Context, set *appsv1.ReplicaSet) error {
	if len(set.Spec.Template.Labels) == 0 {
		return errors.New("unable to create pods, no labels")
	}
	pod := pods.FromTemplate(&set.Spec.Template, set, *metav1.NewControllerRef(set, c.kind.GroupVersionKind))
	created, err := c.client.Create(ctx, pods.Kind().Target(set.Namespace, ""), pod, metav1.CreateOptions{})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // nothing to do, and nothing to report
	}
	if err != nil {
		c.record(set, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Error creating: %v", err))
		return err
	}
	if named, ok := created.(metav1.Object); ok {
		c.record(set, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+named.GetName())
	}
	return nil
}

// delete deletes the pods. It returns the first error; each has its event.
func (c *Controller[T]) delete(ctx context.Context, set *appsv1.ReplicaSet, victims []*corev1.Pod) error {
	names := make([]string, len(victims))
	for i, pod := range victims {
		names[i] = pod.Name
	}
	c.expected.Deletions(controllers.KeyOf(set), names)
	errs := batch.InParallel(len(victims), c.parallel, func(i int) error {
		err := c.client.Delete(ctx, pods.Kind().Target(set.Namespace, names[i]), metav1.DeleteOptions{})
		if err == nil {
			c.record(set, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: "+names[i])
			return nil
		}
		c.expected.Deleted(controllers.KeyOf(set), names[i]) // the cache will show no deletion
		if apierrors.IsNotFound(err) {
			return nil
		}
		c.record(set, corev1.EventTypeWarning, "FailedDelete", fmt.Sprintf("Error deleting: %v", err))
		return fmt.Errorf("unable to delete pods: %w", err)
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// related returns the pods of all sets with the same controller as this one; they should be spread over nodes
// together.
func (c *Controller[T]) related(set *appsv1.ReplicaSet) []*corev1.Pod {
	ref := metav1.GetControllerOfNoCopy(set)
	if ref == nil {
		return nil
	}
	var related []*corev1.Pod
	seen := map[string]bool{}
	for _, sibling := range c.in.Sets.ByIndex(byOwner, string(ref.UID)) {
		selector, err := metav1.LabelSelectorAsSelector(c.kind.View(sibling).Spec.Selector)
		if err != nil {
			continue
		}
		for _, pod := range c.in.Pods.List(sibling.GetNamespace()) {
			if !seen[pod.Name] && selector.Matches(labels.Set(pod.Labels)) {
				seen[pod.Name] = true
				related = append(related, pod)
			}
		}
	}
	return related
}

func (c *Controller[T]) record(set *appsv1.ReplicaSet, eventType, reason, message string) {
	c.recorder.Record(events.Event{
		Regarding: events.About(c.kind.GroupVersionKind, set),
		Type:      eventType, Reason: reason, Message: message,
	})
}
