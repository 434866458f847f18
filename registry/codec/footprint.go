package codec

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/internal/boundedquantity"
)

// Footprints computes how much memory objects take, in bytes, before they are decoded. A list element of two or
// three bytes of text may take a kilobyte of memory, so the size of a text bounds nothing. The zero value is
// ready to use and safe for concurrent use; it caches what it learns about types.
//
// It counts the elements of lists and maps, the targets of pointers, and the text itself for all strings;
// temporary allocations of the decoder come on top. Quantities count by their exponents, since 1e-99999999 is a number of a
// hundred million digits to those who parse or compare it, each of which costs more time than memory. It may count too
// little for a malformed text, which decoding refuses.
type Footprints struct{ shapes sync.Map } // *shape by reflect.Type

// shape describes a type as far as it matters for the footprint.
type shape struct {
	kind   reflect.Kind // Struct, Map, Slice, Interface, or Invalid for a type without elements
	size   int          // of one value itself
	elem   *shape       // of a list or a map, pointers dereferenced
	each   int          // size of an element, or of the pointer's target
	names  map[string]*shape
	fields map[int32]*shape // by protobuf number
	// quantity is set for the type of quantities, which have no elements.
	quantity bool
}

// The approximate overhead of maps and of values of any type.
const (
	entrySize = 48
	anySize   = 32
	// digitSize is what a digit of a quantity counts: time, in effect. A number of 50,000 digits, the most that the limit for
	// bodies of 3 MiB leaves, takes a third of a millisecond to parse or compare; one of ten million takes seconds.
	digitSize = 1024
	// maxDepth is the depth up to which JSON is counted: decoders refuse deeper nesting.
	maxDepth = 10000
)

// Of returns the footprint of the object into which data is decoded, as by Decode. It stops counting beyond
// limit.
func (f *Footprints) Of(data []byte, into runtime.Object, limit int) int {
	s := f.of(reflect.TypeOf(into).Elem())
	r := &reader{data: data, total: len(data), limit: limit}
	if IsProtobuf(data) {
		if _, raw, err := Open(data); err == nil {
			r.message(s, raw)
		}
		return r.total
	}
	if _, own := into.(json.Unmarshaler); own {
		s = &shape{kind: reflect.Interface}
	}
	r.value(s, 0)
	return r.total
}

// of returns the shape of a type.
func (f *Footprints) of(t reflect.Type) *shape {
	if s, ok := f.shapes.Load(t); ok {
		return s.(*shape)
	}
	made := map[reflect.Type]*shape{}
	s := shapeOf(t, made)
	for t, s := range made { // complete now: types may contain themselves
		f.shapes.Store(t, s)
	}
	return s
}

func shapeOf(t reflect.Type, made map[reflect.Type]*shape) *shape {
	if s := made[t]; s != nil {
		return s
	}
	s := &shape{size: int(t.Size())}
	made[t] = s
	if ownForm(t) {
		s.quantity = t == reflect.TypeFor[resource.Quantity]()
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		s.kind, s.names, s.fields = reflect.Struct, map[string]*shape{}, map[int32]*shape{}
		s.add(t, made)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return s // its text is counted
		}
		s.kind, s.elem = reflect.Slice, shapeOf(t.Elem(), made)
		s.each = s.elem.size
	case reflect.Map:
		s.kind, s.elem = reflect.Map, shapeOf(t.Elem(), made)
		s.each = entrySize + int(t.Key().Size()) + s.elem.size
	case reflect.Pointer:
		s.kind, s.elem = reflect.Pointer, shapeOf(t.Elem(), made)
		s.each = s.elem.size
	case reflect.Interface:
		s.kind = reflect.Interface
	}
	return s
}

// ownForm reports whether a type unmarshals itself: times, quantities, raw JSON.
func ownForm(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// add adds the fields of a struct. In JSON, those of embedded structs are its own unless they have a name.
func (s *shape) add(t reflect.Type, made map[reflect.Type]*shape) {
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() && !field.Anonymous {
			continue
		}
		of := shapeOf(field.Type, made)
		if parts := strings.SplitN(field.Tag.Get("protobuf"), ",", 3); len(parts) == 3 {
			if number, err := strconv.ParseInt(parts[1], 10, 32); err == nil {
				s.fields[int32(number)] = of
			}
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous && of.kind == reflect.Struct:
			for inner, shape := range of.names {
				if s.names[inner] == nil {
					s.names[inner] = shape
				}
			}
		case name == "":
			s.names[field.Name] = of
		default:
			s.names[name] = of
		}
	}
}

