package daemonset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/batch"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/ownership"
)

// sync brings the pods of a set to where they should be, and tells in its status where they are.
func (c *Controller) sync(ctx context.Context, set *appsv1.DaemonSet) (controllers.Result, error) {
	// This comes before anything is listed: the lists then include what was waited for.
	wait := c.seen.expected.Wait(controllers.KeyOf(set), time.Now())
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return controllers.Result{}, nil //nolint:nilerr // validation does not let this in
	}
	owner := ownership.Owner{Object: set, Kind: kind(), Selector: selector}
	all, known, err := c.pods(ctx, owner, set)
	if err != nil || !known {
		return controllers.Result{}, err // if not known, enqueued again when the cache has caught up
	}
	h, known, err := c.history(ctx, owner, set, all)
	if err != nil {
		return controllers.Result{}, fmt.Errorf("failed to construct revisions of DaemonSet: %w", err)
	}
	if !known {
		return controllers.Result{}, nil
	}
	v := newView(set, c.in.Nodes.List(""), h.current.Labels[hashLabel], time.Now())
	var failure error
	retry := wait
	if wait == 0 {
		all, retry, failure = c.update(ctx, owner, v, h, all)
	}
	v.now = time.Now()
	counts := v.status(group(all))
	if err := c.updateStatus(ctx, set, counts, wait == 0); failure == nil {
		failure = err
	}
	if counts.NumberReady != counts.NumberAvailable {
		retry = soonest(retry, time.Duration(set.Spec.MinReadySeconds)*time.Second)
	}
	return controllers.Result{RequeueAfter: retry}, failure
}

// pods returns the pods of a set, of which it adopts and releases some. They are not known if the cache does not show
// an adoption or release yet.
func (c *Controller) pods(ctx context.Context, owner ownership.Owner, set *appsv1.DaemonSet) (all []*corev1.Pod, known bool, err error) {
	all = append(ownership.ByOwner(c.in.Pods, kind().Kind, set), ownership.Orphans(c.in.Pods, set.Namespace)...)
	for _, pod := range all {
		if c.seen.pods.Behind(pod, set.UID) {
			return nil, false, nil
		}
	}
	owner.Wrote = func(pod metav1.Object) { c.seen.pods.Wrote(pod, set.UID) }
	all, err = ownership.Claim(ctx, c.client, owner, pods.Kind(), all)
	return all, err == nil, err
}

// update carries out what is to be done about the pods, and returns those that the cache shows afterwards.
func (c *Controller) update(ctx context.Context, owner ownership.Owner, v view, h history, all []*corev1.Pod) ([]*corev1.Pod, time.Duration, error) {
	p := v.manage(group(all), func(node string) (time.Duration, bool) {
		return c.failures.delete(failing{v.set.UID, v.set.Status.ObservedGeneration, node}, v.now)
	})
	for _, n := range p.notes {
		c.record(v.set, n.eventType, n.reason, n.message)
	}
	all, err := c.carryOut(ctx, owner, v, p, all)
	if err != nil {
		return all, p.retry, err
	}
	rolling := v.set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType
	if rolling && c.seen.expected.Wait(controllers.KeyOf(v.set), time.Now()) == 0 {
		next, err := v.roll(group(all))
		if err != nil {
			return all, p.retry, err
		}
		if all, err = c.carryOut(ctx, owner, v, next, all); err != nil {
			return all, p.retry, err
		}
	}
	return all, p.retry, c.forget(ctx, v.set, h.old, all)
}

// carryOut creates and deletes pods, limited by the burst. Unless there is nothing to do, it lists the pods anew.
func (c *Controller) carryOut(ctx context.Context, owner ownership.Owner, v view, p plan, all []*corev1.Pod) ([]*corev1.Pod, error) {
	create, remove := p.create[:min(len(p.create), c.options.Burst)], p.remove[:min(len(p.remove), c.options.Burst)]
	if len(create)+len(remove) == 0 {
		return all, nil
	}
	if len(create) > 0 {
		if alive, err := ownership.Alive(ctx, c.client, kind(), v.set); !alive {
			return all, err
		}
	}
	c.seen.expected.Writes(controllers.KeyOf(v.set), len(create), remove)
	errs := append(c.create(ctx, v, create), c.remove(ctx, v.set, remove)...)
	if now, known, err := c.pods(ctx, owner, v.set); err != nil {
		errs = append(errs, err)
	} else if known {
		all = now
	}
	return all, utilerrors.NewAggregate(errs)
}

