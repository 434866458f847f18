package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/storage"
)

// nameTries is how often a generated name is tried, as upstream does.
const nameTries = 8

var errResourceVersionSet = errors.New("resourceVersion should not be set on objects to be created")

// errModified is upstream's message for an update of an old version.
const errModified = "the object has been modified; please apply your changes to the latest version and try again"

// CreateOptions are the options of a create.
type CreateOptions struct {
	// Admit, if set, may refuse the object in the form in which it would be stored.
	Admit  func(ctx context.Context, obj Object) error
	DryRun bool
	Waits
}

// Create stores a new object. It takes obj over: it fills in the name, system fields and defaults, and its
// result may share obj. An object with a resource version is refused only in the last step, after validation,
// so that an invalid one gets the validation error and a dry run returns the object.
func (r *Resource) Create(ctx context.Context, obj Object, o CreateOptions) (*Item, error) {
	obj.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
	if !r.Namespaced {
		obj.SetNamespace("")
	}
	base := ""
	if obj.GetName() == "" {
		base = obj.GetGenerateName()
	}
	for try := 1; ; try++ {
		attempt := obj
		if base != "" {
			attempt = obj.DeepCopyObject().(Object)
			attempt.SetName(generatedName(base, r.registry.ids.Suffix(r.Plural, obj.GetNamespace(), base)))
		}
		attempt.SetUID(r.registry.ids.UID(r.keyOf(attempt)))
		item, err := r.create(ctx, attempt, o)
		if base == "" || !errors.Is(err, ErrExists) {
			if err != nil || o.DryRun || o.Pending {
				return item, err
			}
			return r.initialized(ctx, item, o.Waiting)
		}
		if try == nameTries {
			return nil, r.errorf(ErrNameExhausted, attempt.GetName(), "")
		}
	}
}

func (r *Resource) create(ctx context.Context, obj Object, o CreateOptions) (*Item, error) {
	if r.Rules.PrepareCreate != nil {
		r.Rules.PrepareCreate(ctx, obj)
	}
	ctx, held, err := r.reserve(ctx, obj, nil, o.DryRun)
	if err != nil {
		return nil, err
	}
	defer held.end(ctx)
	if errs := r.validateCreate(obj); len(errs) > 0 {
		return nil, r.invalid(r.kindOf(obj), obj.GetName(), errs)
	}
	if err := ctx.Err(); err != nil {
		return nil, err // the client has been told, or is gone
	}
	if r.Rules.Guard != nil {
		if err := r.Rules.Guard(ctx, obj, nil); err != nil {
			return nil, err
		}
	}
	if o.Admit != nil {
		if err := o.Admit(ctx, obj); err != nil {
			return nil, err
		}
	}
	r.finish(obj)
	key := indexKey(obj.GetNamespace(), obj.GetName())
	if o.DryRun {
		if err := r.catchUp(ctx); err != nil {
			return nil, err
		}
		if r.table.get(key) != nil {
			return nil, r.taken(ctx, key, obj)
		}
		return &Item{Object: obj, key: key}, nil
	}
	if version, err := versionOf(obj); err == nil && version != 0 {
		return nil, errResourceVersionSet // a malformed version is ignored, as upstream does
	}
	before := r.registry.clock.read()
	var wanted []byte
	item, err := r.commit(ctx, key, obj, func(value []byte) (int64, error) {
		wanted = value
		return held.write(ctx, func() (int64, error) { return r.storeNew(ctx, key, value) })
	})
	exists := errors.Is(err, storage.ErrExists)
	if exists || held.outcome == Unknown {
		if item = r.created(ctx, key, wanted, before); item != nil {
			held.outcome, err = Written, nil
		}
	}
	switch {
	case err == nil:
		r.after(ctx, item, nil)
		return item, nil
	case exists:
		return nil, r.taken(ctx, key, obj)
	}
	return nil, err
}

