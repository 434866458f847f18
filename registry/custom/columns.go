package custom

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/jsonpath"

	"github.com/keelson-dev/keelson/registry"
)

// Columns describe how objects of the version are shown in tables: by their names and by the definition's columns, or
// by their age if it has none.
func (v *Version) Columns() registry.Columns[*unstructured.Unstructured] { return v.columns }

// newColumns ends at the first column whose path cannot be read, as upstream does.
func newColumns(declared []apiextensionsv1.CustomResourceColumnDefinition) registry.Columns[object] {
	if len(declared) == 0 {
		declared = []apiextensionsv1.CustomResourceColumnDefinition{{
			Name: "Age", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], JSONPath: ".metadata.creationTimestamp",
		}}
	}
	definitions := []metav1.TableColumnDefinition{registry.NameColumn()}
	var cells []func(obj object, now time.Time) any
	for _, c := range declared {
		at, err := parsePath(c.Name, c.JSONPath)
		if err != nil {
			break
		}
		description := c.Description
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		definitions = append(definitions, metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: description, Priority: c.Priority,
		})
		cells = append(cells, func(obj object, now time.Time) any { return cell(at, c.Type, obj, now) })
	}
	return registry.Columns[object]{
		Definitions: definitions,
		Cells: func(obj object, now time.Time) []any {
			row := []any{obj.GetName()}
			for _, c := range cells {
				row = append(row, c(obj, now))
			}
			return row
		},
	}
}

// parsePath reads a JSON path. A path without loops can be used concurrently.
func parsePath(name, text string) (*jsonpath.JSONPath, error) {
	parsed, err := jsonpath.Parse(name, "{"+text+"}")
	if err != nil {
		return nil, err
	}
	if looping(parsed.Root) {
		return nil, fmt.Errorf("the path %q has a loop", text)
	}
	at := jsonpath.New(name).AllowMissingKeys(true)
	return at, at.Parse("{" + text + "}")
}

// looping reports whether a path has an identifier such as range, which changes the state of the evaluation.
func looping(list *jsonpath.ListNode) bool {
	for _, node := range list.Nodes {
		switch node := node.(type) {
		case *jsonpath.IdentifierNode:
			return true
		case *jsonpath.ListNode:
			if looping(node) {
				return true
			}
		}
	}
	return false
}

// find returns the values at each part of a path, or nothing if the object has others than the path expects.
func find(at *jsonpath.JSONPath, obj object) [][]reflect.Value {
	found, err := at.FindResults(obj.Object)
	if err != nil {
		return nil
	}
	return found
}

// cell returns the first value at a path, or nil if there is none of the column's type.
func cell(at *jsonpath.JSONPath, kind string, obj object, now time.Time) any {
	found := find(at, obj)
	if len(found) == 0 || len(found[0]) == 0 {
		return nil
	}
	value := found[0][0].Interface()
	switch kind {
	case "string":
		var text strings.Builder
		if at.PrintResults(&text, []reflect.Value{reflect.ValueOf(value)}) != nil {
			return nil
		}
		return text.String()
	case "integer":
		switch n := value.(type) {
		case int64:
			return n
		case float64:
			return int64(n)
		}
	case "number":
		switch n := value.(type) {
		case int64:
			return float64(n)
		case float64:
			return n
		}
	case "boolean":
		if b, ok := value.(bool); ok {
			return b
		}
	case "date":
		if text, ok := value.(string); ok {
			var at metav1.Time
			if at.UnmarshalQueryParameter(text) != nil {
				return "<invalid>"
			}
			return registry.Age(at, now)
		}
	}
	return nil
}

// selectable is a field that selectors may name.
type selectable struct {
	name string
	at   *jsonpath.JSONPath // nil if it cannot be read
}

func newSelectable(declared []apiextensionsv1.SelectableField) []selectable {
	out := make([]selectable, len(declared))
	for i, f := range declared {
		out[i].name = strings.TrimPrefix(f.JSONPath, ".")
		if at, err := parsePath("selectableField", f.JSONPath); err == nil {
			out[i].at = at
		}
	}
	return out
}

// SelectableFields returns the names of the fields that selectors may name, beside metadata.name and
// metadata.namespace.
func (v *Version) SelectableFields() []string {
	names := make([]string, len(v.fields))
	for i, f := range v.fields {
		names[i] = f.name
	}
	return names
}

// Fields returns an object's values of SelectableFields; those that it does not have are empty.
func (v *Version) Fields(obj *unstructured.Unstructured) fields.Set {
	out := fields.Set{}
	for _, f := range v.fields {
		out[f.name] = ""
		if f.at == nil {
			continue
		}
		found := find(f.at, obj)
		if len(found) != 1 || len(found[0]) != 1 {
			continue
		}
		if value := found[0][0].Interface(); value != nil {
			out[f.name] = fmt.Sprint(value)
		}
	}
	return out
}
