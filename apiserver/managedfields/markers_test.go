package managedfields

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

var update = flag.Bool("update", false, "write markers.txt anew")

// TestMarkers holds the table of markers to the merge schema that client-go carries.
func TestMarkers(t *testing.T) {
	table := &markerTable{types: map[reflect.Type]map[string]string{}, seen: map[string]bool{}}
	for _, k := range kindsWithSchema(t) {
		table.schema = k.schema
		table.read(t, k.typ, k.ref)
	}
	got := table.String()
	if *update {
		if err := os.WriteFile("markers.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != markersText {
		t.Errorf("markers.txt is not what client-go's schema says; run go generate ./apiserver/managedfields")
	}
}

// schemaKind is a kind of which client-go carries the merge schema.
type schemaKind struct {
	gvk    schema.GroupVersionKind
	typ    reflect.Type
	schema *smd.Schema
	ref    smd.TypeRef
}

func kindsWithSchema(t *testing.T) []schemaKind {
	t.Helper()
	converter := applyconfigurations.NewTypeConverter(scheme.Scheme)
	var kinds []schemaKind
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		obj, ok := reflect.New(typ).Interface().(runtime.Object)
		if !ok || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		typed, err := converter.ObjectToTyped(obj)
		if err != nil {
			continue // not a kind that can be applied
		}
		kinds = append(kinds, schemaKind{gvk, typ, typed.Schema(), typed.TypeRef()})
	}
	if len(kinds) < 100 {
		t.Fatalf("client-go has the schema of %d kinds only", len(kinds))
	}
	slices.SortFunc(kinds, func(a, b schemaKind) int { return cmp.Compare(a.gvk.String(), b.gvk.String()) })
	return kinds
}

// markerTable collects the markers of Go types.
type markerTable struct {
	schema *smd.Schema
	types  map[reflect.Type]map[string]string // type → field + " " + what → line
	seen   map[string]bool
}

func (m *markerTable) String() string {
	var b strings.Builder
	b.WriteString("# Written by go generate from the merge schema in k8s.io/client-go/applyconfigurations.\n")
	for _, typ := range slices.SortedFunc(maps.Keys(m.types), func(a, b reflect.Type) int { return cmp.Compare(typeKey(a), typeKey(b)) }) {
		fmt.Fprintf(&b, "\n%s\n", typeKey(typ))
		for _, line := range slices.Sorted(maps.Keys(m.types[typ])) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func (m *markerTable) mark(typ reflect.Type, line string) {
	if m.types[typ] == nil {
		m.types[typ] = map[string]string{}
	}
	m.types[typ][line] = line
}

func (m *markerTable) resolve(t *testing.T, ref smd.TypeRef) smd.Atom {
	t.Helper()
	atom, ok := m.schema.Resolve(ref)
	if !ok {
		t.Fatalf("unresolved %+v", ref)
	}
	return atom
}

// read walks a Go type and its schema side by side.
func (m *markerTable) read(t *testing.T, typ reflect.Type, ref smd.TypeRef) {
	t.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if leafShape(typ) != nil {
		return
	}
	atom := m.resolve(t, ref)
	switch typ.Kind() {
	case reflect.Struct:
		if key := typeKey(typ); m.seen[key] {
			return
		} else {
			m.seen[key] = true
		}
		if ref.NamedType != nil {
			if own := m.resolve(t, smd.TypeRef{NamedType: ref.NamedType}); own.Map.ElementRelationship == smd.Atomic {
				m.mark(typ, "* atomic")
			}
		}
		m.readFields(t, typ, typ, atom.Map)
	case reflect.Map:
		m.read(t, typ.Elem(), atom.Map.ElementType)
	case reflect.Slice:
		m.read(t, typ.Elem(), atom.List.ElementType)
	}
}

// readFields notes what is marked at the fields of typ, which is outer or embedded in it.
func (m *markerTable) readFields(t *testing.T, outer, typ reflect.Type, own *smd.Map) {
	t.Helper()
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			e := f.Type
			if e.Kind() == reflect.Pointer {
				e = e.Elem()
			}
			m.readFields(t, outer, e, own)
			continue
		}
		if name == "-" {
			continue
		}
		declared, ok := own.FindField(name)
		if !ok {
			t.Logf("%s.%s is not in the schema", typeKey(outer), name)
			continue
		}
		m.readField(t, outer, f.Type, declared)
		m.read(t, f.Type, declared.Type)
	}
}