// reader counts the elements of a text.
type reader struct {
	data         []byte
	at           int
	total, limit int
}

// ended reports whether there is nothing left to count, or the limit is exceeded.
func (r *reader) ended() bool { return r.at >= len(r.data) || r.total > r.limit }

// value counts a JSON value of a shape; a nil shape is a value that the decoder drops.
func (r *reader) value(s *shape, depth int) {
	if r.space(); r.ended() {
		return
	}
	if depth > maxDepth {
		return // the callers find no end here, and stop
	}
	c := r.data[r.at]
	for s != nil && s.kind == reflect.Pointer {
		if c != 'n' { // null
			r.total += s.each
		}
		s = s.elem
	}
	if s != nil && s.kind == reflect.Interface {
		r.total += anySize
	}
	switch c {
	case '{':
		r.object(s, depth)
	case '[':
		r.array(s, depth)
	case '"':
		if text := r.text(); s != nil && s.quantity {
			r.quantity(text)
		}
	default:
		begin := r.at
		for !r.ended() && !strings.ContainsRune(",]} \t\r\n", rune(r.data[r.at])) {
			r.at++
		}
		if s != nil && s.quantity {
			r.quantity(r.data[begin:r.at])
		}
	}
}

// quantity counts the digits that a quantity has because of its exponent.
func (r *reader) quantity(text []byte) {
	plain := string(text)
	if strings.Contains(plain, `\`) {
		plain = unescaped(text)
	}
	r.total += digitSize * min(boundedquantity.Exponent(plain), math.MaxInt32)
}

func (r *reader) object(s *shape, depth int) {
	r.at++
	for r.space(); !r.ended() && r.data[r.at] == '"'; r.space() {
		key := r.text()
		var of *shape
		switch {
		case s == nil:
		case s.kind == reflect.Struct:
			of = s.names[string(key)]
			if strings.Contains(string(key), `\`) {
				of = s.names[unescaped(key)]
			}
		case s.kind == reflect.Map:
			r.total += s.each
			of = s.elem
		case s.kind == reflect.Interface:
			r.total += entrySize
			of = s
		}
		if r.space(); r.ended() || r.data[r.at] != ':' {
			break
		}
		r.at++
		r.value(of, depth+1)
		if r.space(); r.ended() || r.data[r.at] != ',' {
			break
		}
		r.at++
	}
	r.end('}')
}

func (r *reader) array(s *shape, depth int) {
	of := s
	if s != nil && s.kind != reflect.Interface {
		if of = nil; s.kind == reflect.Slice {
			of = s.elem
		}
	}
	r.at++
	for r.space(); !r.ended() && r.data[r.at] != ']'; r.space() {
		if s != nil && s.kind == reflect.Slice {
			r.total += s.each
		}
		r.value(of, depth+1)
		if r.space(); r.ended() || r.data[r.at] != ',' {
			break
		}
		r.at++
	}
	r.end(']')
}

// end skips the closing delimiter of a value, or abandons a malformed text.
func (r *reader) end(with byte) {
	if r.space(); r.at < len(r.data) && r.data[r.at] == with {
		r.at++
		return
	}
	r.at = len(r.data)
}

func (r *reader) space() {
	for r.at < len(r.data) && (r.data[r.at] == ' ' || r.data[r.at] == '\t' || r.data[r.at] == '\r' || r.data[r.at] == '\n') {
		r.at++
	}
}

// text skips a string and returns its content.
func (r *reader) text() []byte {
	r.at++
	begin := r.at
	for ; r.at < len(r.data) && r.data[r.at] != '"'; r.at++ {
		if r.data[r.at] == '\\' {
			r.at++
		}
	}
	end := min(r.at, len(r.data))
	r.at = min(r.at+1, len(r.data))
	return r.data[begin:end]
}

func unescaped(key []byte) string {
	var text string
	_ = json.Unmarshal([]byte(`"`+string(key)+`"`), &text) // a malformed one is no field
	return text
}
