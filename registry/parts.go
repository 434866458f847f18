package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
)

// Parts are the spec and the status of a kind, and the rules that follow from them: a new object has no status
// and generation 1, an update keeps the status and raises the generation when the spec differs, and the view
// "status" keeps the spec. Rules.PrepareCreate, Rules.PrepareUpdate and View.PrepareUpdate take its methods;
// kinds with more to prepare call them from functions of their own. Drop fields before PrepareUpdate, which
// compares the remaining ones.
type Parts[T Object] struct {
	// Spec is what users ask for: changes to it raise the generation.
	Spec Part[T]
	// Status is unset for kinds without one.
	Status Part[T]
	// Uncounted leaves the generation at 0, as some of upstream's kinds do.
	Uncounted bool
}

// PrepareCreate clears the status and sets the generation to 1.
func (p Parts[T]) PrepareCreate(_ context.Context, obj T) {
	if p.Status.empty != nil {
		p.Status.empty(obj)
	}
	if !p.Uncounted {
		obj.SetGeneration(1)
	}
}

// PrepareUpdate restores the status, and raises the generation when the spec differs.
func (p Parts[T]) PrepareUpdate(_ context.Context, obj, old T) {
	if p.Status.keep != nil {
		p.Status.keep(obj, old)
	}
	generation := old.GetGeneration()
	if !p.Uncounted && p.Spec.same != nil && !p.Spec.same(obj, old) {
		generation++
	}
	obj.SetGeneration(generation)
}

// PrepareStatus restores the spec and the generation.
func (p Parts[T]) PrepareStatus(_ context.Context, obj, old T) {
	obj.SetGeneration(old.GetGeneration())
	if p.Spec.keep != nil {
		p.Spec.keep(obj, old)
	}
}

// Part is one part of an object, made by PartOf.
type Part[T Object] struct {
	empty func(obj T)
	keep  func(obj, old T)
	same  func(obj, old T) bool
}

// PartOf returns the part that at points to, such as a spec. The part's type has a generated DeepCopyInto.
func PartOf[T Object, P any, Pointer copies[P]](at func(obj T) Pointer) Part[T] {
	return Part[T]{
		empty: func(obj T) {
			var none P
			*at(obj) = none
		},
		keep: func(obj, old T) { at(old).DeepCopyInto(at(obj)) },
		// By value: behind pointers, the comparison would track every visited part.
		same: func(obj, old T) bool { return equality.Semantic.DeepEqual(*at(obj), *at(old)) },
	}
}

type copies[P any] interface {
	*P
	DeepCopyInto(out *P)
}
