package daemonset

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/internal/revisions"
	"github.com/keelson-dev/keelson/controllers/ownership"
)

// hashLabel holds in pods the hash of the template they were made from, and in revisions that of theirs.
const hashLabel = appsv1.ControllerRevisionHashLabelKey

// history are the revisions of a set.
type history struct {
	current *appsv1.ControllerRevision
	old     []*appsv1.ControllerRevision // in order
}

// history returns the revisions of a set with these pods. It adopts and releases revisions, and creates the current one if
// needed. They are not known if the cache does not show yet what was done about them.
func (c *Controller) history(ctx context.Context, owner ownership.Owner, set *appsv1.DaemonSet, all []*corev1.Pod) (h history, known bool, err error) {
	there := append(ownership.ByOwner(c.in.Revisions, kind().Kind, set), ownership.Orphans(c.in.Revisions, set.Namespace)...)
	for _, r := range there {
		if c.seen.revisions.Behind(r, set.UID) {
			return history{}, false, nil
		}
	}
	owner.Wrote = func(r metav1.Object) { c.seen.revisions.Wrote(r, set.UID) }
	there, err = ownership.Claim(ctx, c.client, owner, revisions.Kind(), there)
	if err != nil {
		return history{}, false, err
	}
	revisions.Sort(there)
	data, err := revisions.Data(&set.Spec.Template)
	if err != nil {
		return history{}, false, err
	}
	if err := c.label(ctx, there); err != nil {
		return history{}, false, err
	}
	current := revisions.FindEqual(there, data)
	for _, r := range there {
		if len(revisions.FindEqual([]*appsv1.ControllerRevision{r}, data)) == 0 {
			h.old = append(h.old, r)
		}
	}
	number := revisions.Next(h.old)
	if len(current) == 0 {
		h.current, err = c.snapshot(ctx, set, data, number)
		return h, err == nil, err
	}
	h.current = current[len(current)-1]
	if duplicates := current[:len(current)-1]; len(duplicates) > 0 {
		return history{}, false, c.merge(ctx, set, h.current, duplicates, all)
	}
	if h.current.Revision < number {
		_, err = revisions.SetNumber(ctx, c.client, h.current, number)
	}
	return h, err == nil, err
}

// label gives revisions that lack one a hash, for which their name does: it cannot collide.
func (c *Controller) label(ctx context.Context, all []*appsv1.ControllerRevision) error {
	for i, r := range all {
		if _, ok := r.Labels[hashLabel]; ok {
			continue
		}
		r = r.DeepCopy()
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		r.Labels[hashLabel] = r.Name
		updated, err := client.As[*appsv1.ControllerRevision](
			c.client.Update(ctx, revisions.Kind().Target(r.Namespace, r.Name), r, metav1.UpdateOptions{}))
		if err != nil {
			return err
		}
		all[i] = updated
	}
	return nil
}

// merge deletes revisions that hold the same as the one to keep, whose hash all pods get.
func (c *Controller) merge(ctx context.Context, set *appsv1.DaemonSet, keep *appsv1.ControllerRevision, duplicates []*appsv1.ControllerRevision, all []*corev1.Pod) error {
	hash := keep.Labels[hashLabel]
	for _, pod := range all {
		if pod.Labels[hashLabel] == hash {
			continue
		}
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{hashLabel: hash}}})
		if err != nil {
			return err
		}
		patched, err := client.As[*corev1.Pod](c.client.Patch(ctx, pods.Kind().Target(pod.Namespace, pod.Name),
			client.Patch{Type: types.MergePatchType, Data: data}, metav1.PatchOptions{}))
		if err != nil {
			return err
		}
		c.seen.pods.Wrote(patched, set.UID)
	}
	return revisions.Delete(ctx, c.client, duplicates)
}

// snapshot creates the revision of a set's template. If its name is taken by another, the set's count of collisions is
// raised, which leads to another name in the next attempt.
func (c *Controller) snapshot(ctx context.Context, set *appsv1.DaemonSet, data []byte, number int64) (*appsv1.ControllerRevision, error) {
	hash := pods.TemplateHash(&set.Spec.Template, set.Status.CollisionCount)
	r := revisions.New(set, kind(), &set.Spec.Template, data, number)
	r.Name, r.Labels[hashLabel] = set.Name+"-"+hash, hash
	created, taken := client.As[*appsv1.ControllerRevision](
		c.client.Create(ctx, revisions.Kind().Target(set.Namespace, ""), r, metav1.CreateOptions{}))
	if !apierrors.IsAlreadyExists(taken) {
		return created, taken
	}
	there, err := client.As[*appsv1.ControllerRevision](c.client.Get(ctx, revisions.Kind().Target(set.Namespace, r.Name)))
	if err != nil {
		return nil, err
	}
	if len(revisions.FindEqual([]*appsv1.ControllerRevision{there}, data)) > 0 {
		return there, nil // the cache did not show it
	}
	target := kind().Target(set.Namespace, set.Name)
	fresh, err := client.As[*appsv1.DaemonSet](c.client.Get(ctx, target))
	if err != nil {
		return nil, err
	}
	if before, now := count(set.Status.CollisionCount), count(fresh.Status.CollisionCount); before != now {
		return nil, fmt.Errorf("found a stale collision count (%d, expected %d) of DaemonSet %q while processing; will retry until it is updated",
			before, now, set.Name)
	}
	fresh = fresh.DeepCopy()
	fresh.Status.CollisionCount = new(count(fresh.Status.CollisionCount) + 1)
	target.Subresource = "status"
	if _, err := c.client.Update(ctx, target, fresh, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	return nil, taken
}

func count(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// forget deletes the oldest revisions beyond the limit that no pod was made from.
func (c *Controller) forget(ctx context.Context, set *appsv1.DaemonSet, old []*appsv1.ControllerRevision, all []*corev1.Pod) error {
	limit := 10
	if set.Spec.RevisionHistoryLimit != nil {
		limit = int(*set.Spec.RevisionHistoryLimit)
	}
	live := map[string]bool{}
	for _, pod := range all {
		if _, ok := nodeOf(pod); ok && pod.Labels[hashLabel] != "" {
			live[pod.Labels[hashLabel]] = true
		}
	}
	used := func(r *appsv1.ControllerRevision) bool { return live[r.Labels[hashLabel]] }
	if err := revisions.Delete(ctx, c.client, revisions.Oldest(old, len(old)-limit, used)); err != nil {
		return fmt.Errorf("failed to clean up revisions of DaemonSet: %w", err)
	}
	return nil
}