// created returns the object that a create has stored as these bytes after a revision although the store did not say so: the
// answer was lost, or a store that was asked again found what it had written. It is the state that was written, whatever
// others have made of it since. It returns nil if that is not known.
func (r *Resource) created(ctx context.Context, key string, value []byte, after int64) *Item {
	if ctx.Err() != nil || r.catchUp(ctx) != nil {
		return nil
	}
	for _, item := range r.table.appeared(key, after) {
		there := item.Object.DeepCopyObject().(Object)
		there.SetResourceVersion("")
		stored, err := codec.Stored(r.gvk(), there) // with its UID, which no other create has
		if err == nil && bytes.Equal(stored, value) {
			return item
		}
	}
	return nil
}

// taken is the error of a create that found the name taken.
func (r *Resource) taken(ctx context.Context, key string, obj Object) error {
	err := r.errorf(ErrExists, obj.GetName(), "")
	if item, _ := r.newest(ctx, key, obj.GetName()); item != nil && item.Object.GetDeletionTimestamp() != nil {
		err.Message = "object is being deleted"
	}
	return err
}

// commit encodes obj, writes it and waits until the cache shows it.
func (r *Resource) commit(ctx context.Context, key string, obj Object, write func([]byte) (int64, error)) (*Item, error) {
	if err := r.served(); err != nil {
		return nil, err
	}
	obj.SetResourceVersion("")
	obj.SetSelfLink("")
	codec.Canonical(obj)
	value, err := codec.Stored(r.gvk(), obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", r.Names.Kind, key, err)
	}
	storageKey := r.storageKey(key)
	w := r.registry.pending.add(r.stored, storageKey, value, obj)
	defer r.registry.pending.drop(storageKey, w)
	revision, err := write(value)
	if err != nil {
		return nil, err
	}
	if err := r.registry.clock.wait(ctx, revision); err != nil {
		return nil, fmt.Errorf("%s %s was written at revision %d: %w", r.Names.Kind, key, revision, err)
	}
	if item := r.table.get(key); item != nil && item.Revision == revision {
		return item, nil
	}
	// It has been changed again already: answer with what was written.
	obj, err = r.decode(storageKey, value, revision)
	if err != nil {
		return nil, err
	}
	return &Item{Object: obj, Revision: revision, key: key}, nil
}

// UpdateOptions are the options of an update.
type UpdateOptions struct {
	// View names the subresource whose rules apply; empty means the object itself.
	View string
	// Admit, if set, may refuse the object in the form in which it would be stored. old is nil when the update
	// creates the object.
	Admit  func(ctx context.Context, obj, old Object) error
	DryRun bool
	// Raw bypasses the kind's rules: the change is stored as it is. Actions use it.
	Raw bool
	// Patch means that the new state was made from the current one: a different UID in it is then an invalid
	// change, not a conflict.
	Patch bool
	// Create lets the update create the object if it does not exist, whatever the kind's rules.
	Create bool
	Waits
}

// Change makes the new state from the current one, which is shared and must not be changed; it returns an
// object of its own. current is nil if the update may create the object. Change is called again, with the newer
// state, when another write intervenes.
type Change func(ctx context.Context, current Object) (Object, error)

// Update changes an object. created reports whether the update created it.
func (r *Resource) Update(ctx context.Context, namespace, name string, change Change, o UpdateOptions) (item *Item, created bool, err error) {
	key := indexKey(namespace, name)
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		current, err := r.newest(ctx, key, name)
		if err != nil {
			if !errors.Is(err, ErrNotFound) || !r.Rules.CreateOnUpdate && !o.Create || o.View != "" {
				return nil, false, err
			}
			obj, err := change(ctx, nil)
			if err != nil {
				return nil, false, err
			}
			item, err = r.createOnUpdate(ctx, obj, o)
			if errors.Is(err, ErrExists) && !o.DryRun {
				continue
			}
			return item, true, err
		}
		var written bool
		item, written, err = r.update(ctx, current, change, o)
		if again, failed := r.again(ctx, current, written, err); failed != nil {
			return nil, false, failed
		} else if again {
			continue
		}
		return item, false, err
	}
}

