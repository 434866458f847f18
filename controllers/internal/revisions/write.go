package revisions

import (
	"bytes"
	"context"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
)

// Creator is what Create needs of the server.
type Creator interface {
	client.Getter
	client.Creator
}

// Updater is what SetNumber needs of the server.
type Updater interface {
	client.Getter
	client.Updater
}

// Create stores a revision made by New for the owner of that name, under a name made of the hash of its data. If
// another revision has that name, the collision count is raised until one is free; if that revision has the same data,
// it is the result. Create returns the collision count that led to the name.
func Create(ctx context.Context, api Creator, owner string, r *appsv1.ControllerRevision, collisions int32) (*appsv1.ControllerRevision, int32, error) {
	r = r.DeepCopy()
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	// The label keeps the first hash when the name collides, as upstream's does.
	r.Labels[HashLabel] = Hash(r.Data.Raw, collisions)
	for {
		r.Name = Name(owner, Hash(r.Data.Raw, collisions))
		created, err := client.As[*appsv1.ControllerRevision](api.Create(ctx, Kind().Target(r.Namespace, ""), r, metav1.CreateOptions{}))
		if !apierrors.IsAlreadyExists(err) {
			return created, collisions, err
		}
		exists, err := get(ctx, api, r)
		if err != nil {
			return nil, collisions, err
		}
		if bytes.Equal(exists.Data.Raw, r.Data.Raw) {
			return exists, collisions, nil
		}
		collisions++
	}
}

// SetNumber changes the number of a revision. If the cached revision is not the latest, SetNumber reads it once.
func SetNumber(ctx context.Context, api Updater, cached *appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	for retried := false; ; retried = true {
		if cached.Revision == number {
			return cached, nil
		}
		r := cached.DeepCopy()
		r.Revision = number
		updated, err := client.As[*appsv1.ControllerRevision](api.Update(ctx, Kind().Target(r.Namespace, r.Name), r, metav1.UpdateOptions{}))
		if retried || !apierrors.IsConflict(err) {
			return updated, err
		}
		if cached, err = get(ctx, api, r); err != nil {
			return nil, err
		}
	}
}

// Delete deletes revisions; one that is gone already is none of its errors.
func Delete(ctx context.Context, api client.Deleter, all []*appsv1.ControllerRevision) error {
	for _, r := range all {
		if err := api.Delete(ctx, Kind().Target(r.Namespace, r.Name), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func get(ctx context.Context, api client.Getter, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	return client.As[*appsv1.ControllerRevision](api.Get(ctx, Kind().Target(r.Namespace, r.Name)))
}
