package strategicpatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// ErrUnmergeable means that a merged list has items that cannot be identified.
var ErrUnmergeable = errors.New("items of lists that merge cannot be null, and their merge keys must be text, numbers or booleans")

// The directives of a patch.
const (
	directive    = "$patch"
	retainKeys   = "$retainKeys"
	deletePrefix = "$deleteFromPrimitiveList"
	orderPrefix  = "$setElementOrder"
)

// Merge merges changes into an object and returns the result. Neither argument may be used afterwards. kind is a
// pointer to a struct whose tags define how lists merge. If ctx ends, Merge returns its error.
func Merge(ctx context.Context, object, changes map[string]any, kind any) (map[string]any, error) {
	schema, err := strategicpatch.NewPatchMetaFromStruct(kind)
	if err != nil {
		return nil, err
	}
	if _, ok := kind.(*unstructured.Unstructured); ok {
		return nil, mergepatch.ErrUnsupportedStrategicMergePatchFormat
	}
	m := &merging{ctx: ctx}
	return m.object(object, changes, schema)
}

// MergeJSON is Merge for JSON documents.
func MergeJSON(ctx context.Context, document, patch []byte, kind any) ([]byte, error) {
	schema, err := strategicpatch.NewPatchMetaFromStruct(kind)
	if err != nil {
		return nil, err
	}
	object, changes := map[string]any{}, map[string]any{}
	if utiljson.Unmarshal(orEmpty(document), &object) != nil || utiljson.Unmarshal(orEmpty(patch), &changes) != nil {
		return nil, mergepatch.ErrBadJSONDoc
	}
	m := &merging{ctx: ctx}
	merged, err := m.object(object, changes, schema)
	if err != nil {
		return nil, err
	}
	return json.Marshal(merged)
}

func orEmpty(document []byte) []byte {
	if document == nil {
		return []byte("{}")
	}
	return document
}

// merging is one merge.
type merging struct {
	ctx   context.Context //nolint:containedctx // of the one call
	steps int             // items visited, for tests of the complexity
}

// object merges changes into an object.
func (m *merging) object(into, changes map[string]any, schema strategicpatch.LookupPatchMeta) (map[string]any, error) {
	if err := m.ctx.Err(); err != nil {
		return nil, err
	}
	if d, ok := changes[directive]; ok {
		switch d {
		case "replace":
			delete(changes, directive)
			return changes, nil
		case "delete":
			return map[string]any{}, nil
		}
		return nil, mergepatch.ErrBadPatchType(d, changes)
	}
	if into == nil {
		into = map[string]any{}
	}
	if err := retain(into, changes); err != nil {
		return nil, err
	}
	if err := m.ordered(into, changes, schema); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(changes)) { // fixed order, for list deletions and additions
		if err := m.field(into, key, changes[key], schema); err != nil {
			return nil, err
		}
	}
	return into, nil
}

// retain drops the fields of an object that a patch does not retain.
func retain(object, changes map[string]any) error {
	listed, ok := changes[retainKeys]
	if !ok {
		return nil
	}
	delete(changes, retainKeys)
	list, ok := listed.([]any)
	if !ok {
		return mergepatch.ErrBadPatchFormatForRetainKeys
	}
	retained := map[string]bool{}
	for _, v := range list {
		if key, ok := v.(string); ok {
			retained[key] = true
		}
	}
	for key, value := range changes {
		if value != nil && !strings.HasPrefix(key, deletePrefix) && !strings.HasPrefix(key, orderPrefix) && !retained[key] {
			return mergepatch.ErrBadPatchFormatForRetainKeys
		}
	}
	maps.DeleteFunc(object, func(key string, _ any) bool { return !retained[key] })
	return nil
}

// target returns the field of a directive such as $setElementOrder/field.
func target(key, prefix string, malformed error) (string, error) {
	if before, field, ok := strings.Cut(key, "/"); ok && before == prefix {
		return field, nil
	}
	return "", malformed
}

// field merges one field of a patch.
func (m *merging) field(into map[string]any, key string, change any, schema strategicpatch.LookupPatchMeta) error {
	deletes := strings.HasPrefix(key, deletePrefix)
	if deletes {
		field, err := target(key, deletePrefix, mergepatch.ErrBadPatchFormatForPrimitiveList)
		if err != nil {
			return err
		}
		if field != "" {
			key = field
		}
	}
	if change == nil {
		delete(into, key)
		return nil
	}
	now, ok := into[key]
	if !ok || reflect.TypeOf(now) != reflect.TypeOf(change) {
		if !deletes {
			discardNulls(change)
			set(into, key, change)
		}
		return nil
	}
	var err error
	switch change := change.(type) {
	case map[string]any:
		var within strategicpatch.LookupPatchMeta
		var meta strategicpatch.PatchMeta
		if within, meta, err = schema.LookupPatchMetadataForStruct(key); err != nil {
			return err
		}
		into[key], err = m.structure(now.(map[string]any), change, within, meta)
	case []any:
		var l list
		if l, err = lookUp(schema, key); err != nil {
			return err
		}
		into[key], err = m.merge(l, now.([]any), change, deletes)
	default:
		set(into, key, change)
	}
	return err
}

func (m *merging) structure(now, change map[string]any, within strategicpatch.LookupPatchMeta, meta strategicpatch.PatchMeta) (map[string]any, error) {
	strategy, err := strategyOf(meta)
	if err != nil {
		return nil, err
	}
	if strategy == "replace" {
		return change, nil
	}
	return m.object(now, change, within)
}

// set sets a field to a value without its directives, if anything is left of it.
func set(into map[string]any, key string, value any) {
	if value, keep := withoutDirectives(value); keep {
		into[key] = value
		return
	}
	delete(into, key)
}

// withoutDirectives removes the directives from a part of a patch that has no counterpart in the object.
func withoutDirectives(value any) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		if _, ok := v[directive]; ok {
			return nil, false
		}
		for key, child := range v {
			set(v, key, child)
		}
	case []any:
		kept := []any{}
		if v == nil {
			kept = nil
		}
		for _, child := range v {
			if child, keep := withoutDirectives(child); keep {
				kept = append(kept, child)
			}
		}
		return kept, true
	}
	return value, true
}

// discardNulls removes null fields from a part of a patch that has no counterpart in the object.
func discardNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if child == nil {
				delete(v, key)
			} else {
				discardNulls(child)
			}
		}
	case []any:
		for _, child := range v {
			discardNulls(child)
		}
	}
}

// strategyOf returns how a field merges, regardless of retainKeys.
func strategyOf(meta strategicpatch.PatchMeta) (string, error) {
	strategies := meta.GetPatchStrategies()
	rest := slices.DeleteFunc(slices.Clone(strategies), func(s string) bool { return s == "retainKeys" })
	switch {
	case len(strategies) > 2 || len(rest) > 1:
		return "", fmt.Errorf("unexpected patch strategy: %v", strategies)
	case len(rest) == 0:
		return "", nil
	}
	return rest[0], nil
}