// create creates a pod for each of the nodes and returns the errors; each has its event.
func (c *Controller) create(ctx context.Context, v view, nodes []string) []error {
	set := v.set
	template := set.Spec.Template.DeepCopy()
	template.Spec.Tolerations = tolerations(&template.Spec)
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	if v.generation != "" {
		template.Labels[generationLabel] = v.generation
	}
	template.Labels[hashLabel] = v.hash
	tried, failed := batch.SlowStart(len(nodes), c.options.Parallel, func(i int) error {
		pod := pods.FromTemplate(template, set, *metav1.NewControllerRef(set, kind().GroupVersionKind))
		pod.Spec.Affinity = onNode(pod.Spec.Affinity, nodes[i])
		return c.createPod(ctx, set, pod)
	})
	for range len(nodes) - tried + len(failed) {
		c.seen.expected.Created(controllers.KeyOf(set)) // they will not appear
	}
	return failed
}

func (c *Controller) createPod(ctx context.Context, set *appsv1.DaemonSet, pod *corev1.Pod) error {
	created, err := client.As[*corev1.Pod](c.client.Create(ctx, pods.Kind().Target(set.Namespace, ""), pod, metav1.CreateOptions{}))
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // nothing to do, and nothing to report
	}
	if err != nil {
		c.record(set, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Error creating: %v", err))
		return err
	}
	c.record(set, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+created.Name)
	return nil
}

// remove deletes pods by name and returns the errors; each has its event.
func (c *Controller) remove(ctx context.Context, set *appsv1.DaemonSet, names []string) []error {
	return batch.InParallel(len(names), c.options.Parallel, func(i int) error {
		err := c.client.Delete(ctx, pods.Kind().Target(set.Namespace, names[i]), metav1.DeleteOptions{})
		if err == nil {
			c.record(set, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: "+names[i])
			return nil
		}
		c.seen.expected.Deleted(controllers.KeyOf(set), names[i]) // the cache will show no deletion
		if apierrors.IsNotFound(err) {
			return nil
		}
		c.record(set, corev1.EventTypeWarning, "FailedDelete", fmt.Sprintf("Error deleting: %v", err))
		return fmt.Errorf("unable to delete pods: %w", err)
	})
}

// updateStatus writes the counts if they have changed. The generation is observed only once it was acted upon. After a
// conflict it retries once on the set as it then is.
func (c *Controller) updateStatus(ctx context.Context, set *appsv1.DaemonSet, counts appsv1.DaemonSetStatus, acted bool) error {
	target := kind().Target(set.Namespace, set.Name)
	subresource := target
	subresource.Subresource = "status"
	obj := set
	for retried := false; ; retried = true {
		next := counts
		next.ObservedGeneration, next.CollisionCount, next.Conditions = obj.Status.ObservedGeneration, obj.Status.CollisionCount, obj.Status.Conditions
		if acted {
			next.ObservedGeneration = set.Generation
		}
		if !retried && equality.Semantic.DeepEqual(obj.Status, next) {
			return nil
		}
		changed := obj.DeepCopy()
		next.DeepCopyInto(&changed.Status)
		updated, err := client.As[*appsv1.DaemonSet](c.client.Update(ctx, subresource, changed, metav1.UpdateOptions{}))
		if err == nil {
			c.seen.sets.Wrote(updated, updated.UID)
			return nil
		}
		if !retried {
			obj, err = client.As[*appsv1.DaemonSet](c.client.Get(ctx, target))
		}
		if retried || err != nil {
			return fmt.Errorf("error storing status for daemon set %s/%s: %w", set.Namespace, set.Name, err)
		}
	}
}
