package ownership

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
)

// API is what claiming needs of the server: reading the owner, and patching dependents.
type API interface {
	client.Getter
	client.Patcher
}

// Kind is a kind and the resource it is served as.
type Kind struct {
	schema.GroupVersionKind
	Resource string // of the objects, such as "pods"
}

// Target addresses an object of the kind.
func (k Kind) Target(namespace, name string) client.Target {
	return client.Target{Resource: k.GroupVersion().WithResource(k.Resource), Namespace: namespace, Name: name}
}

// Owner is a controller object that claims dependents by a label selector.
type Owner struct {
	Object   metav1.Object
	Kind     Kind
	Selector labels.Selector
	// Finalizers are added to dependents that are adopted, and removed from those that are released.
	Finalizers []string
	// Also, when set, reports whether the owner selects a dependent that Selector matches.
	Also func(metav1.Object) bool
	// Wrote, when set, is called with each dependent as it is after being adopted or released; the cache may not show
	// that state yet.
	Wrote func(metav1.Object)
}

// Claim returns those of the objects, which are of kind dependent, that the owner controls and selects. Unless the
// owner is being deleted, Claim adopts orphans that its selector matches and releases dependents that it no longer
// matches. Before the first adoption it asks the server whether the owner still exists, since the cache may be stale.
// If several owners try to adopt an orphan, the server lets one succeed. Failed adoptions and releases are returned as
// one error; the caller should then retry.
func Claim[T informer.Object](ctx context.Context, api API, owner Owner, dependent Kind, objects []T) ([]T, error) {
	c := claim{api: api, owner: owner, dependent: dependent}
	var (
		claimed []T
		errs    []error
	)
	for _, obj := range objects {
		switch ours, err := c.one(ctx, obj); {
		case err != nil:
			errs = append(errs, err)
		case ours:
			claimed = append(claimed, obj)
		}
	}
	return claimed, utilerrors.NewAggregate(errs)
}

type claim struct {
	api       API
	owner     Owner
	dependent Kind
	rechecked bool
	refusal   error // of adoptions, once rechecked
}

// one claims or releases one object and reports whether the owner controls it.
func (c *claim) one(ctx context.Context, obj informer.Object) (bool, error) {
	matches := c.owner.Selector.Matches(labels.Set(obj.GetLabels())) && (c.owner.Also == nil || c.owner.Also(obj))
	deleting := c.owner.Object.GetDeletionTimestamp() != nil
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		if ref.UID != c.owner.Object.GetUID() {
			return false, nil
		}
		if matches || deleting {
			return matches, nil
		}
		return false, c.release(ctx, obj)
	}
	if !matches || deleting || obj.GetDeletionTimestamp() != nil || obj.GetNamespace() != c.owner.Object.GetNamespace() {
		return false, nil
	}
	return c.adopt(ctx, obj)
}

// adopt reports whether the owner now controls the orphan. It is not an error if the orphan is gone.
func (c *claim) adopt(ctx context.Context, obj informer.Object) (bool, error) {
	if !c.rechecked {
		c.rechecked = true
		c.refusal = c.recheck(ctx)
	}
	if c.refusal != nil {
		return false, fmt.Errorf("can't adopt %s %s/%s (%s): %w", c.dependent.Kind, obj.GetNamespace(), obj.GetName(), obj.GetUID(), c.refusal)
	}
	err := c.patch(ctx, obj, metav1.NewControllerRef(c.owner.Object, c.owner.Kind.GroupVersionKind), "finalizers")
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// recheck asks the server whether the owner still exists and is not being deleted.
func (c *claim) recheck(ctx context.Context) error {
	owner := c.owner.Object
	got, err := c.api.Get(ctx, c.owner.Kind.Target(owner.GetNamespace(), owner.GetName()))
	if err != nil {
		return fmt.Errorf("can't recheck DeletionTimestamp: %w", err)
	}
	fresh, ok := got.(metav1.Object)
	if !ok {
		return fmt.Errorf("can't recheck DeletionTimestamp: server answered with a %T", got)
	}
	if fresh.GetUID() != owner.GetUID() {
		return fmt.Errorf("can't recheck DeletionTimestamp: original %s %s/%s is gone: got uid %s, wanted %s",
			c.owner.Kind.Kind, owner.GetNamespace(), owner.GetName(), fresh.GetUID(), owner.GetUID())
	}
	if at := fresh.GetDeletionTimestamp(); at != nil {
		return fmt.Errorf("%s/%s has just been deleted at %s", fresh.GetNamespace(), fresh.GetName(), at)
	}
	return nil
}

// release removes the owner's reference. It succeeds, too, if the object is gone, was replaced or no longer has a
// reference.
func (c *claim) release(ctx context.Context, obj informer.Object) error {
	err := c.patch(ctx, obj, map[string]string{"$patch": "delete", "uid": string(c.owner.Object.GetUID())},
		"$deleteFromPrimitiveList/finalizers")
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// patch changes the owner reference of the object if the object still has its uid. finalizers is the field for those of
// the owner.
func (c *claim) patch(ctx context.Context, obj informer.Object, reference any, finalizers string) error {
	meta := map[string]any{"uid": obj.GetUID(), "ownerReferences": []any{reference}}
	if len(c.owner.Finalizers) > 0 {
		meta[finalizers] = c.owner.Finalizers
	}
	data, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return err
	}
	got, err := c.api.Patch(ctx, c.dependent.Target(obj.GetNamespace(), obj.GetName()),
		client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if patched, ok := got.(metav1.Object); ok && c.owner.Wrote != nil {
		c.owner.Wrote(patched)
	}
	return nil
}
