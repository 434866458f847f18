package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// podPatch is the strategic merge patch that changes the pod's status to the given one, with the pod's UID as a
// precondition. It is nil when there is nothing to change.
func podPatch(pod *corev1.Pod, status corev1.PodStatus) ([]byte, error) {
	change, err := statusPatch(&pod.Status, &status)
	if err != nil || len(change) == 0 {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   change,
	})
}

// statusPatch compares two statuses, given by pointers, field by field. Fields that are gone become null, maps are
// merged, conditions are merged by type, and other lists are replaced as a whole.
func statusPatch(from, to any) (map[string]any, error) {
	old, errFrom := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	wanted, errTo := runtime.DefaultUnstructuredConverter.ToUnstructured(to)
	if err := errors.Join(errFrom, errTo); err != nil {
		return nil, fmt.Errorf("encoding a status: %w", err)
	}
	change := map[string]any{}
	for name, value := range wanted {
		if reflect.DeepEqual(value, old[name]) {
			continue
		}
		switch name {
		case "conditions":
			conditionsPatch(change, old[name], value)
		case "podIPs", "hostIPs", "addresses":
			// Lists that the strategy would merge by key.
			change[name] = append([]any{map[string]any{"$patch": "replace"}}, listOf(value)...)
		default:
			change[name] = mapPatch(old[name], value)
		}
	}
	removeMissing(change, old, wanted)
	return change, nil
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

// mapPatch returns the changed keys of a map, and any other value whole.
func mapPatch(old, wanted any) any {
	before, existed := old.(map[string]any)
	after, isMap := wanted.(map[string]any)
	if !existed || !isMap {
		return wanted
	}
	change := map[string]any{}
	for key, value := range after {
		if !reflect.DeepEqual(before[key], value) {
			change[key] = mapPatch(before[key], value)
		}
	}
	removeMissing(change, before, after)
	return change
}

// removeMissing adds nulls for keys that are gone, so that the merge removes them.
func removeMissing(change, before, after map[string]any) {
	for key := range before {
		if _, kept := after[key]; !kept {
			change[key] = nil
		}
	}
}

// conditionsPatch adds the conditions that changed, and the order of all.
func conditionsPatch(change map[string]any, old, wanted any) {
	before, _ := byType(old)
	after, order := byType(wanted)
	var list, keys []any
	for _, t := range order {
		keys = append(keys, map[string]any{"type": t})
		if !reflect.DeepEqual(before[t], after[t]) {
			whole := maps.Clone(after[t])
			removeMissing(whole, before[t], after[t])
			list = append(list, whole)
		}
	}
	for _, t := range slices.Sorted(maps.Keys(before)) {
		if _, kept := after[t]; !kept {
			list = append(list, map[string]any{"$patch": "delete", "type": t})
		}
	}
	if len(list) > 0 { // an order alone is no change
		change["$setElementOrder/conditions"] = keys
		change["conditions"] = list
	}
}

// byType returns conditions by their types, and the order of these.
func byType(conditions any) (all map[string]map[string]any, order []string) {
	all = map[string]map[string]any{}
	for _, item := range listOf(conditions) {
		c, _ := item.(map[string]any)
		t, _ := c["type"].(string)
		all[t] = c
		order = append(order, t)
	}
	return all, order
}
