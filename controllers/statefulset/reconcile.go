package statefulset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/internal/revisions"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/events"
)

// behind is when a set is looked at again whose writes the caches do not show, if no change in them came first.
const behind = time.Second

// Reconcile implements controllers.Controller.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	if !c.written.seen(key, c.in) {
		return controllers.Result{RequeueAfter: behind}, nil
	}
	set, ok := c.in.StatefulSets.Get(key.Namespace, key.Name)
	if !ok {
		c.written.forget(key)
		return controllers.Result{}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil || set.Spec.Selector == nil {
		return controllers.Result{}, nil //nolint:nilerr // validation does not let this in
	}
	owner := ownership.Owner{Object: set, Kind: kind(), Selector: selector}
	sorted, err := ownership.Claim(ctx, c.client, owner, revisions.Kind(), revisions.List(c.in.Revisions, owner))
	if err != nil {
		return controllers.Result{}, err
	}
	owner.Also = func(pod metav1.Object) bool { return isMember(set, pod) }
	owner.Wrote = func(pod metav1.Object) { c.written.pod(set, pod) }
	candidates := append(ownership.ByOwner(c.in.Pods, kind().Kind, set), ownership.Orphans(c.in.Pods, set.Namespace)...)
	claimed, err := ownership.Claim(ctx, c.client, owner, pods.Kind(), candidates)
	if err != nil {
		return controllers.Result{}, err
	}
	return c.sync(ctx, set, claimed, sorted)
}

// sync brings the set closer to what it should be, writes its status and truncates its history, whether the former
// succeeded or not.
func (c *Controller) sync(ctx context.Context, set *appsv1.StatefulSet, claimed []*corev1.Pod, sorted []*appsv1.ControllerRevision) (controllers.Result, error) {
	now := time.Now()
	var status *appsv1.StatefulSetStatus
	h, err := c.revise(ctx, set, sorted)
	if err == nil {
		status, err = c.act(ctx, set, claimed, h, now)
	}
	if status != nil {
		if failed := c.updateStatus(ctx, set, *status); err == nil {
			err = failed
		}
	}
	failed := c.truncate(ctx, set, claimed, sorted, h)
	if err := utilerrors.Flatten(utilerrors.NewAggregate([]error{err, failed})); err != nil {
		return controllers.Result{}, err
	}
	return controllers.Result{RequeueAfter: again(set, status, claimed, now)}, nil
}

// again returns when the next ready pod becomes available; 0 if there is none.
func again(set *appsv1.StatefulSet, status *appsv1.StatefulSetStatus, claimed []*corev1.Pod, now time.Time) time.Duration {
	if set.Spec.MinReadySeconds <= 0 || status.ReadyReplicas == status.AvailableReplicas {
		return 0
	}
	if after, ok := pods.UntilAvailable(claimed, set.Spec.MinReadySeconds, now); ok {
		return after
	}
	return time.Duration(set.Spec.MinReadySeconds) * time.Second
}

// act makes a plan and carries it out. It returns the status to be written, if there is one, even if it fails.
func (c *Controller) act(ctx context.Context, set *appsv1.StatefulSet, claimed []*corev1.Pod, h history, now time.Time) (*appsv1.StatefulSetStatus, error) {
	w := &world{
		set: set, pods: claimed, now: now, collisions: h.collisions,
		claim: func(name string) *corev1.PersistentVolumeClaim {
			found, _ := c.in.Claims.Get(set.Namespace, name)
			return found
		},
	}
	var err error
	if w.current, err = versionOf(h.current); err != nil {
		return nil, err
	}
	if w.update, err = versionOf(h.update); err != nil {
		return nil, err
	}
	if set.Spec.UpdateStrategy.Type == appsv1.RecreateStatefulSetStrategyType {
		err := fmt.Errorf("statefulset %s/%s uses Recreate strategy but feature gate StatefulSetRecreateStrategy is disabled", set.Namespace, set.Name)
		c.record(set, corev1.EventTypeWarning, "UnknownStrategy", err.Error())
		return nil, err
	}
	status := w.status()
	if set.DeletionTimestamp != nil {
		w.count(&status, w.pods)
		return &status, nil
	}
	members, condemned := w.arrange()
	w.count(&status, members, condemned)
	p := w.plan(members, condemned)
	if p.creates() {
		if alive, err := ownership.Alive(ctx, c.client, kind(), set); !alive {
			return &status, err // the cache will say what became of the set
		}
	}
	if err = c.execute(ctx, w, p); err != nil || !p.settled || set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return &status, err
	}
	victims, err := w.victims(members)
	for _, pod := range victims {
		if err := c.removePod(ctx, set, pod); err != nil {
			return &status, err
		}
		status.CurrentReplicas = max(0, status.CurrentReplicas-1)
	}
	return &status, err
}

func (c *Controller) record(set *appsv1.StatefulSet, eventType, reason, message string) {
	c.recorder.Record(events.Event{
		Regarding: events.About(kind().GroupVersionKind, set),
		Type:      eventType, Reason: reason, Message: message,
	})
}
