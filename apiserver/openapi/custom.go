package openapi

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
)

// This file is about kinds that bring their own schema. Upstream describes them, its custom resources, by other code than
// kinds with a Go type: there are no watch paths, and what consumes, parameters and descriptions say differs in details.

// maxDepth bounds how deep schemas may be nested.
const maxDepth = 1000

const (
	preserving       = "x-kubernetes-preserve-unknown-fields"
	embedded         = "x-kubernetes-embedded-resource"
	selectableFields = "x-kubernetes-selectable-fields"
)

var errTooDeep = errors.New("the schema is nested too deep")

// customRoutes are the operations of a kind with a schema.
func (r *resource) customRoutes() []route {
	collection, item := r.collection(), r.item(r.gvk.Kind)
	all := []route{
		r.customList(collection, ""), r.plain(r.create(collection, r.gvk)),
		r.customRead(item), r.plain(r.replace(item, r.gvk)), r.customPatch(item), r.plain(r.remove(item)),
	}
	if !r.Rules.Deletion.Singly {
		t := r.plain(r.route(http.MethodDelete, "deletecollection", collection, ""))
		t.doc, t.action, t.kind = "delete collection of "+r.gvk.Kind, "deletecollection", r.gvk
		t.params = append(t.params, fieldParams(metav1.ListOptions{})...)
		t.answers = []answer{{http.StatusOK, statusDefinition}}
		all = append(all, t)
	}
	if r.Namespaced {
		all = append(all, r.customList(place{path: r.plural}, "ForAllNamespaces"))
	}
	for name := range r.Sub.Views {
		all = append(all, r.customView(name, r.object)...)
	}
	if r.Sub.Scale != nil {
		all = append(all, r.customView("scale", scaleDefinition)...)
	}
	return all
}

// plain says what an operation other than a patch consumes.
func (r *resource) plain(t route) route {
	t.consumes = []string{mediaJSON, mediaYAML}
	return t
}

func (r *resource) customList(at place, suffix string) route {
	t := r.plain(r.list(at, suffix))
	t.doc, t.produces = "list objects of kind "+r.gvk.Kind, r.media
	return t
}

func (r *resource) customRead(at place) route {
	t := r.plain(r.read(at, r.gvk))
	t.params = append(t.params, fieldParams(metav1.GetOptions{})...)
	return t
}

func (r *resource) customPatch(at place) route {
	t := r.patch(at, r.gvk)
	t.answers = t.answers[:1]
	return t
}

func (r *resource) customView(name, definition string) []route {
	s := *r
	s.sub, s.object = name, definition
	item := s.item(r.gvk.Kind)
	return []route{s.customRead(item), s.plain(s.replace(item, r.gvk)), s.customPatch(item)}
}

// defineCustom returns the names of the definitions of a kind with a schema, and of its lists.
func (t *types) defineCustom(k *registry.Kind, kind schema.GroupVersionKind) (object, list string) {
	listKind := kind.GroupVersion().WithKind(k.ListKind())
	object, list = customName(kind), customName(listKind)
	m := made{schema: map[string]any{}, custom: true}
	maps.Copy(m.schema, k.Schema())
	always := []string{objectMeta} // as upstream has it, also if the schema does not refer to it
	needs, err := t.references(m.schema, always, 0)
	if err != nil {
		needs, m.schema = always, map[string]any{"type": "object"}
	}
	m.needs = needs
	m.schema[kindExtension] = []gvk{{kind.Group, kind.Version, kind.Kind}}
	t.made[object] = m
	t.made[list] = made{schema: listSchema(k, object, listKind, m.schema[selectableFields]), needs: []string{object, listMeta}, custom: true}
	return object, list
}

// customName is the name of a definition by its kind.
func customName(kind schema.GroupVersionKind) string {
	group := strings.Split(kind.Group, ".")
	slices.Reverse(group)
	return strings.TrimPrefix(strings.Join(group, ".")+"."+kind.Version+"."+kind.Kind, ".")
}

// listSchema is the schema of lists of a kind with a schema.
func listSchema(k *registry.Kind, object string, kind schema.GroupVersionKind, selectable any) map[string]any {
	s := map[string]any{
		"type": "object", "description": kind.Kind + " is a list of " + k.Names.Kind, "required": []any{"items"},
		"properties": map[string]any{
			"apiVersion": map[string]any{"type": "string", "description": metav1.TypeMeta{}.SwaggerDoc()["apiVersion"]},
			"kind":       map[string]any{"type": "string", "description": metav1.TypeMeta{}.SwaggerDoc()["kind"]},
			"items": map[string]any{
				"type": "array", "items": map[string]any{"$ref": prefix3 + object},
				"description": "List of " + k.Plural + ". More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
			},
			"metadata": map[string]any{
				"description": metav1.PartialObjectMetadataList{}.SwaggerDoc()["metadata"],
				"allOf":       []any{map[string]any{"$ref": prefix3 + listMeta}},
			},
		},
		kindExtension: []gvk{{kind.Group, kind.Version, kind.Kind}},
	}
	if selectable != nil {
		s[selectableFields] = selectable
	}
	return s
}

