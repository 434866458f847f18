package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kind returns the definition with its type erased.
func (d Definition[T]) Kind() Kind {
	k := Kind{
		Names: d.Names, GroupVersion: d.GroupVersion, Namespaced: d.Namespaced, Prefix: d.Prefix,
		New: func() Object { return d.New() }, NewList: d.NewList,
		Rules: d.Rules.erase(), Sub: d.Sub.erase(), Also: d.Also, Older: d.Older, TTL: d.TTL, Warning: d.Warning,
		Columns: d.Columns.erase(),
	}
	if k.Prefix == "" {
		k.Prefix = d.Plural
	}
	if d.Fields != nil {
		k.Fields = func(obj Object) fields.Set { return d.Fields(obj.(T)) }
	}
	return k
}

// Review is a kind that is not stored: a function answers each create.
type Review[T runtime.Object] struct {
	Names
	GroupVersion schema.GroupVersion
	Namespaced   bool     // whether its requests name a namespace
	New          func() T // an empty object
	// Answer returns the reviewed object; it may change and return its argument.
	Answer func(ctx context.Context, a Access, namespace string, obj T) (runtime.Object, error)
}

// Kind returns the review with its type erased.
func (r Review[T]) Kind() Kind {
	return Kind{
		Names: r.Names, GroupVersion: r.GroupVersion, Namespaced: r.Namespaced,
		NewRequest: func() runtime.Object { return r.New() },
		Answer: func(ctx context.Context, a Access, namespace string, obj runtime.Object) (runtime.Object, error) {
			return r.Answer(ctx, a, namespace, obj.(T))
		},
	}
}

// Computed is a kind whose objects are computed at each read.
type Computed[T Object] struct {
	Names
	GroupVersion schema.GroupVersion
	Namespaced   bool                  // whether its objects live in namespaces
	New          func() T              // an empty object
	NewList      func() runtime.Object // an empty list
	Read         Reader                // computes the objects
	Warning      string                // as Kind.Warning
	Columns      Columns[T]
}

// Kind returns the computed kind with its type erased.
func (c Computed[T]) Kind() Kind {
	return Kind{
		Names: c.Names, GroupVersion: c.GroupVersion, Namespaced: c.Namespaced,
		New: func() Object { return c.New() }, NewList: c.NewList, Read: c.Read, Columns: c.Columns.erase(),
		Warning: c.Warning,
	}
}

func (r Rules[T]) erase() Rules[Object] {
	return Rules[Object]{
		Default:        erase1(r.Default),
		Reading:        Reading[Object]{Restore: erase1(r.Restore), Decorate: erase1(r.Decorate)},
		PrepareCreate:  eraseCreate(r.PrepareCreate),
		PrepareUpdate:  eraseUpdate(r.PrepareUpdate),
		Validate:       eraseValidate(r.Validate),
		ValidateUpdate: eraseValidateUpdate(r.ValidateUpdate),
		ValidateName:   r.ValidateName,
		Guard:          eraseGuard(r.Guard),
		Effects:        Effects[Object]{Reserve: eraseReserve(r.Reserve), After: eraseAfter(r.After)},
		Store:          erase1(r.Store),
		Share:          erase2(r.Share),
		CreateOnUpdate: r.CreateOnUpdate, ConditionalUpdate: r.ConditionalUpdate, AnyFinalizer: r.AnyFinalizer,
		Deletion: r.Deletion.erase(),
	}
}

func (d Deletion[T]) erase() Deletion[Object] {
	e := Deletion[Object]{
		Begin: erase1(d.Begin), ReturnsObject: d.ReturnsObject, Orphans: d.Orphans, OrphansWarning: d.OrphansWarning,
		Singly: d.Singly, Guard: d.Guard, Ending: d.Ending,
	}
	if d.Grace != nil {
		e.Grace = func(obj Object, asked *int64) int64 { return d.Grace(obj.(T), asked) }
	}
	if d.Held != nil {
		e.Held = func(obj Object) bool { return d.Held(obj.(T)) }
	}
	return e
}

func (s Subresources[T]) erase() Subresources[Object] {
	e := Subresources[Object]{Actions: s.Actions, Connects: s.Connects, Resets: s.Resets}
	if s.Views != nil {
		e.Views = make(map[string]View[Object], len(s.Views))
	}
	for name, v := range s.Views {
		e.Views[name] = View[Object]{
			PrepareUpdate:  eraseUpdate(v.PrepareUpdate),
			ValidateUpdate: eraseValidateUpdate(v.ValidateUpdate),
			Guard:          eraseGuard(v.Guard),
			Resets:         v.Resets,
		}
	}
	if s.Scale != nil {
		e.Scale = &Scale[Object]{
			Spec:   func(obj Object) int32 { return s.Scale.Spec(obj.(T)) },
			Status: func(obj Object) (int32, string) { return s.Scale.Status(obj.(T)) },
			Set:    func(obj Object, n int32) { s.Scale.Set(obj.(T), n) },

			Validated: s.Scale.Validated,
		}
		if s.Scale.Readable != nil {
			e.Scale.Readable = func(obj Object) error { return s.Scale.Readable(obj.(T)) }
		}
	}
	return e
}

func erase1[T Object](f func(T)) func(Object) {
	if f == nil {
		return nil
	}
	return func(obj Object) { f(obj.(T)) }
}

func erase2[T Object](f func(T, T)) func(Object, Object) {
	if f == nil {
		return nil
	}
	return func(obj, old Object) { f(obj.(T), old.(T)) }
}

func eraseCreate[T Object](f func(context.Context, T)) func(context.Context, Object) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, obj Object) { f(ctx, obj.(T)) }
}

func eraseUpdate[T Object](f func(context.Context, T, T)) func(context.Context, Object, Object) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, obj, old Object) { f(ctx, obj.(T), old.(T)) }
}

func eraseValidate[T Object](f func(T) field.ErrorList) func(Object) field.ErrorList {
	if f == nil {
		return nil
	}
	return func(obj Object) field.ErrorList { return f(obj.(T)) }
}

func eraseValidateUpdate[T Object](f func(T, T) field.ErrorList) func(Object, Object) field.ErrorList {
	if f == nil {
		return nil
	}
	return func(obj, old Object) field.ErrorList { return f(obj.(T), old.(T)) }
}

func eraseGuard[T Object](f func(context.Context, T, T) error) func(context.Context, Object, Object) error {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, obj, old Object) error {
		var before T
		if old != nil {
			before = old.(T)
		}
		return f(ctx, obj.(T), before)
	}
}
