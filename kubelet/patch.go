package kubelet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// podPatch is the strategic merge patch that changes the pod's status to the given one, with the pod's UID as a
// precondition. It is nil when there is nothing to change.
func podPatch(pod *corev1.Pod, status corev1.PodStatus) ([]byte, error) {
	change, err := statusPatch(pod.Status, status)
	if err != nil || len(change) == 0 {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   change,
	})
}

// statusPatch compares two statuses field by field. Fields that are gone become null, maps are
// merged, conditions are merged by type, and other lists are replaced as a whole.
func statusPatch(from, to any) (map[string]any, error) {
	old, err := fields(from)
	if err != nil {
		return nil, err
	}
	wanted, err := fields(to)
	if err != nil {
		return nil, err
	}
	change := map[string]any{}
	for name, raw := range wanted {
		if bytes.Equal(raw, old[name]) {
			continue
		}
		switch name {
		case "conditions":
			if err := conditionsPatch(change, old[name], raw); err != nil {
				return nil, err
			}
		case "podIPs", "hostIPs", "addresses":
			// Lists that the strategy would merge by key.
			var list []json.RawMessage
			if err := json.Unmarshal(raw, &list); err != nil {
				return nil, err
			}
			change[name] = append([]json.RawMessage{json.RawMessage(`{"$patch":"replace"}`)}, list...)
		default:
			if change[name], err = mapPatch(old[name], raw); err != nil {
				return nil, err
			}
		}
	}
	for name := range old {
		if _, kept := wanted[name]; !kept {
			change[name] = nil
		}
	}
	return change, nil
}

func fields(v any) (map[string]json.RawMessage, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding a status: %w", err)
	}
	var out map[string]json.RawMessage
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("encoding a status: %w", err)
	}
	return out, nil
}

// mapPatch returns the changed keys of a map, and any other value whole.
func mapPatch(old, wanted json.RawMessage) (any, error) {
	var before, after map[string]json.RawMessage
	if len(wanted) == 0 || wanted[0] != '{' || len(old) == 0 {
		return wanted, nil
	}
	if json.Unmarshal(old, &before) != nil || json.Unmarshal(wanted, &after) != nil {
		return wanted, nil //nolint:nilerr // not two maps: sent whole
	}
	change := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if bytes.Equal(before[key], after[key]) {
			continue
		}
		inner, err := mapPatch(before[key], after[key])
		if err != nil {
			return nil, err
		}
		change[key] = inner
	}
	for key := range before {
		if _, kept := after[key]; !kept {
			change[key] = nil
		}
	}
	return change, nil
}

// conditionsPatch adds the conditions that changed, and the order of all.
func conditionsPatch(change map[string]any, old, wanted json.RawMessage) error {
	before, _, err := byType(old)
	if err != nil {
		return err
	}
	after, order, err := byType(wanted)
	if err != nil {
		return err
	}
	var list, keys []any
	for _, t := range order {
		keys = append(keys, map[string]string{"type": t})
		if !bytes.Equal(before[t], after[t]) {
			list = append(list, fill(before[t], after[t]))
		}
	}
	for _, t := range slices.Sorted(maps.Keys(before)) {
		if _, kept := after[t]; !kept {
			list = append(list, map[string]string{"$patch": "delete", "type": t})
		}
	}
	if len(list) > 0 { // an order alone is no change
		change["$setElementOrder/conditions"] = keys
		change["conditions"] = list
	}
	return nil
}

// fill adds nulls for keys that a condition no longer has, so that the merge removes them.
func fill(before, after json.RawMessage) any {
	var old, wanted map[string]json.RawMessage
	if json.Unmarshal(after, &wanted) != nil {
		return after
	}
	_ = json.Unmarshal(before, &old) // without an old condition there is nothing to remove
	out := map[string]any{}
	for key, value := range wanted {
		out[key] = value
	}
	for key := range old {
		if _, kept := wanted[key]; !kept {
			out[key] = nil
		}
	}
	return out
}

func byType(raw json.RawMessage) (map[string]json.RawMessage, []string, error) {
	var list []json.RawMessage
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, nil, err
		}
	}
	out := map[string]json.RawMessage{}
	var order []string
	for _, item := range list {
		var key struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(item, &key); err != nil {
			return nil, nil, err
		}
		out[key.Type] = item
		order = append(order, key.Type)
	}
	return out, order, nil
}

func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return data, nil
}
