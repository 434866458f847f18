package managedfields

import (
	"reflect"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// The names of the two types that nothing is known of; the library knows the second one by it.
const (
	wholeName = "__untyped_atomic_"
	freeName  = "__untyped_deduced_"
)

// parser returns the shape in the form in which the library wants it for an apply.
func (s *shape) parser() typed.ParseableType {
	b := newSchemaBuilder()
	root := b.ref(s)
	p := typed.Parser{Schema: smd.Schema{Types: b.types}}
	if root.NamedType == nil {
		return p.Type(freeName)
	}
	return p.Type(*root.NamedType)
}

type schemaBuilder struct {
	types []smd.TypeDef
	names map[reflect.Type]bool
}

// newSchemaBuilder returns a builder that has the types of which nothing is known.
func newSchemaBuilder() schemaBuilder {
	return schemaBuilder{
		types: []smd.TypeDef{untyped(wholeName, smd.Atomic, wholeName), untyped(freeName, smd.Separable, wholeName)},
		names: map[reflect.Type]bool{},
	}
}

// untyped is the definition of a type that may be a scalar, a list or a map.
func untyped(name string, relation smd.ElementRelationship, item string) smd.TypeDef {
	return smd.TypeDef{Name: name, Atom: untypedAtom(relation, name, item)}
}

func untypedAtom(relation smd.ElementRelationship, entry, item string) smd.Atom {
	scalar := smd.Untyped
	return smd.Atom{
		Scalar: &scalar,
		List:   &smd.List{ElementType: named(item), ElementRelationship: smd.Atomic},
		Map:    &smd.Map{ElementType: named(entry), ElementRelationship: relation},
	}
}

func named(name string) smd.TypeRef { return smd.TypeRef{NamedType: &name} }

// ref returns a reference to the shape and adds what it refers to.
func (b *schemaBuilder) ref(s *shape) smd.TypeRef {
	switch s.form {
	case text:
		return scalarRef(smd.String)
	case number:
		return scalarRef(smd.Numeric)
	case boolean:
		return scalarRef(smd.Boolean)
	case opaque:
		return scalarRef(smd.Untyped)
	case record:
		return b.record(s)
	case mapping:
		m := &smd.Map{ElementType: b.ref(s.elem)}
		if s.atomic {
			m.ElementRelationship = smd.Atomic
		}
		return smd.TypeRef{Inlined: smd.Atom{Map: m}}
	case list:
		return smd.TypeRef{Inlined: smd.Atom{List: b.list(s)}}
	case document:
		if s.atomic {
			return named(wholeName)
		}
		return smd.TypeRef{Inlined: smd.Atom{Map: &smd.Map{ElementType: freeRef()}}}
	}
	return named(freeName)
}

// freeRef is what the fields of an object are of which nothing is known.
func freeRef() smd.TypeRef {
	return smd.TypeRef{Inlined: untypedAtom(smd.Separable, freeName, wholeName)}
}

func scalarRef(s smd.Scalar) smd.TypeRef { return smd.TypeRef{Inlined: smd.Atom{Scalar: &s}} }

func (b *schemaBuilder) list(s *shape) *smd.List {
	l := &smd.List{ElementType: b.ref(s.elem), ElementRelationship: smd.Atomic}
	if !s.atomic {
		l.ElementRelationship = smd.Associative
		for _, f := range s.keyFields() {
			l.Keys = append(l.Keys, f.name)
		}
	}
	return l
}

func (b *schemaBuilder) record(s *shape) smd.TypeRef {
	ref := named(typeKey(s.typ))
	if s.atomic {
		whole := smd.Atomic
		ref.ElementRelationship = &whole
	}
	if b.names[s.typ] {
		return ref
	}
	b.names[s.typ] = true
	fields := s.fields()
	m := &smd.Map{Fields: make([]smd.StructField, len(fields))}
	for i := range fields {
		f := &fields[i]
		m.Fields[i] = smd.StructField{Name: f.name, Type: b.ref(f.shape), Default: f.standard}
	}
	if len(m.Fields) == 0 {
		m.Fields, m.ElementType = nil, freeRef()
	}
	b.types = append(b.types, smd.TypeDef{Name: *ref.NamedType, Atom: smd.Atom{Map: m}})
	return ref
}
