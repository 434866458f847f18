package deployment

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// rollbackTo reads the annotation that replaces the field rollbackTo of extensions/v1beta1.
func rollbackTo(d *appsv1.Deployment) (revision int64, asked bool) {
	n, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedRollbackTo], 10, 64)
	return n, err == nil
}

// rollback gives the Deployment the template and annotations of the requested revision; 0 means the previous one. The
// current template first gets its set, which gives it a revision to go back to.
func (r *rollout) rollback(ctx context.Context) error {
	if err := r.syncRevision(ctx); err != nil {
		return err
	}
	if err := r.ensureCurrent(ctx); err != nil {
		return err
	}
	next := r.d.DeepCopy()
	delete(next.Annotations, appsv1.DeprecatedRollbackTo)
	to, _ := rollbackTo(r.d)
	if to == 0 {
		if to = lastRevision(r.sets.all()); to == 0 {
			r.record(corev1.EventTypeWarning, "DeploymentRollbackRevisionNotFound", "Unable to find last revision.")
			return r.update(ctx, "", next)
		}
	}
	for _, set := range r.sets.all() {
		if n, ok := revision(set.Annotations); !ok || n != to {
			continue
		}
		if sameTemplate(&r.d.Spec.Template, &set.Spec.Template) {
			r.record(corev1.EventTypeWarning, "DeploymentRollbackTemplateUnchanged",
				fmt.Sprintf("The rollback revision contains the same template as current deployment %q", r.d.Name))
			return r.update(ctx, "", next)
		}
		takeTemplate(next, set)
		if err := r.update(ctx, "", next); err != nil {
			return err
		}
		r.record(corev1.EventTypeNormal, "DeploymentRollback", fmt.Sprintf("Rolled back deployment %q to revision %d", r.d.Name, to))
		return nil
	}
	r.record(corev1.EventTypeWarning, "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to.")
	return r.update(ctx, "", next)
}

// takeTemplate copies the template and annotations of a set to the Deployment.
func takeTemplate(d *appsv1.Deployment, set *appsv1.ReplicaSet) {
	d.Spec.Template = *set.Spec.Template.DeepCopy()
	delete(d.Spec.Template.Labels, hashLabel)
	maps.DeleteFunc(d.Annotations, func(name, _ string) bool { return !ownAnnotation(name) })
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	for name, value := range set.Annotations {
		if !ownAnnotation(name) {
			d.Annotations[name] = value
		}
	}
}