// again reports whether an attempt to change current must be repeated because the store has a newer state. A
// refusal or a change without effect may be due to a stale cache, behind another server's writes. attempted
// reports whether the attempt reached the store.
func (r *Resource) again(ctx context.Context, current *Item, attempted bool, result error) (bool, error) {
	lost := errors.Is(result, storage.ErrConflict) || errors.Is(result, storage.ErrNotFound)
	if attempted && !lost || ctx.Err() != nil {
		return false, nil //nolint:nilerr // result is the caller's to return
	}
	if err := r.catchUp(ctx); err != nil {
		return false, err
	}
	return lost || r.table.get(current.key) != current, nil
}

// storeNew writes a record that must not exist yet.
func (r *Resource) storeNew(ctx context.Context, key string, value []byte) (int64, error) {
	if lessor, ok := storage.As[storage.Lessor](r.registry.store); ok && r.TTL > 0 {
		return lessor.CreateFor(ctx, r.storageKey(key), value, r.TTL)
	}
	return r.registry.store.Create(ctx, r.storageKey(key), value)
}

// storeOver replaces the record of an item.
func (r *Resource) storeOver(ctx context.Context, current *Item, value []byte) (int64, error) {
	if lessor, ok := storage.As[storage.Lessor](r.registry.store); ok && r.TTL > 0 {
		return lessor.UpdateFor(ctx, r.storageKey(current.key), value, current.Revision, r.TTL)
	}
	return r.registry.store.Update(ctx, r.storageKey(current.key), value, current.Revision)
}

func (r *Resource) createOnUpdate(ctx context.Context, obj Object, o UpdateOptions) (*Item, error) {
	if uid := obj.GetUID(); uid != "" {
		return nil, r.otherUID(obj, uid, "")
	}
	if _, err := versionOf(obj); err != nil {
		return nil, r.badVersion(obj, err)
	}
	if !o.DryRun {
		obj.SetResourceVersion("") // it is ignored, but a dry run shows it
	}
	co := CreateOptions{DryRun: o.DryRun, Waits: o.Waits}
	if o.Admit != nil {
		co.Admit = func(ctx context.Context, obj Object) error { return o.Admit(ctx, obj, nil) }
	}
	return r.Create(ctx, obj, co)
}

