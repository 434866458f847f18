package admit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Change is a difference between two states of an object.
type Change struct {
	// Path is that of a field, such as spec.containers[0].image, or metadata.labels["app.kubernetes.io/name"].
	Path string
	// Before and After are the values as decoded JSON; nil means that there is none.
	Before, After any
}

// String returns the change in a line: "+ PATH: VALUE" for a field that is new, "- PATH: VALUE" for one that is gone, and
// "~ PATH: BEFORE -> AFTER". Values are in JSON.
func (c Change) String() string {
	switch {
	case c.Before == nil:
		return "+ " + c.Path + ": " + compact(c.After)
	case c.After == nil:
		return "- " + c.Path + ": " + compact(c.Before)
	}
	return "~ " + c.Path + ": " + compact(c.Before) + " -> " + compact(c.After)
}

func compact(value any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// diff appends the differences of two values at a path, in the order of their paths. Elements of lists are compared by their
// index, after equal ones at both ends.
func diff(to []Change, path string, before, after any) []Change {
	switch was := before.(type) {
	case map[string]any:
		if is, ok := after.(map[string]any); ok {
			return diffFields(to, path, was, is)
		}
	case []any:
		if is, ok := after.([]any); ok {
			return diffElements(to, path, was, is)
		}
	}
	if reflect.DeepEqual(before, after) {
		return to
	}
	return append(to, Change{path, before, after})
}

func diffFields(to []Change, path string, before, after map[string]any) []Change {
	all := slices.Collect(maps.Keys(before))
	for name := range after {
		if _, ok := before[name]; !ok {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	for _, name := range all {
		to = diff(to, field(path, name), before[name], after[name])
	}
	return to
}

func diffElements(to []Change, path string, before, after []any) []Change {
	head := 0
	for head < min(len(before), len(after)) && reflect.DeepEqual(before[head], after[head]) {
		head++
	}
	tail := 0
	for tail < min(len(before), len(after))-head && reflect.DeepEqual(before[len(before)-1-tail], after[len(after)-1-tail]) {
		tail++
	}
	before, after = before[head:len(before)-tail], after[head:len(after)-tail]
	for i := range max(len(before), len(after)) {
		var was, is any
		if i < len(before) {
			was = before[i]
		}
		if i < len(after) {
			is = after[i]
		}
		to = diff(to, fmt.Sprintf("%s[%d]", path, head+i), was, is)
	}
	return to
}

// field returns the path of a field of an object or a map.
func field(path, name string) string {
	switch {
	case strings.ContainsAny(name, ".[]/ \"") || name == "":
		return fmt.Sprintf("%s[%q]", path, name)
	case path == "":
		return name
	}
	return path + "." + name
}
