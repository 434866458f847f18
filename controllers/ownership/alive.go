package ownership

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
)

// Alive asks the server whether an owner still exists and is not being deleted. A controller calls it before it creates
// a dependent: caches of different kinds are not in step, and one may show that a dependent is gone before another
// shows that its owner is being deleted.
func Alive(ctx context.Context, api client.Getter, kind Kind, owner metav1.Object) (bool, error) {
	got, err := api.Get(ctx, kind.Target(owner.GetNamespace(), owner.GetName()))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	fresh, ok := got.(metav1.Object)
	if !ok {
		return false, fmt.Errorf("server answered with a %T", got)
	}
	return fresh.GetUID() == owner.GetUID() && fresh.GetDeletionTimestamp() == nil, nil
}