// update makes one attempt against current; attempted reports whether it reached the store.
func (r *Resource) update(ctx context.Context, current *Item, change Change, o UpdateOptions) (item *Item, attempted bool, err error) {
	old := current.Object
	obj, err := change(ctx, old)
	if err != nil {
		return nil, false, err
	}
	if err := r.preconditions(obj, old, o.Patch); err != nil {
		return nil, false, err
	}
	held, unheld := &reservation{}, ctx
	if !o.Raw {
		as := r.kindOf(obj) // a view may restore it
		r.prepareUpdate(ctx, obj, old, o)
		if o.View == "" {
			if ctx, held, err = r.reserve(ctx, obj, old, o.DryRun); err != nil {
				return nil, false, err
			}
		}
		defer held.end(ctx)
		if err := r.judgeUpdate(ctx, as, obj, old, o); err != nil {
			return nil, false, err
		}
	}
	if o.Admit != nil {
		if err := o.Admit(ctx, obj, old); err != nil {
			return nil, false, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, false, err // the client has been told, or is gone
	}
	if r.Rules.Store != nil && !o.Raw {
		r.Rules.Store(obj)
	}
	if o.DryRun {
		return &Item{Object: obj, key: current.key}, false, nil
	}
	if r.removable(obj) {
		held.end(ctx) // nothing of the new state is stored
		item, err = r.remove(unheld, current, obj)
		return item, true, err
	}
	if same, err := r.unchanged(ctx, current, obj); err != nil || same {
		return current, false, err
	}
	item, err = r.commit(ctx, current.key, obj, func(value []byte) (int64, error) {
		return held.write(ctx, func() (int64, error) { return r.storeOver(ctx, current, value) })
	})
	if err == nil {
		r.after(ctx, item, current)
		held.end(ctx)
		err = r.settle(unheld, item)
	}
	return item, true, err
}

// unchanged reports whether there is nothing to store.
func (r *Resource) unchanged(ctx context.Context, current *Item, obj Object) (bool, error) {
	if same, err := r.same(obj, current.Object); err != nil || !same {
		return false, err
	}
	rewrite, err := r.rewritable(ctx, current, obj)
	if errors.Is(err, storage.ErrNotFound) {
		return true, nil // it was deleted elsewhere, which the caller finds out
	}
	return !rewrite, err
}

// same reports whether obj would be stored exactly as old is. It then sets obj's resource version to old's.
func (r *Resource) same(obj, old Object) (bool, error) {
	version := old.GetResourceVersion()
	obj.SetResourceVersion(version)
	obj.SetSelfLink("")
	return codec.Same(old, obj)
}

// preconditions checks the UID and resource version that the new state carries.
func (r *Resource) preconditions(obj, old Object, patch bool) error {
	if uid := obj.GetUID(); !patch && uid != "" && uid != old.GetUID() {
		return r.otherUID(old, uid, old.GetUID())
	}
	version, err := versionOf(obj)
	if err != nil {
		return r.badVersion(obj, err)
	}
	current, err := versionOf(old)
	switch {
	case err != nil:
		return err
	case version == 0:
		if r.Rules.ConditionalUpdate {
			// Upstream names the resource instead of the kind.
			return &Error{Err: ErrInvalid, Resource: r.stored.GroupResource(), Kind: r.stored.Plural, Name: obj.GetName(), Fields: field.ErrorList{
				field.Invalid(field.NewPath("metadata").Child("resourceVersion"), 0, "must be specified for an update")}}
		}
	case version != current:
		return r.errorf(ErrConflict, old.GetName(), "%s", errModified)
	}
	obj.SetResourceVersion(old.GetResourceVersion())
	return nil
}

// versionOf returns an object's resource version, or 0 if it has none.
func versionOf(obj Object) (uint64, error) {
	if obj.GetResourceVersion() == "" {
		return 0, nil
	}
	return strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
}

// badVersion refuses an object whose resource version is not a number; upstream fails on it.
func (r *Resource) badVersion(obj Object, err error) error {
	return r.invalid(r.kindOf(obj), obj.GetName(), field.ErrorList{
		field.Invalid(field.NewPath("metadata", "resourceVersion"), obj.GetResourceVersion(), err.Error()),
	})
}

func (r *Resource) otherUID(at Object, want, have types.UID) error {
	return r.errorf(ErrConflict, at.GetName(),
		"StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s",
		r.storageKey(indexKey(at.GetNamespace(), at.GetName())), want, have)
}

func (r *Resource) prepareUpdate(ctx context.Context, obj, old Object, o UpdateOptions) {
	obj.SetGeneration(old.GetGeneration())
	prepare := r.Rules.PrepareUpdate
	if o.View != "" {
		prepare = r.Sub.Views[o.View].PrepareUpdate
	}
	if prepare != nil {
		prepare(ctx, obj, old)
	}
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	if old.GetDeletionTimestamp() != nil {
		obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	}
	if old.GetDeletionGracePeriodSeconds() != nil && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
}

// judgeUpdate validates an object, which was sent as one of the given kind.
func (r *Resource) judgeUpdate(ctx context.Context, as schema.GroupKind, obj, old Object, o UpdateOptions) error {
	validate := r.Rules.ValidateUpdate
	if o.View != "" {
		validate = r.Sub.Views[o.View].ValidateUpdate
	}
	meta := field.NewPath("metadata")
	errs := apivalidation.ValidateObjectMetaAccessor(obj, r.Namespaced, PathSegmentName, meta)
	changes := apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, meta)
	if r.Decode != nil {
		errs = append(errs, changes...) // upstream tells of them again and again
	} else {
		errs = appendNew(errs, changes)
	}
	errs = append(errs, r.validateFinalizers(obj.GetFinalizers())...)
	switch {
	case o.View == "" && r.asNew(old) && r.Rules.Validate != nil:
		errs = append(errs, r.Rules.Validate(obj)...)
	case r.ValidateUpdate != nil:
		errs = append(errs, r.ValidateUpdate(ctx, o.View, obj, old)...)
	case validate != nil:
		errs = append(errs, validate(obj, old)...)
	}
	if len(errs) > 0 {
		return r.invalid(as, obj.GetName(), errs)
	}
	guard := r.Rules.Guard
	if o.View != "" {
		guard = r.Sub.Views[o.View].Guard
	}
	if guard != nil {
		return guard(ctx, obj, old)
	}
	return nil
}

