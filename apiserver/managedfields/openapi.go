package managedfields

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Bounds for schemas, beyond those that are in use. What is beyond them is not interpreted.
const (
	maxSchemaDepth = 500
	maxSchemaNodes = 1 << 20
)

// errSchema: a schema is malformed, or too large.
var errSchema = errors.New("the schema cannot be interpreted")

// OpenAPI is the schema of the objects of one version of a kind that has no Go type. It is interpreted when it is first
// needed, and only once, so all trackers of a kind should share it. It is safe for concurrent use.
type OpenAPI struct {
	load func() map[string]any
	once sync.Once
	read *declared // nil if nothing is known
}

// NewOpenAPI returns the schema that load returns, which is called at most once: an OpenAPI v3 schema in the form of
// decoded JSON, as a CustomResourceDefinition has it, with its x-kubernetes extensions. It is not kept. Whatever it says
// about them, apiVersion and kind are strings and metadata is that of all objects, at the top and where
// x-kubernetes-embedded-resource is true. For a kind that preserves unknown fields altogether, the extension
// x-kubernetes-preserve-unknown-fields is true at the top. Without a schema, or with one that is malformed, has a $ref, or is
// more than 500 deep, objects merge field by field, and all else moves as a whole.
func NewOpenAPI(load func() map[string]any) *OpenAPI { return &OpenAPI{load: load} }

// declared returns the interpretation of the schema, or nil if there is none.
func (o *OpenAPI) declared(s *Schema) *declared {
	o.once.Do(func() {
		if top := o.load(); top != nil {
			o.read, _ = declare(s, top) // what is malformed says nothing
		}
		o.load = nil
	})
	return o.read
}

// declare interprets the schema of objects.
func declare(common *Schema, top map[string]any) (*declared, error) {
	types, meta := common.metaTypes()
	i := interpretation{meta: meta, scalars: map[smd.Scalar]*smd.Scalar{}}
	root, err := i.ref(top, place{object: true})
	if err != nil {
		return nil, err
	}
	d := &declared{ParseableType: typed.ParseableType{Schema: &smd.Schema{Types: slices.Concat(types, i.types)}, TypeRef: root}}
	d.shape = &shape{declared: d}
	return d, nil
}

// metaTypes returns the types that all schemas have in common, and the one of metadata.
func (s *Schema) metaTypes() ([]smd.TypeDef, smd.TypeRef) {
	s.common.once.Do(func() {
		b := newSchemaBuilder()
		s.common.meta = b.ref(s.of(reflect.TypeFor[metav1.ObjectMeta]()))
		s.common.types = b.types
	})
	return s.common.types, s.common.meta
}

// interpretation makes the library's form of an OpenAPI schema, with the results of upstream's k8s.io/kube-openapi/pkg/schemaconv.
type interpretation struct {
	types   []smd.TypeDef
	meta    smd.TypeRef
	scalars map[smd.Scalar]*smd.Scalar
	nodes   int
}

// place is where a schema stands.
type place struct {
	depth    int
	preserve bool // a schema here or above preserves unknown fields
	object   bool // here are objects with apiVersion, kind and metadata
}

// below is the place of a schema inside the one that stands here.
func (p place) below() place { return place{depth: p.depth + 1, preserve: p.preserve} }

// atom returns what values may be.
func (i *interpretation) atom(s map[string]any, at place) (a smd.Atom, err error) {
	i.nodes++
	if _, ok := s["$ref"]; ok || at.depth >= maxSchemaDepth || i.nodes > maxSchemaNodes {
		return smd.Atom{}, errSchema
	}
	name, err := get[string](s, "type")
	if err != nil {
		return smd.Atom{}, err
	}
	format, err := get[string](s, "format")
	if err != nil {
		return smd.Atom{}, err
	}
	preserve, err := get[bool](s, "x-kubernetes-preserve-unknown-fields")
	if err != nil {
		return smd.Atom{}, err
	}
	embedded, err := get[bool](s, "x-kubernetes-embedded-resource")
	if err != nil {
		return smd.Atom{}, err
	}
	at.preserve, at.object = at.preserve || preserve, at.object || embedded
	switch name {
	case "":
		a.Scalar = i.scalar(smd.Untyped)
		if a.List, err = i.list(s, at, false); err == nil {
			a.Map, err = i.object(s, at)
		}
	case "object":
		a.Map, err = i.object(s, at)
	case "array":
		a.List, err = i.list(s, at, true)
	case "integer", "number":
		a.Scalar = i.scalar(smd.Numeric)
	case "boolean":
		a.Scalar = i.scalar(smd.Boolean)
	case "string":
		if a.Scalar = i.scalar(smd.String); format != "" && format != "byte" {
			a.Scalar = i.scalar(smd.Untyped)
		}
	default:
		err = errSchema
	}
	return a, err
}

