package statefulset

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// most is how many pods of a set that is not ordered are acted upon at once.
const most = 500

// execute carries out the phases of a plan, until a step fails.
func (c *Controller) execute(ctx context.Context, w *world, p plan) error {
	for _, phase := range p.phases {
		if err := c.executePhase(ctx, w, phase); err != nil {
			return err
		}
	}
	return nil
}

// executePhase does one pod after another in an ordered set. Otherwise it does them in batches that double as long as
// nothing fails: what cannot succeed, for instance for lack of quota, is tried once and not for all pods. Pods that need
// nothing count: those after a set's first ones are not held up by one that is refused.
func (c *Controller) executePhase(ctx context.Context, w *world, phase [][]step) error {
	for size := 1; len(phase) > 0; {
		batch := phase[:min(size, len(phase))]
		phase = phase[len(batch):]
		if err := c.batch(ctx, w, batch); err != nil {
			return err
		}
		if !w.ordered() {
			size = min(2*size, most)
		}
	}
	return nil
}

// batch does the steps of several pods, as many pods at a time as the options allow.
func (c *Controller) batch(ctx context.Context, w *world, batch [][]step) error {
	limit := c.parallel
	if limit <= 0 {
		limit = len(batch)
	}
	errs := make([]error, len(batch))
	slots := make(chan struct{}, limit)
	var all sync.WaitGroup
	for i, steps := range batch {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			for _, s := range steps {
				if errs[i] = c.step(ctx, w.set, s); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return utilerrors.NewAggregate(errs)
}

func (c *Controller) step(ctx context.Context, set *appsv1.StatefulSet, s step) error {
	switch s.action {
	case create:
		return c.createPod(ctx, set, s.pod)
	case update:
		return c.updatePod(ctx, set, s.pod.DeepCopy())
	case remove:
		return c.removePod(ctx, set, s.pod)
	case claims:
		if err := c.createClaims(ctx, set, s.pod); err != nil {
			return err
		}
		if err := c.retainClaims(ctx, set, s.pod); err != nil {
			c.podEvent(set, s.pod, "Update", err)
			return err
		}
	case retain:
		return c.retainClaims(ctx, set, s.pod)
	}
	return nil
}

// createPod creates the claims of a pod and then the pod.
func (c *Controller) createPod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	if err := c.createClaims(ctx, set, pod); err != nil {
		c.podEvent(set, pod, "Create", err)
		return err
	}
	created, err := client.As[*corev1.Pod](c.client.Create(ctx, pods.Kind().Target(set.Namespace, ""), pod, metav1.CreateOptions{}))
	if apierrors.IsAlreadyExists(err) {
		return err // the cache will show it
	}
	if err == nil {
		c.written.pod(set, created)
	}
	if err := c.retainClaims(ctx, set, pod); err != nil {
		c.podEvent(set, pod, "Update", err)
		return err
	}
	c.podEvent(set, pod, "Create", err)
	return err
}

// updatePod gives a pod its identity and its volumes, creates claims that it lacks and sets the owners of its claims. If
// the pod has changed meanwhile, updatePod reads it once.
func (c *Controller) updatePod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	target := pods.Kind().Target(set.Namespace, pod.Name)
	for retried := false; ; retried = true {
		identify(set, pod)
		if !mounted(set, pod) {
			mountClaims(set, pod)
			if !retried { // the cache may not show what was created
				if err := c.createClaims(ctx, set, pod); err != nil {
					c.podEvent(set, pod, "Update", err)
					return err
				}
			}
		}
		if err := c.retainClaims(ctx, set, pod); err != nil {
			c.podEvent(set, pod, "Update", err)
			return err
		}
		updated, err := client.As[*corev1.Pod](c.client.Update(ctx, target, pod, metav1.UpdateOptions{}))
		if err == nil {
			c.written.pod(set, updated)
		}
		if !retried && apierrors.IsConflict(err) {
			fresh, failed := client.As[*corev1.Pod](c.client.Get(ctx, target))
			if failed == nil && fresh.UID == pod.UID {
				pod = fresh.DeepCopy()
				continue
			}
			err = cmp.Or(failed, err)
		}
		c.podEvent(set, pod, "Update", err)
		return err
	}
}

