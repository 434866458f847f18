package managedfields

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// form is what a value of a type can be.
type form uint8

const (
	text     form = iota // a string
	number               //
	boolean              //
	opaque               // any scalar: the type writes itself
	record               // a struct
	mapping              // a map
	list                 // a list
	document             // a JSON object of which nothing is known (runtime.RawExtension)
	anything             // nothing is known
)

// shape is how values of a Go type merge.
type shape struct {
	form form
	// atomic: it moves as a whole. Lists that are not are associative: by keys, or else as a set.
	atomic bool
	typ    reflect.Type // pointers removed
	elem   *shape       // of a mapping or list
	equals func(a, b reflect.Value) bool
	keys   []string // of an associative list: the names of its items' keys, sorted

	schema   *Schema
	known    atomic.Pointer[[]field]
	keyed    atomic.Pointer[[]*field]
	declared *declared // instead of all else
}

// field is a field of a record.
type field struct {
	name      string
	key       string
	index     []int
	omitEmpty bool
	omitZero  func(reflect.Value) bool
	standard  any // its default, if it is the key of a list's item
	shape     *shape
}

// Schema knows how objects merge, by their Go types. It reads a type when it first sees a value of it, and keeps the result.
// The zero value is ready for use. It is safe for concurrent use.
type Schema struct {
	mu      sync.Mutex
	markers map[string]string
	shapes  map[reflect.Type]*shape
	parsers map[reflect.Type]typed.ParseableType

	// common is what the schemas of kinds without Go types have in common.
	common struct {
		once  sync.Once
		types []smd.TypeDef
		meta  smd.TypeRef
	}
}

// of returns the shape of a kind's objects.
func (s *Schema) of(t reflect.Type) *shape {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.markers == nil {
		s.markers, s.shapes = readMarkers(markersText+definitionMarkers), map[reflect.Type]*shape{}
	}
	return s.shape(t, marks{})
}

// shape returns the shape of a type, in a place with marks of its own. The caller holds the lock.
func (s *Schema) shape(t reflect.Type, m marks) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	same, ok := s.shapes[t]
	if !ok {
		same = s.unmarked(t)
		s.shapes[t] = same
	}
	atomic := same.atomic
	switch {
	case m.granular, m.associative && same.form == list:
		atomic = false
	case m.atomic:
		atomic = true
	}
	if atomic == same.atomic {
		return same
	}
	return &shape{form: same.form, atomic: atomic, typ: t, elem: same.elem, equals: same.equals, keys: m.keys, schema: s}
}

func (s *Schema) unmarked(t reflect.Type) *shape {
	if leaf := leafShape(t); leaf != nil {
		return leaf
	}
	switch {
	case t.Kind() == reflect.Struct:
		// The mark of the type itself is the first of its block.
		return &shape{form: record, typ: t, schema: s, atomic: strings.HasPrefix(s.markers[typeKey(t)], "* atomic")}
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		return &shape{form: mapping, typ: t, elem: s.shape(t.Elem(), marks{})}
	case t.Kind() == reflect.Slice:
		return &shape{form: list, typ: t, atomic: true, elem: s.shape(t.Elem(), marks{})}
	}
	return &shape{form: anything, typ: t}
}

// fields returns the fields of a record, in the order of their names.
func (s *shape) fields() []field {
	if known := s.known.Load(); known != nil {
		return *known
	}
	if s.form != record {
		return nil
	}
	s.schema.mu.Lock()
	defer s.schema.mu.Unlock()
	fields := s.schema.fields(nil, s.typ, parseMarkers(s.schema.markers[typeKey(s.typ)]), nil)
	slices.SortFunc(fields, func(a, b field) int { return cmp.Compare(a.name, b.name) })
	s.known.CompareAndSwap(nil, &fields)
	return *s.known.Load()
}

// keyFields are the fields of an associative list's items that tell them apart; none for a set.
func (s *shape) keyFields() []*field {
	if keyed := s.keyed.Load(); keyed != nil {
		return *keyed
	}
	var keyed []*field
	fields := s.elem.fields()
	for _, name := range s.keys {
		if i := slices.IndexFunc(fields, func(f field) bool { return f.name == name }); i >= 0 {
			keyed = append(keyed, &fields[i])
		}
	}
	s.keyed.Store(&keyed)
	return keyed
}

// fields appends the fields of t, those of embedded structs as its own.
func (s *Schema) fields(to []field, t reflect.Type, m markers, at []int) []field {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" || f.PkgPath != "" && !f.Anonymous {
			continue
		}
		index := f.Index
		if len(at) > 0 {
			index = append(slices.Clone(at), i)
		}
		if f.Anonymous && name == "" {
			e := f.Type
			if e.Kind() == reflect.Pointer {
				e = e.Elem()
			}
			if e.Kind() == reflect.Struct {
				to = s.fields(to, e, m, index)
			}
			continue
		}
		name = cmp.Or(name, f.Name)
		member := field{
			name: name, key: fieldKey(name), index: index, omitEmpty: option(options, "omitempty"),
			standard: m[name].standard, shape: s.shape(f.Type, m[name]),
		}
		if option(options, "omitzero") {
			member.omitZero = zeroFunc(f.Type)
		}
		to = append(to, member)
	}
	return to
}

// option tells whether a list of options in a tag has one.
func option(options, name string) bool {
	for options != "" {
		var o string
		if o, options, _ = strings.Cut(options, ","); o == name {
			return true
		}
	}
	return false
}

// leafShape returns the shape of types without parts to merge, or nil.
func leafShape(t reflect.Type) *shape {
	switch t {
	case reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1]():
		return &shape{form: document, typ: t}
	}
	if writesItself(t) {
		if equals := opaqueEquals(t); equals != nil {
			return &shape{form: opaque, typ: t, equals: equals}
		}
		return &shape{form: anything, typ: t}
	}
	switch t.Kind() {
	case reflect.String:
		return &shape{form: text, typ: t}
	case reflect.Bool:
		return &shape{form: boolean, typ: t}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Float32, reflect.Float64:
		return &shape{form: number, typ: t}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &shape{form: text, typ: t}
		}
	}
	return nil
}

func writesItself(t reflect.Type) bool {
	marshaler := reflect.TypeFor[json.Marshaler]()
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}
