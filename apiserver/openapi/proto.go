package openapi

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// The protobuf form of a document is that of gnostic's schemas
// (https://github.com/google/gnostic-models, openapiv2 and openapiv3), which clients decode. It is
// written from the JSON, an object at a time, by a table of which member becomes which field.

// message says how an object becomes a protobuf message.
type message struct {
	fields     map[string]field // by name of the member
	extensions int              // the field of members that begin with x-
	others     field            // the field of all other members: a list of names with values
	// choose, if set, makes the message one of several alternatives: the field of the one that an
	// object is, and what that is.
	choose func(object map[string]any) (int, *message)
}

// field is how a member is written.
type field struct {
	number int
	write  func(b []byte, number int, v any) ([]byte, error)
}

const (
	varint   = 0
	fixed64  = 1
	prefixed = 2 // by its length
)

func tag(b []byte, number, wire int) []byte {
	return binary.AppendUvarint(b, uint64(number)<<3|uint64(wire)) //nolint:gosec // small and positive
}

func delimited[T string | []byte](b []byte, number int, data T) []byte {
	b = binary.AppendUvarint(tag(b, number, prefixed), uint64(len(data)))
	return append(b, data...)
}

// encode writes an object as the message.
func (m *message) encode(v any) ([]byte, error) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%T instead of an object", v)
	}
	if m.choose != nil {
		number, chosen := m.choose(object)
		inner, err := chosen.encode(object)
		return delimited(nil, number, inner), err
	}
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(object)) {
		f, ok := m.fields[name]
		value := object[name]
		switch {
		case ok:
		case strings.HasPrefix(name, "x-") && m.extensions != 0:
			f = field{m.extensions, named(name, anyValue)}
		case m.others.write != nil:
			f = field{m.others.number, named(name, m.others.write)}
		default:
			return nil, fmt.Errorf("member %q has no field", name)
		}
		var err error
		if b, err = f.write(b, f.number, value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return b, nil
}

// named writes a value with its name.
func named(name string, write func(b []byte, number int, v any) ([]byte, error)) func([]byte, int, any) ([]byte, error) {
	return func(b []byte, number int, v any) ([]byte, error) {
		inner, err := write(delimited(nil, 1, name), 2, v)
		return delimited(b, number, inner), err
	}
}

func text(b []byte, number int, v any) ([]byte, error) {
	s, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("%T instead of a string", v)
	}
	return delimited(b, number, s), nil
}

func texts(b []byte, number int, v any) ([]byte, error) { return each(text)(b, number, v) }

func flag(b []byte, number int, v any) ([]byte, error) {
	on, ok := v.(bool)
	if !ok {
		return nil, fmt.Errorf("%T instead of a boolean", v)
	}
	if !on {
		return append(tag(b, number, varint), 0), nil
	}
	return append(tag(b, number, varint), 1), nil
}

func double(b []byte, number int, v any) ([]byte, error) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, fmt.Errorf("%T instead of a number", v)
	}
	f, err := n.Float64()
	return binary.LittleEndian.AppendUint64(tag(b, number, fixed64), math.Float64bits(f)), err
}

func integer(b []byte, number int, v any) ([]byte, error) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, fmt.Errorf("%T instead of a number", v)
	}
	i, err := n.Int64()
	return binary.AppendUvarint(tag(b, number, varint), uint64(i)), err //nolint:gosec // two's complement is the encoding
}

// anyValue writes what has no fixed form as YAML, which JSON is.
func anyValue(b []byte, number int, v any) ([]byte, error) {
	data, err := marshal(v)
	return delimited(b, number, delimited(nil, 2, string(data)+"\n")), err
}

// inner writes an object as a message.
func inner(m *message) func([]byte, int, any) ([]byte, error) {
	return func(b []byte, number int, v any) ([]byte, error) {
		data, err := m.encode(v)
		return delimited(b, number, data), err
	}
}

// each writes the elements of a list as repeated fields; what is no list is the only element.
func each(write func([]byte, int, any) ([]byte, error)) func([]byte, int, any) ([]byte, error) {
	return func(b []byte, number int, v any) ([]byte, error) {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		var err error
		for _, element := range list {
			if b, err = write(b, number, element); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
}

// byName is a message of names with values, all of one kind.
func byName(write func([]byte, int, any) ([]byte, error)) *message {
	return &message{others: field{1, write}}
}

// decode reads JSON with its numbers as they are written.
func decode(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// entry encodes one named value, such as a path or a definition.
func entry(number int, name string, data []byte, m *message) ([]byte, error) {
	v, err := decode(data)
	if err != nil {
		return nil, err
	}
	b, err := named(name, inner(m))(nil, number, v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// writeProtobuf writes a document of v3 that is not about custom kinds alone.
func (c *content) writeProtobuf(w io.Writer) error {
	paths, definitions, err := c.protobuf(tables3(), c.names(), nil)
	if err != nil {
		return err
	}
	b, err := c.document3(paths, definitions)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// protobuf returns the messages of all paths and of the named definitions.
func (c *content) protobuf(t tables, names []string, shared parameters2) (paths, definitions []byte, err error) {
	for _, path := range slices.Sorted(maps.Keys(c.paths)) {
		data, err := c.item(path, shared)
		if err != nil {
			return nil, nil, err
		}
		b, err := entry(t.path, path, data, t.item)
		if err != nil {
			return nil, nil, err
		}
		paths = append(paths, b...)
	}
	for _, name := range names {
		data, err := c.definition(name)
		if err != nil {
			return nil, nil, err
		}
		b, err := entry(1, name, data, t.definition)
		if err != nil {
			return nil, nil, err
		}
		definitions = append(definitions, b...)
	}
	return paths, definitions, nil
}

// tables are the messages of one version of OpenAPI.
type tables struct {
	path       int // the field of a path in the message of all
	item       *message
	definition *message
}
