package managedfields_test

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

var names = []string{"a", "b", "c", "é", "x<y>"}

// kindSchema returns a random schema of a kind.
func (h *customHistory) kindSchema() map[string]any {
	s := map[string]any{"type": "object", "properties": map[string]any{"spec": h.schema(0), "status": h.schema(1), "metadata": map[string]any{"type": "object"}}}
	if h.one(8) {
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
	return s
}

func (h *customHistory) scalarSchema() map[string]any {
	s := map[string]any{"type": []string{"string", "integer", "number", "boolean"}[h.IntN(4)]}
	switch {
	case s["type"] == "string" && h.one(3):
		s["format"] = []string{"date-time", "byte", "duration"}[h.IntN(3)]
	case h.one(6):
		return map[string]any{"x-kubernetes-int-or-string": true}
	}
	return s
}

func (h *customHistory) schema(depth int) map[string]any {
	if depth > 4 {
		return h.scalarSchema()
	}
	s := map[string]any{}
	switch h.IntN(10) {
	case 0, 1:
		s = h.scalarSchema()
	case 2, 3, 4:
		s = map[string]any{"type": "object", "properties": h.properties(depth)}
		h.mapType(s)
		switch h.IntN(10) {
		case 0:
			s["x-kubernetes-preserve-unknown-fields"] = true
		case 1:
			s["x-kubernetes-embedded-resource"] = true
		}
	case 5:
		s = map[string]any{"type": "object", "additionalProperties": h.schema(depth + 1)}
		if h.one(6) {
			s["additionalProperties"] = true
		}
		h.mapType(s)
	case 6:
		s = map[string]any{"x-kubernetes-preserve-unknown-fields": true}
		if h.one(2) {
			s["type"] = "object"
		}
		if h.one(3) {
			s = map[string]any{"type": "object"}
		}
	case 7:
		s = map[string]any{"type": "array", "items": h.scalarSchema(), "x-kubernetes-list-type": "set"}
	case 8:
		s = map[string]any{"type": "array", "items": h.schema(depth + 1)}
		if h.one(2) {
			s["x-kubernetes-list-type"] = "atomic"
		}
	case 9:
		s = h.listMap(depth)
	}
	if h.one(10) {
		s["nullable"] = true
	}
	return s
}

func (h *customHistory) mapType(s map[string]any) {
	if h.one(3) {
		s["x-kubernetes-map-type"] = []string{"atomic", "granular"}[h.IntN(2)]
	}
}

func (h *customHistory) properties(depth int) map[string]any {
	properties := map[string]any{}
	for range 1 + h.IntN(4) {
		properties[names[h.IntN(len(names))]] = h.schema(depth + 1)
	}
	return properties
}

// listMap returns the schema of a list whose items have keys, some with a default.
func (h *customHistory) listMap(depth int) map[string]any {
	item := h.properties(depth)
	var keys []any
	for _, name := range []string{"b", "a"} {
		if len(keys) > 0 && h.one(2) {
			break
		}
		key := h.scalarSchema()
		if h.one(3) {
			key["default"] = h.scalarOf(key)
		}
		item[name], keys = key, append(keys, name)
	}
	items := map[string]any{"type": "object", "properties": item}
	if h.one(4) {
		h.mapType(items)
	}
	return map[string]any{"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
}

// varied returns a schema that differs in some places, mostly in how things merge.
func (h *customHistory) varied(v any) any {
	s, ok := v.(map[string]any)
	if !ok {
		return v
	}
	s = maps.Clone(s)
	for _, below := range []string{"items", "additionalProperties"} {
		if s[below] != nil {
			s[below] = h.varied(s[below])
		}
	}
	if properties, ok := s["properties"].(map[string]any); ok {
		properties = maps.Clone(properties)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if name != "metadata" { // nothing may be said of it
				properties[name] = h.varied(properties[name])
			}
		}
		if h.one(30) && s["x-kubernetes-preserve-unknown-fields"] == nil {
			properties["new"] = h.schema(3)
		}
		s["properties"] = properties
	}
	switch {
	case !h.one(3):
	case s["type"] == "array":
		if s["x-kubernetes-list-type"] == "map" || s["x-kubernetes-list-type"] == "set" {
			s["x-kubernetes-list-type"] = "atomic"
			delete(s, "x-kubernetes-list-map-keys")
		} else if item := s["items"].(map[string]any); item["properties"] != nil && item["properties"].(map[string]any)["a"] != nil {
			s["x-kubernetes-list-type"], s["x-kubernetes-list-map-keys"] = "map", []any{"a"}
		} else if item["type"] == "string" {
			s["x-kubernetes-list-type"] = "set"
		}
	case s["type"] == "object":
		if s["x-kubernetes-map-type"] == "atomic" {
			delete(s, "x-kubernetes-map-type")
		} else {
			s["x-kubernetes-map-type"] = "atomic"
		}
	}
	if s["properties"] != nil && s["properties"].(map[string]any)["metadata"] != nil {
		delete(s, "x-kubernetes-map-type") // of objects themselves
		if h.one(20) {
			s["x-kubernetes-map-type"] = []string{"atomic", "granular"}[h.IntN(2)]
		}
	}
	return s
}

// objectOf returns a random object with a schema.
func (h *customHistory) objectOf(s map[string]any) map[string]any {
	obj, ok := h.valueOf(s, 0).(map[string]any)
	if !ok {
		obj = map[string]any{}
	}
	delete(obj, "apiVersion")
	delete(obj, "kind")
	obj["metadata"] = h.metadata()
	return obj
}

func (h *customHistory) metadata() map[string]any {
	meta := map[string]any{}
	if h.one(2) {
		meta["labels"] = map[string]any{h.text(): h.text()}
	}
	if h.one(4) {
		meta["finalizers"] = []any{[]any{"a", "b", "c"}[h.IntN(3)]}
	}
	if h.one(6) {
		meta["ownerReferences"] = []any{map[string]any{"uid": h.text(), "name": h.text(), "kind": "K", "apiVersion": "v1"}}
	}
	if h.one(60) {
		meta["unknown"] = "x"
	}
	if h.one(60) {
		meta["creationTimestamp"] = nil
	}
	return meta
}

func (h *customHistory) scalarOf(s map[string]any) any {
	switch s["type"] {
	case "string":
		return h.text()
	case "integer":
		return int64(h.IntN(3))
	case "number":
		return []any{int64(1), 1.0, 0.5}[h.IntN(3)]
	case "boolean":
		return h.one(2)
	}
	if h.one(2) {
		return h.text()
	}
	return int64(h.IntN(3))
}

// valueOf returns a random value with a schema, or rarely another one.
func (h *customHistory) valueOf(v any, depth int) any {
	s, ok := v.(map[string]any)
	switch {
	case h.one(250):
		return h.something(3)
	case h.one(40):
		return nil
	case !ok || s["type"] == nil && s["x-kubernetes-int-or-string"] == nil:
		return h.something(depth)
	case s["type"] == "array":
		list := []any{}
		for range h.IntN(4) {
			list = append(list, h.valueOf(s["items"], depth+1))
			if len(list) > 1 && h.one(40) {
				list = append(list, runtime.DeepCopyJSONValue(list[0]))
			}
		}
		return h.distinct(list, s)
	case s["type"] == "object":
		m := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if !h.one(4) {
				m[name] = h.valueOf(properties[name], depth+1)
			}
		}
		if s["x-kubernetes-embedded-resource"] != nil {
			m["metadata"], m["kind"] = h.metadata(), h.text()
		}
		free := s["additionalProperties"] != nil || s["x-kubernetes-preserve-unknown-fields"] != nil || properties == nil
		if free || h.one(250) {
			for range h.IntN(3) {
				if name := names[h.IntN(len(names))]; m[name] == nil {
					m[name] = h.valueOf(s["additionalProperties"], depth+1)
				}
			}
		}
		return m
	}
	return h.scalarOf(s)
}

