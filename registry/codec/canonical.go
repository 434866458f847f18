package codec

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Canonical brings obj to the form that it has after storage: protobuf cannot tell an empty list or map from
// nil, and stores whole seconds only. Objects without a protobuf form stay unchanged. The object must not be
// shared.
func Canonical(obj runtime.Object) {
	if HasProtobuf(obj) {
		canonical(reflect.ValueOf(obj))
	}
}

func canonical(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			canonical(v.Elem())
		}
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*metav1.Time); ok {
			if t.Nanosecond() != 0 {
				t.Time = t.Truncate(1e9)
			}
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				canonical(f)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return // for bytes, protobuf keeps the difference
		}
		if v.Len() == 0 {
			v.SetZero()
		}
		for i := range v.Len() {
			canonical(v.Index(i))
		}
	case reflect.Map:
		if v.Len() == 0 {
			v.SetZero()
		}
	}
}