func (m *markerTable) readField(t *testing.T, outer, typ reflect.Type, f smd.StructField) {
	t.Helper()
	atom := m.resolve(t, f.Type)
	switch {
	case leafShape(deref(typ)) != nil:
		if atom.Map != nil && atom.Map.ElementRelationship == smd.Atomic {
			m.mark(outer, f.Name+" atomic")
		}
	case atom.List != nil && atom.List.ElementRelationship == smd.Associative && len(atom.List.Keys) == 0:
		m.mark(outer, f.Name+" set")
	case atom.List != nil && atom.List.ElementRelationship == smd.Associative:
		m.mark(outer, f.Name+" map "+strings.Join(atom.List.Keys, " "))
		m.readDefaults(t, deref(deref(typ).Elem()), atom.List)
	case atom.Map != nil && atom.Map.ElementRelationship == smd.Atomic && f.Type.ElementRelationship == nil && f.Type.NamedType != nil:
	case atom.Map != nil && atom.Map.ElementRelationship == smd.Atomic:
		m.mark(outer, f.Name+" atomic")
	case atom.Map != nil && f.Type.ElementRelationship != nil:
		m.mark(outer, f.Name+" granular")
	}
}

// readDefaults notes the defaults of the fields that are keys of a list's items.
func (m *markerTable) readDefaults(t *testing.T, item reflect.Type, l *smd.List) {
	t.Helper()
	for _, key := range l.Keys {
		if f, ok := m.resolve(t, l.ElementType).Map.FindField(key); ok && f.Default != nil {
			data, err := json.Marshal(f.Default)
			if err != nil {
				t.Fatal(err)
			}
			m.mark(item, key+" default "+string(data))
		}
	}
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// TestSchema holds what is made of Go types and markers to the schema that client-go carries.
func TestSchema(t *testing.T) {
	var s Schema
	for _, k := range kindsWithSchema(t) {
		p := s.of(k.typ).parser()
		c := schemaComparison{want: k.schema, got: p.Schema, seen: map[string]bool{}}
		c.compare(k.gvk.Kind, k.ref, p.TypeRef)
		for _, d := range c.diffs {
			t.Errorf("%s: %s", k.gvk, d)
		}
	}
}

type schemaComparison struct {
	want, got *smd.Schema
	seen      map[string]bool
	diffs     []string
}

func (c *schemaComparison) note(path, format string, args ...any) {
	c.diffs = append(c.diffs, path+": "+fmt.Sprintf(format, args...))
}

func (c *schemaComparison) compare(path string, want, got smd.TypeRef) {
	if got.NamedType != nil {
		key := *got.NamedType
		if want.ElementRelationship != nil {
			key += string(*want.ElementRelationship)
		}
		if c.seen[key] {
			return
		}
		c.seen[key] = true
	}
	x, ok1 := c.want.Resolve(want)
	y, ok2 := c.got.Resolve(got)
	switch {
	case !ok1 || !ok2:
		c.note(path, "resolves: %v, %v", ok1, ok2)
	case (x.Scalar == nil) != (y.Scalar == nil) || x.Scalar != nil && *x.Scalar != *y.Scalar:
		c.note(path, "scalar %v, want %v", y.Scalar, x.Scalar)
	case (x.List == nil) != (y.List == nil), (x.Map == nil) != (y.Map == nil):
		c.note(path, "list %v, want %v; map %v, want %v", y.List != nil, x.List != nil, y.Map != nil, x.Map != nil)
	}
	if x.List != nil && y.List != nil {
		keys := slices.Sorted(slices.Values(x.List.Keys))
		if x.List.ElementRelationship != y.List.ElementRelationship || !slices.Equal(keys, y.List.Keys) {
			c.note(path, "%s %v, want %s %v", y.List.ElementRelationship, y.List.Keys, x.List.ElementRelationship, keys)
		}
		c.compare(path+"[]", x.List.ElementType, y.List.ElementType)
	}
	if x.Map != nil && y.Map != nil {
		c.compareMaps(path, x.Map, y.Map)
	}
}

func (c *schemaComparison) compareMaps(path string, x, y *smd.Map) {
	if (x.ElementRelationship == smd.Atomic) != (y.ElementRelationship == smd.Atomic) {
		c.note(path, "%q, want %q", y.ElementRelationship, x.ElementRelationship)
	}
	none := smd.TypeRef{}
	if (x.ElementType == none) != (y.ElementType == none) || len(x.Fields) != len(y.Fields) {
		c.note(path, "%d fields, want %d", len(y.Fields), len(x.Fields))
		return
	}
	if x.ElementType != none {
		c.compare(path+"{}", x.ElementType, y.ElementType)
	}
	for _, f := range x.Fields {
		g, ok := y.FindField(f.Name)
		if !ok {
			c.note(path, "has no field %s", f.Name)
			continue
		}
		if g.Default != nil && fmt.Sprint(f.Default) != fmt.Sprint(g.Default) {
			c.note(path+"."+f.Name, "default %v, want %v", g.Default, f.Default)
		}
		c.compare(path+"."+f.Name, f.Type, g.Type)
	}
}
