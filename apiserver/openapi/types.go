package openapi

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const kindExtension = "x-kubernetes-group-version-kind"

// types finds the definitions of Go types: in the archive, or made from their fields. Documentation
// of such fields comes from the type's method SwaggerDoc, if it has one.
type types struct {
	archive *archive
	made    map[string]made
	kinds   map[reflect.Type]string // the names of those that were made for kinds
}

func newTypes(a *archive) *types {
	return &types{archive: a, made: map[string]made{}, kinds: map[reflect.Type]string{}}
}

// made is a definition that is not in the archive, with what it refers to.
type made struct {
	schema map[string]any
	needs  []string
	custom bool // of a kind with a schema
}

// define returns the name of the definition of a kind.
func (t *types) define(object runtime.Object, kind schema.GroupVersionKind) string {
	name := modelName(reflect.TypeOf(object))
	if t.archive.has(name) {
		return name
	}
	if name == "" { // named as upstream names custom resources: several kinds may have one Go type
		name = customName(kind)
	}
	if _, ok := t.made[name]; ok {
		return name
	}
	m := made{schema: map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
	t.made[name] = m
	if _, anything := object.(runtime.Unstructured); !anything {
		of := reflect.TypeOf(object).Elem()
		t.kinds[of] = name
		m.schema = t.object(of, &m.needs)
	}
	m.schema[kindExtension] = []gvk{{kind.Group, kind.Version, kind.Kind}}
	t.made[name] = m
	return name
}

// modelName is what a type calls its definition, or empty.
func modelName(t reflect.Type) string {
	if n, ok := reflect.Zero(t).Interface().(interface{ OpenAPIModelName() string }); ok && t.Kind() != reflect.Pointer {
		return n.OpenAPIModelName()
	}
	if t.Kind() == reflect.Pointer {
		return modelName(t.Elem())
	}
	return ""
}

// object is the schema of a struct: its fields by their JSON names.
func (t *types) object(of reflect.Type, needs *[]string) map[string]any {
	properties := map[string]any{}
	var required []string
	t.properties(of, properties, &required, needs)
	s := map[string]any{"type": "object"}
	if len(properties) > 0 {
		s["properties"] = properties
	}
	if len(required) > 0 {
		s["required"] = required
	}
	if doc := swaggerDoc(of)[""]; doc != "" {
		s["description"] = doc
	}
	return s
}

func (t *types) properties(of reflect.Type, properties map[string]any, required, needs *[]string) {
	docs := swaggerDoc(of)
	for field := range fields(of) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		inline := field.Anonymous && name == "" || strings.Contains(options, "inline")
		switch {
		case name == "-" || !field.IsExported() && !inline:
		case inline:
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if embedded.Kind() == reflect.Struct {
				t.properties(embedded, properties, required, needs)
			}
		default:
			if name == "" {
				name = field.Name
			}
			schema := t.schema(field.Type, needs)
			patching(schema, field.Tag)
			if doc := docs[name]; doc != "" && schema["$ref"] == nil {
				schema["description"] = doc
			}
			properties[name] = schema
			if field.Type.Kind() != reflect.Pointer && !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
				*required = append(*required, name)
			}
		}
	}
}

// patching tells clients what strategic merge patches do with a list, by the tags that the server
// itself goes by.
func patching(schema map[string]any, tag reflect.StructTag) {
	if key := tag.Get("patchMergeKey"); key != "" && schema["type"] == "array" {
		schema["x-kubernetes-patch-merge-key"] = key
	}
	if strategy := tag.Get("patchStrategy"); strategy != "" && schema["type"] == "array" {
		schema["x-kubernetes-patch-strategy"] = strategy
	}
}

// schema is that of any type.
func (t *types) schema(of reflect.Type, needs *[]string) map[string]any {
	if of.Kind() == reflect.Pointer {
		return t.schema(of.Elem(), needs)
	}
	if name := modelName(of); t.archive.has(name) {
		return refer(name, needs)
	}
	if name, ok := t.kinds[of]; ok {
		return refer(name, needs)
	}
	switch {
	case of == reflect.TypeFor[json.RawMessage](), of.Kind() != reflect.Struct && of.Implements(reflect.TypeFor[json.Marshaler]()):
		return map[string]any{"x-kubernetes-preserve-unknown-fields": true}
	case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Uint8:
		return map[string]any{"type": "string", "format": "byte"}
	}
	switch of.Kind() {
	case reflect.Struct:
		return t.nested(of, needs)
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": t.schema(of.Elem(), needs)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": t.schema(of.Elem(), needs)}
	case reflect.Interface:
		return map[string]any{"x-kubernetes-preserve-unknown-fields": true}
	}
	return simple(of.Kind())
}

// nested refers to the definition of a struct, which may contain itself.
func (t *types) nested(of reflect.Type, needs *[]string) map[string]any {
	switch {
	case reflect.PointerTo(of).Implements(reflect.TypeFor[json.Marshaler]()):
		return map[string]any{"x-kubernetes-preserve-unknown-fields": true}
	case of.Name() == "":
		return t.object(of, needs)
	}
	name := typeName(of)
	if _, ok := t.made[name]; !ok {
		t.made[name] = made{}
		m := made{}
		m.schema = t.object(of, &m.needs)
		t.made[name] = m
	}
	return refer(name, needs)
}

func refer(name string, needs *[]string) map[string]any {
	*needs = append(*needs, name)
	return map[string]any{"$ref": prefix3 + name}
}

// typeName names the definition of a type by its package, domain reversed, as upstream does.
func typeName(of reflect.Type) string {
	if name := modelName(of); name != "" {
		return name
	}
	domain, path, _ := strings.Cut(of.PkgPath(), "/")
	parts := strings.Split(domain, ".")
	name := parts[len(parts)-1]
	for i := len(parts) - 2; i >= 0; i-- {
		name += "." + parts[i]
	}
	// Type parameters are written with slashes, brackets and spaces, which no reference may have.
	local := strings.NewReplacer("/", "_", "[", "_", "]", "_", ",", "_", " ", "_", "*", "_").Replace(of.Name())
	return strings.Trim(name+"."+strings.ReplaceAll(path, "/", "."), ".") + "." + local
}

func simple(k reflect.Kind) map[string]any {
	switch k {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int64, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "format": "int64"}
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Uint, reflect.Uint16:
		return map[string]any{"type": "integer", "format": "int32"}
	case reflect.Int8, reflect.Uint8:
		return map[string]any{"type": "integer", "format": "byte"}
	case reflect.Float32:
		return map[string]any{"type": "number", "format": "float"}
	case reflect.Float64:
		return map[string]any{"type": "number", "format": "double"}
	}
	return map[string]any{"type": "string"}
}

func swaggerDoc(of reflect.Type) map[string]string {
	if d, ok := reflect.Zero(of).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return d.SwaggerDoc()
	}
	return nil
}
