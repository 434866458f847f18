package openapi

import (
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fieldParams are the fields of an options type as query parameters, documented by its SwaggerDoc.
func fieldParams(options any, without ...string) []param {
	var docs map[string]string
	if d, ok := options.(interface{ SwaggerDoc() map[string]string }); ok {
		docs = d.SwaggerDoc()
	}
	t := reflect.TypeOf(options)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var all []param
	for field := range fields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		kind := paramKind(field.Type)
		if name == "" || name == "-" || kind == "" || slices.Contains(without, name) {
			continue
		}
		all = append(all, param{name, inQuery, docs[name], kind})
	}
	return all
}

func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// paramKind is the type of a query parameter, empty for what cannot be one. A list is what its
// elements are: the parameter is repeated.
func paramKind(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t == reflect.TypeFor[metav1.Time]() {
		return "string"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return "integer"
	case reflect.Float32, reflect.Float64:
		return "number"
	}
	return ""
}
