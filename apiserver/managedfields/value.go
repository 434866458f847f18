package managedfields

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"
)

// side is what one of two compared objects has at a place: nothing, a null (an invalid Value), or
// a value that is no pointer.
type side struct {
	reflect.Value
	present bool
}

func (s side) null() bool { return s.present && !s.IsValid() }

// at reads the field from a record, which may be missing or null.
func (f *field) at(s side) side {
	if !s.IsValid() {
		return side{}
	}
	v := s.Value
	for _, i := range f.index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return side{} // of an embedded struct that is not there
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	if f.omitEmpty && empty(v) || f.omitZero != nil && f.omitZero(v) {
		return side{}
	}
	return there(v)
}

// there is a place that has a value, if only a null.
func there(v reflect.Value) side {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return side{present: true}
		}
		v = v.Elem()
	}
	if k := v.Kind(); (k == reflect.Map || k == reflect.Slice) && v.IsNil() {
		return side{present: true}
	}
	return side{v, true}
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// zeroFunc tells whether a field of type t is left out by "omitzero".
func zeroFunc(t reflect.Type) func(reflect.Value) bool {
	type zeroer interface{ IsZero() bool }
	wanted := reflect.TypeFor[zeroer]()
	switch {
	case t.Kind() == reflect.Pointer && t.Implements(wanted):
		return func(v reflect.Value) bool { return v.IsNil() || v.Interface().(zeroer).IsZero() }
	case t.Implements(wanted):
		return func(v reflect.Value) bool { return v.Interface().(zeroer).IsZero() }
	case reflect.PointerTo(t).Implements(wanted):
		return func(v reflect.Value) bool { return addressed(v).Interface().(zeroer).IsZero() }
	}
	return reflect.Value.IsZero
}

// addressed returns a pointer to v, or to a copy.
func addressed(v reflect.Value) reflect.Value {
	if !v.CanAddr() {
		c := reflect.New(v.Type()).Elem()
		c.Set(v)
		v = c
	}
	return v.Addr()
}

// opaqueEquals compares values of types that write themselves as a scalar, by what they write;
// nil for types that are not known.
func opaqueEquals(t reflect.Type) func(a, b reflect.Value) bool {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return func(a, b reflect.Value) bool {
			x, y := addressed(a).Interface().(*metav1.Time), addressed(b).Interface().(*metav1.Time)
			return x.IsZero() == y.IsZero() && x.Unix() == y.Unix()
		}
	case reflect.TypeFor[metav1.MicroTime]():
		return func(a, b reflect.Value) bool {
			x, y := addressed(a).Interface().(*metav1.MicroTime), addressed(b).Interface().(*metav1.MicroTime)
			return x.IsZero() == y.IsZero() && x.Truncate(time.Microsecond).Equal(y.Truncate(time.Microsecond))
		}
	case reflect.TypeFor[resource.Quantity]():
		return func(a, b reflect.Value) bool {
			x, y := addressed(a).Interface().(*resource.Quantity), addressed(b).Interface().(*resource.Quantity)
			return *x == *y || x.Format == y.Format && x.Cmp(*y) == 0 || sameJSON(x, y)
		}
	case reflect.TypeFor[metav1.Duration](), reflect.TypeFor[intstr.IntOrString]():
		return func(a, b reflect.Value) bool { return sameJSON(a.Interface(), b.Interface()) }
	}
	return nil
}

func sameJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// equal compares two values of one shape as JSON would show them.
func (s *shape) equal(a, b reflect.Value) bool {
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	switch s.form {
	case record:
		fields := s.fields()
		for i := range fields {
			f := &fields[i]
			x, y := f.at(side{a, true}), f.at(side{b, true})
			if x.present != y.present || x.present && !f.shape.equal(x.Value, y.Value) {
				return false
			}
		}
		return true
	case mapping:
		return s.equalMaps(a, b)
	case list:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !s.elem.equal(there(a.Index(i)).Value, there(b.Index(i)).Value) {
				return false
			}
		}
		return true
	case opaque:
		return s.equals(a, b)
	case document:
		if x, ok := a.Interface().(metav1.FieldsV1); ok && x.Equal(b.Interface().(metav1.FieldsV1)) {
			return true
		}
		return equalAny(plain(a), plain(b))
	case anything:
		return equalAny(plain(a), plain(b))
	}
	return equalScalars(a, b)
}

func (s *shape) equalMaps(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for entries := a.MapRange(); entries.Next(); {
		other := b.MapIndex(entries.Key())
		if !other.IsValid() || !s.elem.equal(there(entries.Value()).Value, there(other).Value) {
			return false
		}
	}
	return true
}

func equalScalars(a, b reflect.Value) bool {
	switch {
	case a.Kind() == reflect.String:
		return a.String() == b.String()
	case a.Kind() == reflect.Slice:
		return string(a.Bytes()) == string(b.Bytes())
	case a.Kind() == reflect.Bool:
		return a.Bool() == b.Bool()
	case a.CanInt():
		return a.Int() == b.Int()
	case a.CanUint():
		return a.Uint() == b.Uint()
	}
	return a.Float() == b.Float()
}

// scalarOf returns a scalar as it stands in a key; its kind is 0 for what is no scalar.
func (s *shape) scalarOf(v side) scalar {
	switch {
	case !v.IsValid():
		return scalar{kind: null}
	case s.form == text && v.Kind() == reflect.Slice:
		return scalar{kind: 's', text: base64.StdEncoding.EncodeToString(v.Bytes())}
	case s.form == text:
		return scalar{kind: 's', text: v.String()}
	case s.form == boolean:
		return scalarFrom(v.Bool())
	case s.form == number && v.CanInt():
		return scalar{kind: 'n', number: v.Int()}
	case s.form == number && v.CanUint():
		return scalar{kind: 'n', number: int64(v.Uint())}
	case s.form == number:
		return scalarFrom(v.Float())
	case s.form == opaque, s.form == anything:
		return scalarFrom(plain(v.Value))
	}
	return scalar{}
}

// plain returns what JSON makes of a value.
func plain(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch u := v.Interface().(type) {
	case map[string]any, []any, string, bool, int64, float64:
		return u
	}
	data, err := json.Marshal(addressed(v).Interface())
	if err != nil {
		return nil
	}
	var u any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &u); err != nil {
		return nil
	}
	return u
}

func equalAny(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k := range x {
			if other, ok := y[k]; !ok || !equalAny(x[k], other) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !equalAny(x[i], y[i]) {
				return false
			}
		}
		return true
	case int64:
		if y, ok := b.(float64); ok {
			return float64(x) == y
		}
	case float64:
		if y, ok := b.(int64); ok {
			return x == float64(y)
		}
	}
	return a == b
}
