package managedfields

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Merge merges a configuration, which lacks apiVersion and kind, into an object of a version, and returns the result. As in
// an apply, lists merge by the schema, but nobody becomes the owner of anything. A configuration may not have values that
// the schema replaces as a whole. Merge changes neither of its arguments. Its errors are those of upstream's mutating
// admission policies.
func (s *Schema) Merge(v *Version, live Object, config map[string]any) (Object, error) {
	patch, err := s.typed(v, &unstructured.Unstructured{Object: config})
	if err != nil {
		return nil, fmt.Errorf("failed to convert patch object to typed object: %w", err)
	}
	if whole := atomics(nil, patch.Schema(), patch.TypeRef(), patch.AsValue()); len(whole) > 0 {
		return nil, fmt.Errorf("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: %v", strings.Join(whole, ", "))
	}
	from, err := s.typed(v, live, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
	}
	merged, err := from.Merge(patch)
	if err != nil {
		return nil, fmt.Errorf("failed to merge patch: %w", err)
	}
	out, err := s.object(v, merged)
	if err != nil {
		return nil, err
	}
	if u, ok := out.(runtime.Unstructured); ok {
		u.SetUnstructuredContent(runtime.DeepCopyJSON(u.UnstructuredContent()))
	} else {
		out.SetManagedFields(live.GetManagedFields())
	}
	return out, nil
}

// atomics returns the paths of the values that the schema replaces as a whole.
func atomics(path []fieldpath.PathElement, s *smd.Schema, ref smd.TypeRef, v value.Value) (found []string) {
	a, ok := s.Resolve(ref)
	if !ok {
		return nil
	}
	at := func() string {
		var text strings.Builder
		for _, element := range path {
			text.WriteString(element.String())
		}
		return text.String()
	}
	if v.IsMap() && a.Map != nil {
		if a.Map.ElementRelationship == smd.Atomic {
			found = append(found, at())
		}
		v.AsMap().Iterate(func(key string, child value.Value) bool {
			if f, ok := a.Map.FindField(key); ok {
				found = append(found, atomics(append(path, fieldpath.PathElement{FieldName: &key}), s, f.Type, child)...)
			}
			return true
		})
	}
	if v.IsList() && a.List != nil {
		if a.List.ElementRelationship == smd.Atomic {
			found = append(found, at())
		}
		list := v.AsList()
		for i := range list.Length() {
			found = append(found, atomics(append(path, fieldpath.PathElement{Index: &i}), s, a.List.ElementType, list.At(i))...)
		}
	}
	return found
}
