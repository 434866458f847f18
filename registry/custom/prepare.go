package custom

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// PrepareCreate drops the status of a new object if it is a subresource, and sets the generation to 1.
func (v *Version) PrepareCreate(obj *unstructured.Unstructured) {
	if v.hasStatus {
		delete(obj.Object, "status")
	}
	obj.SetGeneration(1)
}

// PrepareUpdate restores the status if it is a subresource, and raises the generation if anything but metadata
// differs.
func (v *Version) PrepareUpdate(obj, old *unstructured.Unstructured) {
	if v.hasStatus {
		copyField(obj, old, "status")
	}
	generation := old.GetGeneration()
	if !equality.Semantic.DeepEqual(withoutMeta(obj), withoutMeta(old)) {
		generation++
	}
	obj.SetGeneration(generation)
}

// PrepareStatus restores everything but the status and the managed fields.
func (v *Version) PrepareStatus(obj, old *unstructured.Unstructured) {
	managed := obj.GetManagedFields()
	status, ok := obj.Object["status"]
	obj.Object = runtime.DeepCopyJSON(old.Object)
	obj.SetManagedFields(managed)
	if ok {
		obj.Object["status"] = status
	} else {
		delete(obj.Object, "status")
	}
}

// copyField makes a field of obj what it is in old.
func copyField(obj, old object, name string) {
	if value, ok := old.Object[name]; ok {
		obj.Object[name] = runtime.DeepCopyJSONValue(value)
	} else {
		delete(obj.Object, name)
	}
}

func withoutMeta(obj object) map[string]any {
	rest := make(map[string]any, len(obj.Object))
	for name, value := range obj.Object {
		if name != "metadata" {
			rest[name] = value
		}
	}
	return rest
}

// Warnings returns what the client of a write is warned of: finalizers that old, which is nil in a create, did not
// have and that are no qualified names.
func Warnings(obj, old *unstructured.Unstructured) []string {
	added := slices.Clone(obj.GetFinalizers())
	if old != nil {
		had := old.GetFinalizers()
		added = slices.DeleteFunc(added, func(f string) bool { return slices.Contains(had, f) })
	}
	slices.Sort(added)
	var warnings []string
	for _, f := range slices.Compact(added) {
		for _, text := range unqualified(f) {
			warnings = append(warnings, fmt.Sprintf("metadata.finalizers: %q: %s", f, text))
		}
	}
	return warnings
}

func unqualified(finalizer string) []string {
	texts := utilvalidation.IsQualifiedName(finalizer)
	standard := []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, "kubernetes"}
	switch {
	case strings.Contains(finalizer, "/") || slices.Contains(standard, finalizer):
	case strings.Contains(finalizer, "."):
		texts = append(texts, "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers")
	default:
		texts = append(texts, "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
	}
	return texts
}
