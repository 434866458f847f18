package informer

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// MutationError says that a shared object was changed.
type MutationError struct {
	// Kind is the Go type of the object, Namespace and Name its key.
	Kind, Namespace, Name string
	// Diff has a line for each field that differs: its path, the source's value, the present value.
	Diff string
}

// Error implements error.
func (e *MutationError) Error() string {
	return fmt.Sprintf("shared %s %s was changed:\n%s", e.Kind, key{e.Namespace, e.Name}.path(), e.Diff)
}

// check reports an object that differs from what the source returned.
func (i *Informer[T]) check(old former[T]) {
	if i.detect == nil || reflect.DeepEqual(old.obj, old.given) {
		return
	}
	i.detect(&MutationError{
		Kind: kindName(old.obj), Namespace: old.given.GetNamespace(), Name: old.given.GetName(),
		Diff: diff(old.given, old.obj),
	})
}

// checkAll checks every object in the cache.
func (i *Informer[T]) checkAll() {
	if i.detect == nil {
		return
	}
	i.mu.RLock()
	all := make([]former[T], 0, len(i.cache.objects))
	for k, obj := range i.cache.objects {
		all = append(all, former[T]{obj, i.cache.given[k]})
	}
	i.mu.RUnlock()
	for _, f := range all {
		i.check(f)
	}
}

// kindName is the name of the Go type, since decoded objects often have no kind.
func kindName(obj any) string { return strings.TrimPrefix(fmt.Sprintf("%T", obj), "*") }

// diff lists the fields in which two objects differ, by their JSON names.
func diff(before, after any) string {
	b, err1 := generic(before)
	a, err2 := generic(after)
	if err1 != nil || err2 != nil {
		return fmt.Sprintf("before: %+v\nafter:  %+v", before, after)
	}
	var lines []string
	compare("", b, a, &lines)
	if len(lines) == 0 {
		return "(the difference does not show in JSON)"
	}
	return strings.Join(lines, "\n")
}

func generic(obj any) (any, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var v any
	return v, json.Unmarshal(data, &v)
}

// compare appends a line for each leaf in which two JSON values differ.
func compare(path string, before, after any, lines *[]string) {
	if b, ok := before.(map[string]any); ok {
		if a, ok := after.(map[string]any); ok {
			union := maps.Clone(b)
			maps.Copy(union, a)
			for _, name := range slices.Sorted(maps.Keys(union)) {
				compare(path+"."+name, b[name], a[name], lines)
			}
			return
		}
	}
	if b, ok := before.([]any); ok {
		if a, ok := after.([]any); ok && len(a) == len(b) {
			for n := range b {
				compare(fmt.Sprintf("%s[%d]", path, n), b[n], a[n], lines)
			}
			return
		}
	}
	if !reflect.DeepEqual(before, after) {
		*lines = append(*lines, fmt.Sprintf("  %s: %s -> %s", strings.TrimPrefix(path, "."), show(before), show(after)))
	}
}

func show(v any) string {
	if v == nil {
		return "(unset)"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