func (r *Resource) validateCreate(obj Object) field.ErrorList {
	name := apivalidation.NameIsDNSSubdomain
	if r.Rules.ValidateName != nil {
		name = r.Rules.ValidateName
	}
	errs := apivalidation.ValidateObjectMetaAccessor(obj, r.Namespaced, name, field.NewPath("metadata"))
	errs = append(errs, r.validateFinalizers(obj.GetFinalizers())...)
	if r.Rules.Validate != nil {
		errs = append(errs, r.Rules.Validate(obj)...)
	}
	if len(errs) == 0 {
		errs = apivalidation.ValidateObjectMetaAccessor(obj, r.Namespaced, PathSegmentName, field.NewPath("metadata"))
	}
	return errs
}

// validateFinalizers requires a domain in the finalizers of Kubernetes' own kinds, except those that Kubernetes
// itself uses.
func (r *Resource) validateFinalizers(finalizers []string) field.ErrorList {
	group := r.GroupVersion.Group
	if r.Rules.AnyFinalizer || strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") {
		return nil
	}
	var errs field.ErrorList
	for i, f := range finalizers {
		switch f {
		case "kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
			continue
		}
		if !strings.Contains(f, "/") {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), f,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// PathSegmentName validates the name of a kind whose names need only fit into a URL path, for
// Rules.ValidateName.
func PathSegmentName(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// appendNew appends the errors of more that are not in errs.
func appendNew(errs, more field.ErrorList) field.ErrorList {
	if len(more) == 0 {
		return errs
	}
	known := make(map[string]bool, len(errs))
	for _, e := range errs {
		known[e.Error()] = true
	}
	for _, e := range more {
		if !known[e.Error()] {
			errs = append(errs, e)
		}
	}
	return errs
}

// newest returns the current item at key, or ErrNotFound.
func (r *Resource) newest(ctx context.Context, key, name string) (*Item, error) {
	if item := r.table.get(key); item != nil {
		return item, nil
	}
	if err := r.catchUp(ctx); err != nil {
		return nil, err
	}
	if item := r.table.get(key); item != nil {
		return item, nil
	}
	return nil, r.missing(key, name)
}

// catchUp waits until the cache shows everything that was committed before the call.
func (r *Resource) catchUp(ctx context.Context) error {
	revision, err := r.registry.store.Revision(ctx)
	if err != nil {
		return err
	}
	if err := r.registry.clock.wait(ctx, revision); err != nil {
		return err
	}
	return r.served()
}

func (r *Resource) keyOf(obj Object) ObjectKey {
	return ObjectKey{Resource: r.stored.GroupResource(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func (r *Resource) errorf(sentinel error, name, format string, args ...any) *Error {
	return Errorf(sentinel, ObjectKey{Resource: r.stored.GroupResource(), Name: name}, format, args...)
}

func (r *Resource) invalid(as schema.GroupKind, name string, errs field.ErrorList) *Error {
	resource := r.stored.GroupResource()
	resource.Group = as.Group
	return &Error{Err: ErrInvalid, Resource: resource, Kind: as.Kind, Name: name, Fields: errs}
}

// kindOf returns the kind that an object says it is of, which may not be that of the resource: then it is invalid.
func (r *Resource) kindOf(obj Object) schema.GroupKind {
	if u, ok := obj.(runtime.Unstructured); ok {
		if gvk := u.GetObjectKind().GroupVersionKind(); gvk.Kind != "" {
			return gvk.GroupKind()
		}
	}
	return schema.GroupKind{Group: r.stored.GroupVersion.Group, Kind: r.stored.Names.Kind}
}

// indexKey returns an object's key within its resource.
func indexKey(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