// references appends the embedded definitions that a schema refers to. It fails if the schema is nested too deep.
func (t *types) references(v any, found []string, depth int) ([]string, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	var err error
	switch v := v.(type) {
	case map[string]any:
		ref, _ := v["$ref"].(string)
		if name, ok := strings.CutPrefix(ref, prefix3); ok && t.archive.has(name) && !slices.Contains(found, name) {
			found = append(found, name)
		}
		for _, below := range v {
			if found, err = t.references(below, found, depth+1); err != nil {
				return nil, err
			}
		}
	case []any:
		for _, below := range v {
			if found, err = t.references(below, found, depth+1); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// customDefinition returns the JSON of the definition of a kind with a schema. What cannot be written in all encodings is
// published as any object, so that other kinds are not affected.
func (c *content) customDefinition(s map[string]any) ([]byte, error) {
	tables := tables3()
	if c.version == "v2" {
		tables, s = tables2(), customRoot2(s)
	}
	data, err := marshal(s)
	if err == nil {
		_, err = entry(1, "", data, tables.definition)
	}
	if err != nil {
		return marshal(map[string]any{"type": "object", kindExtension: s[kindExtension]})
	}
	return data, nil
}

// customRoot2 is the v2 form of the schema of a whole object.
func customRoot2(s map[string]any) map[string]any {
	if s[preserving] != true {
		return schemaInV2(s)
	}
	out := map[string]any{"type": "object", kindExtension: s[kindExtension]}
	if selectable, ok := s[selectableFields]; ok {
		out[selectableFields] = selectable
	}
	return out
}

// schemaInV2 returns a schema in the form of OpenAPI v2. Like upstream it says less than it could, so that kubectl
// validates nothing by it that it would misunderstand.
func schemaInV2(s map[string]any) map[string]any {
	out := maps.Clone(s)
	if ref, ok := onlyReference(s["allOf"]); ok {
		delete(out, "allOf")
		out["$ref"] = prefix2 + strings.TrimPrefix(ref, prefix3)
		return out
	}
	if ref, ok := s["$ref"].(string); ok {
		out["$ref"] = prefix2 + strings.TrimPrefix(ref, prefix3)
	}
	required := slices.Clone(list(s["required"]))
	for _, name := range []string{"allOf", "oneOf", "anyOf", "not", "nullable", "default", "required"} {
		delete(out, name)
	}
	if s["nullable"] == true {
		delete(out, "type")
	}
	if s["nullable"] == true || s[preserving] == true {
		delete(out, "items")
		delete(out, "properties")
	}
	if out["type"] == "array" && out["items"] == nil || out["type"] == "object" && s[preserving] == true {
		delete(out, "type")
	}
	if properties, ok := out["properties"].(map[string]any); ok {
		required = slices.DeleteFunc(required, func(name any) bool {
			name2, _ := name.(string)
			p, _ := properties[name2].(map[string]any)
			return p["nullable"] == true
		})
		out["properties"] = each2(properties)
	}
	if items, ok := out["items"].(map[string]any); ok {
		out["items"] = schemaInV2(items)
	}
	if additional, ok := s["additionalProperties"].(map[string]any); ok {
		if additional["nullable"] == true {
			required = nil
		}
		out["additionalProperties"] = schemaInV2(additional)
	}
	if s[embedded] == true {
		required = embeddedInV2(s, out, required)
	}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// embeddedInV2 restores what all embedded resources have and returns what they require. Those that preserve unknown fields
// have nothing: of their required fields the two that were added last are taken to be those that all others have.
func embeddedInV2(s, out map[string]any, required []any) []any {
	own := []any{"kind", "apiVersion"}
	if s[preserving] == true {
		if n := len(required) - len(own); n >= 0 && slices.Equal(required[n:], own) {
			return required[:n]
		}
		return required
	}
	before, _ := s["properties"].(map[string]any)
	properties, ok := out["properties"].(map[string]any)
	if !ok {
		properties = map[string]any{}
		out["properties"] = properties
	}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		if p, ok := before[name].(map[string]any); ok {
			properties[name] = schemaInV2(p)
		}
	}
	for _, name := range own {
		if !slices.Contains(required, name) {
			required = append(required, name)
		}
	}
	return required
}

func each2(properties map[string]any) map[string]any {
	out := make(map[string]any, len(properties))
	for name, p := range properties {
		if below, ok := p.(map[string]any); ok {
			p = schemaInV2(below)
		}
		out[name] = p
	}
	return out
}

// onlyReference returns the reference that a list of schemas consists of, which v3 needs if there is more beside it.
func onlyReference(v any) (string, bool) {
	all := list(v)
	if len(all) != 1 {
		return "", false
	}
	only, _ := all[0].(map[string]any)
	ref, ok := only["$ref"].(string)
	return ref, ok && len(only) == 1
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}