// removePod deletes a pod; it is no failure if that is gone.
func (c *Controller) removePod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	err := c.client.Delete(ctx, pods.Kind().Target(set.Namespace, pod.Name), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	if err == nil {
		c.written.podDeleted(set, pod)
	}
	c.podEvent(set, pod, "Delete", err)
	return err
}

// createClaims creates the claims that a pod lacks. One that is being deleted keeps the pod waiting.
func (c *Controller) createClaims(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	var errs []error
	for _, want := range claimsOf(set, pod) {
		if there, ok := c.in.Claims.Get(want.Namespace, want.Name); ok {
			if there.DeletionTimestamp != nil {
				errs = append(errs, fmt.Errorf("pvc %s is being deleted", want.Name))
			}
			continue
		}
		created, err := client.As[*corev1.PersistentVolumeClaim](
			c.client.Create(ctx, claimKind().Target(want.Namespace, ""), want.PersistentVolumeClaim, metav1.CreateOptions{}))
		if err == nil {
			c.written.claim(set, created)
		} else {
			errs = append(errs, fmt.Errorf("failed to create PVC %s: %w", want.Name, err))
		}
		if !apierrors.IsAlreadyExists(err) {
			c.claimEvent(set, pod, want.Name, err)
		}
	}
	return utilerrors.NewAggregate(errs)
}

// retainClaims sets the owners of the pod's claims, as far as the cache has these.
func (c *Controller) retainClaims(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	for _, of := range claimsOf(set, pod) {
		there, ok := c.in.Claims.Get(of.Namespace, of.Name)
		if !ok {
			continue
		}
		if conflicting(there, set, pod) {
			c.record(set, corev1.EventTypeWarning, "ConflictingController", fmt.Sprintf("PersistentVolumeClaim %s has a conflicting "+
				"OwnerReference that acts as a manging controller, the retention policy is ignored for this claim", of.Name))
		}
		refs, wrong := owners(there, set, pod)
		if !wrong {
			continue
		}
		changed := there.DeepCopy()
		changed.OwnerReferences = refs
		updated, err := client.As[*corev1.PersistentVolumeClaim](
			c.client.Update(ctx, claimKind().Target(of.Namespace, of.Name), changed, metav1.UpdateOptions{}))
		if err != nil {
			return fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", of.Name, err)
		}
		c.written.claim(set, updated)
	}
	return nil
}

// podEvent records what was done to a pod, or why it was not.
func (c *Controller) podEvent(set *appsv1.StatefulSet, pod *corev1.Pod, did string, err error) {
	if err != nil {
		c.record(set, corev1.EventTypeWarning, "Failed"+did, fmt.Sprintf("%s Pod %s in StatefulSet %s failed error: %s", did, pod.Name, set.Name, err))
		return
	}
	c.record(set, corev1.EventTypeNormal, "Successful"+did, fmt.Sprintf("%s Pod %s in StatefulSet %s successful", did, pod.Name, set.Name))
}

func (c *Controller) claimEvent(set *appsv1.StatefulSet, pod *corev1.Pod, claim string, err error) {
	if err != nil {
		c.record(set, corev1.EventTypeWarning, "FailedCreate",
			fmt.Sprintf("Create Claim %s for Pod %s in StatefulSet %s failed error: %s", claim, pod.Name, set.Name, err))
		return
	}
	c.record(set, corev1.EventTypeNormal, "SuccessfulCreate",
		fmt.Sprintf("Create Claim %s Pod %s in StatefulSet %s success", claim, pod.Name, set.Name))
}
