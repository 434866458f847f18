package deployment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/events"
)

// record records an event about the Deployment.
func (r *rollout) record(eventType, reason, message string) {
	r.recorder.Record(events.Event{
		Regarding: events.About(kind().GroupVersionKind, r.d),
		Type:      eventType, Reason: reason, Message: message,
	})
}

// writeStatus writes the status and the annotations if they differ from those on the server.
func (r *rollout) writeStatus(ctx context.Context, status appsv1.DeploymentStatus) error {
	if equality.Semantic.DeepEqual(r.d.Status, status) {
		return nil
	}
	next := r.d.DeepCopy()
	next.Status = status
	return r.update(ctx, "status", next)
}

func (r *rollout) update(ctx context.Context, subresource string, next *appsv1.Deployment) error {
	target := kind().Target(next.Namespace, next.Name)
	target.Subresource = subresource
	updated, err := as[*appsv1.Deployment](r.client.Update(ctx, target, next, metav1.UpdateOptions{}))
	if err != nil {
		return err
	}
	r.d = updated.DeepCopy()
	r.written.Wrote(updated, updated.UID)
	return nil
}

// as returns the server's answer as a T.
func as[T runtime.Object](obj runtime.Object, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	typed, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("server answered with a %T, not a %T", obj, none)
	}
	return typed, nil
}

func (r *rollout) updateSet(ctx context.Context, next *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	updated, err := as[*appsv1.ReplicaSet](r.client.Update(ctx, setKind().Target(next.Namespace, next.Name), next, metav1.UpdateOptions{}))
	if err != nil {
		return nil, err
	}
	r.writtenSets.Wrote(updated, r.d.UID)
	return updated, nil
}

// syncRevision updates the annotations of the current set, if there is one, and the revision of the Deployment.
func (r *rollout) syncRevision(ctx context.Context) error {
	if r.sets.current == nil {
		return nil
	}
	set := r.sets.current.DeepCopy()
	changed := annotate(r.d, set, nextRevision(r.sets.old))
	if changed || set.Spec.MinReadySeconds != r.d.Spec.MinReadySeconds {
		set.Spec.MinReadySeconds = r.d.Spec.MinReadySeconds
		updated, err := r.updateSet(ctx, set)
		if err != nil {
			return err
		}
		r.sets.current = updated
	}
	var progress *appsv1.DeploymentCondition
	if hasDeadline(r.d) && condition(&r.d.Status, appsv1.DeploymentProgressing) == nil {
		c := newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonFound, fmt.Sprintf("Found new replica set %q", set.Name), time.Now())
		progress = &c
	}
	return r.noteRevision(ctx, r.sets.current.Annotations[revisionAnnotation], progress)
}

// noteRevision writes the revision and, if given, a condition to the Deployment.
func (r *rollout) noteRevision(ctx context.Context, revision string, progress *appsv1.DeploymentCondition) error {
	if r.d.Annotations[revisionAnnotation] == revision && progress == nil {
		return nil
	}
	next := r.d.DeepCopy()
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[revisionAnnotation] = revision
	if progress != nil {
		setCondition(&next.Status, *progress)
	}
	return r.update(ctx, "status", next)
}

// ensureCurrent creates the set for the current template unless it exists.
func (r *rollout) ensureCurrent(ctx context.Context) error {
	if r.sets.current != nil {
		return nil
	}
	switch alive, err := ownership.Alive(ctx, r.client, kind(), r.d); {
	case err != nil:
		return err
	case !alive:
		return fmt.Errorf("deployment %s/%s is being deleted, which the cache does not show yet", r.d.Namespace, r.d.Name)
	}
	set := makeSet(r.d)
	to := roomFor(r.d, r.sets)
	set.Spec.Replicas = &to
	next := nextRevision(r.sets.old)
	annotate(r.d, set, next)
	annotateSize(r.d, set)

	r.unseen.Creations(controllers.KeyOf(r.d), 1)
	created, err := as[*appsv1.ReplicaSet](r.client.Create(ctx, setKind().Target(r.d.Namespace, ""), set, metav1.CreateOptions{}))
	if err != nil {
		r.unseen.Created(controllers.KeyOf(r.d)) // it will not appear, or already has
	}
	var progress *appsv1.DeploymentCondition
	switch {
	case apierrors.IsAlreadyExists(err):
		if created, err = r.existing(ctx, set.Name, err); err != nil {
			return err
		}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	case err != nil:
		return r.createFailed(ctx, set.Name, err)
	default:
		if to > 0 {
			r.record(corev1.EventTypeNormal, "ScalingReplicaSet", fmt.Sprintf("Scaled up replica set %s from 0 to %d", created.Name, to))
		}
		if hasDeadline(r.d) {
			c := newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonCreated, fmt.Sprintf("Created new replica set %q", created.Name), time.Now())
			progress = &c
		}
	}
	r.sets.current = created
	return r.noteRevision(ctx, strconv.FormatInt(next, 10), progress)
}