// scalar returns a pointer that all scalars of a kind share.
func (i *interpretation) scalar(s smd.Scalar) *smd.Scalar {
	if i.scalars[s] == nil {
		i.scalars[s] = &s
	}
	return i.scalars[s]
}

// ref returns a reference to what values may be. Objects and lists get a name: the library compares types again and again, with
// all that they contain but for what has a name. It does treat a name and what it stands for differently where the values of
// a map may be anything, but those are no objects or lists alone.
func (i *interpretation) ref(s map[string]any, at place) (smd.TypeRef, error) {
	a, err := i.atom(s, at)
	if err != nil || a.Scalar != nil {
		return smd.TypeRef{Inlined: a}, err
	}
	name := strconv.Itoa(len(i.types))
	i.types = append(i.types, smd.TypeDef{Name: name, Atom: a})
	return named(name), nil
}

func (i *interpretation) object(s map[string]any, at place) (*smd.Map, error) {
	properties, err := get[map[string]any](s, "properties")
	if err != nil {
		return nil, err
	}
	m := &smd.Map{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if at.object && ofObjects(name) {
			continue
		}
		property, ok := properties[name].(map[string]any)
		if !ok {
			return nil, errSchema
		}
		ref, err := i.ref(property, at.below())
		if err != nil {
			return nil, err
		}
		m.Fields = append(m.Fields, smd.StructField{Name: name, Type: ref, Default: property["default"]})
	}
	if at.object {
		text := smd.TypeRef{Inlined: smd.Atom{Scalar: i.scalar(smd.String)}}
		m.Fields = append(m.Fields,
			smd.StructField{Name: "apiVersion", Type: text}, smd.StructField{Name: "kind", Type: text},
			smd.StructField{Name: "metadata", Type: i.meta})
	}
	m.Fields = slices.Clip(m.Fields)
	if m.ElementType, err = i.others(s["additionalProperties"], at, len(m.Fields) == 0); err != nil {
		return nil, err
	}
	kind, err := get[string](s, "x-kubernetes-map-type")
	switch {
	case err != nil:
		return nil, err
	case kind == "atomic":
		m.ElementRelationship = smd.Atomic
	case kind == "granular":
		m.ElementRelationship = smd.Separable
	case kind != "":
		return nil, errSchema
	}
	return m, nil
}

func ofObjects(name string) bool { return name == "apiVersion" || name == "kind" || name == "metadata" }

// others returns what the fields of an object are that are no properties; nothing if there must be none.
func (i *interpretation) others(additional any, at place, free bool) (smd.TypeRef, error) {
	switch additional := additional.(type) {
	case nil:
		if free || at.preserve {
			return named(freeName), nil
		}
		return smd.TypeRef{}, nil
	case bool:
		if additional {
			return named(freeName), nil
		}
		return smd.TypeRef{}, nil
	case map[string]any:
		return i.ref(additional, at.below())
	}
	return smd.TypeRef{}, errSchema
}

func (i *interpretation) list(s map[string]any, at place, needed bool) (*smd.List, error) {
	items, err := get[map[string]any](s, "items")
	if err != nil || items == nil && needed {
		return nil, errSchema
	}
	l := &smd.List{ElementType: named(wholeName), ElementRelationship: smd.Atomic}
	if items != nil {
		if l.ElementType, err = i.ref(items, at.below()); err != nil {
			return nil, err
		}
	}
	kind, err := get[string](s, "x-kubernetes-list-type")
	if err != nil {
		return nil, err
	}
	switch kind {
	case "", "atomic":
		return l, nil
	case "set":
		l.ElementRelationship = smd.Associative
		return l, nil
	case "map":
		l.ElementRelationship = smd.Associative
		l.Keys, err = keysOf(s["x-kubernetes-list-map-keys"])
		return l, err
	}
	return nil, errSchema
}

// keysOf returns a list of strings, which must not be empty.
func keysOf(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, errSchema
	}
	out := make([]string, len(list))
	for n := range list {
		if out[n], ok = list[n].(string); !ok {
			return nil, errSchema
		}
	}
	return out, nil
}

// get returns a value of a schema, zero if there is none.
func get[T any](s map[string]any, key string) (value T, err error) {
	if v := s[key]; v != nil {
		var ok bool
		if value, ok = v.(T); !ok {
			return value, errSchema
		}
	}
	return value, nil
}