// distinct mostly removes items with keys of others.
func (h *customHistory) distinct(list []any, s map[string]any) []any {
	if s["x-kubernetes-list-type"] == nil || h.one(40) {
		return list
	}
	keys, _ := s["x-kubernetes-list-map-keys"].([]any)
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(item any) bool {
		m, ok := item.(map[string]any)
		id := mustJSON(item)
		if ok && len(keys) > 0 {
			id = ""
			for _, key := range keys {
				id += mustJSON(m[key.(string)])
			}
			if m[keys[0].(string)] == nil && !h.one(20) {
				return true
			}
		}
		was := seen[id]
		seen[id] = true
		return was
	})
}

// something is any JSON.
func (h *customHistory) something(depth int) any {
	switch h.IntN(7) {
	case 0:
		return nil
	case 1, 2:
		m := map[string]any{}
		for range h.IntN(3) {
			if depth < 5 {
				m[names[h.IntN(len(names))]] = h.something(depth + 1)
			}
		}
		return m
	case 3:
		if depth < 5 {
			return []any{h.something(depth + 1)}
		}
		return []any{}
	}
	return h.scalarOf(map[string]any{})
}

// edit changes a few places of a value.
func (h *customHistory) edit(s any, m map[string]any) {
	of, _ := s.(map[string]any)
	properties, _ := of["properties"].(map[string]any)
	if h.one(8) {
		m["metadata"] = h.metadata()
		if h.live.GetUID() != "" {
			m["metadata"].(map[string]any)["managedFields"] = h.live.Object["metadata"].(map[string]any)["managedFields"]
		}
	}
	name := []string{"spec", "status"}[h.IntN(2)]
	m[name] = h.edited(properties[name], m[name])
	if h.one(20) {
		delete(m, name)
	}
}

func (h *customHistory) edited(schema, v any) any {
	s, _ := schema.(map[string]any)
	if v == nil || h.one(6) {
		return h.valueOf(s, 1)
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return h.valueOf(s, 1)
		}
		keys := slices.Sorted(maps.Keys(v))
		name := keys[h.IntN(len(keys))]
		if h.one(5) {
			delete(v, name)
			return v
		}
		part := s["additionalProperties"]
		if properties, ok := s["properties"].(map[string]any); ok && properties[name] != nil {
			part = properties[name]
		}
		v[name] = h.edited(part, v[name])
		return v
	case []any:
		if len(v) == 0 || h.one(5) {
			return h.valueOf(s, 1)
		}
		i := h.IntN(len(v))
		switch h.IntN(4) {
		case 0:
			return slices.Delete(v, i, i+1)
		case 1:
			slices.Reverse(v)
		case 2:
			return append(v, runtime.DeepCopyJSONValue(v[i]))
		default:
			v[i] = h.edited(s["items"], v[i])
		}
		return v
	}
	return h.valueOf(s, 1)
}