// existing returns the set that already has the name, if it is ours and the cache was merely stale. Otherwise the name
// is taken: the collision count is incremented, which changes the next name.
func (r *rollout) existing(ctx context.Context, name string, taken error) (*appsv1.ReplicaSet, error) {
	set, ok := r.in.ReplicaSets.Get(r.d.Namespace, name)
	if !ok {
		return nil, apierrors.NewNotFound(appsv1.Resource(setKind().Resource), name)
	}
	if metav1.IsControlledBy(set, r.d) && sameTemplate(&r.d.Spec.Template, &set.Spec.Template) {
		return set, nil
	}
	next := *r.d.Status.DeepCopy()
	count := int32(1)
	if next.CollisionCount != nil {
		count += *next.CollisionCount
	}
	next.CollisionCount = &count
	if err := r.writeStatus(ctx, next); err != nil {
		return nil, err
	}
	return nil, taken
}

// createFailed reports that the set could not be created and returns the error.
func (r *rollout) createFailed(ctx context.Context, name string, why error) error {
	message := fmt.Sprintf("Failed to create new replica set %q: %v", name, why)
	r.record(corev1.EventTypeWarning, reasonCreateError, message)
	if hasDeadline(r.d) {
		next := *r.d.Status.DeepCopy()
		setCondition(&next, newCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonCreateError, message, time.Now()))
		if err := r.writeStatus(ctx, next); err != nil {
			return fmt.Errorf("%w (and reporting it: %w)", why, err)
		}
	}
	return why
}

// scale carries out a plan and reports whether a size changed.
func (r *rollout) scale(ctx context.Context, plan []scaling) (bool, error) {
	latest := map[types.UID]*appsv1.ReplicaSet{} // a plan may scale a set twice
	changed := false
	for _, s := range plan {
		set := cmp.Or(latest[s.set.UID], s.set)
		from := size(set)
		if from == s.to && !s.restate {
			continue
		}
		next := set.DeepCopy()
		next.Spec.Replicas = &s.to
		annotateSize(r.d, next)
		if from == s.to && equality.Semantic.DeepEqual(next.Annotations, set.Annotations) {
			continue
		}
		updated, err := r.updateSet(ctx, next)
		if err != nil {
			return changed, err
		}
		latest[updated.UID] = updated
		if from == s.to {
			continue
		}
		changed = true
		direction := "up"
		if s.to < from {
			direction = "down"
		}
		r.record(corev1.EventTypeNormal, "ScalingReplicaSet", fmt.Sprintf("Scaled %s replica set %s from %d to %d", direction, set.Name, from, s.to))
	}
	return changed, nil
}

// cleanUp deletes the oldest of the old sets beyond revisionHistoryLimit that have no pods.
func (r *rollout) cleanUp(ctx context.Context) error {
	for _, set := range superfluous(r.d, r.sets.old) {
		err := r.client.Delete(ctx, setKind().Target(set.Namespace, set.Name), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// superfluous returns the old sets to delete.
func superfluous(d *appsv1.Deployment, old []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	limit := d.Spec.RevisionHistoryLimit
	if limit == nil || *limit == math.MaxInt32 {
		return nil
	}
	alive := slices.DeleteFunc(slices.Clone(old), func(set *appsv1.ReplicaSet) bool { return set.DeletionTimestamp != nil })
	extra := len(alive) - int(*limit)
	if extra <= 0 {
		return nil
	}
	slices.SortStableFunc(alive, byRevision)
	return slices.DeleteFunc(alive[:extra], func(set *appsv1.ReplicaSet) bool {
		return set.Status.Replicas != 0 || size(set) != 0 || set.Generation > set.Status.ObservedGeneration
	})
}

// byRevision sorts lower revisions first, then older sets.
func byRevision(a, b *appsv1.ReplicaSet) int {
	x, xOK := revision(a.Annotations)
	y, yOK := revision(b.Annotations)
	if !xOK || !yOK {
		return byAge(a, b)
	}
	return cmp.Or(cmp.Compare(x, y), byAge(a, b))
}
