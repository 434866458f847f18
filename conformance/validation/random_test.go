package validation_test

import (
	"math/rand/v2"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// filler makes random API values. All can be decoded from JSON, and most are nearly valid, which exercises deep rules.
type filler struct {
	*rand.Rand
	// values are possible strings of an enumerated type or of a field with some name.
	values map[string][]string
	// dense is the probability that an optional field is set.
	dense float64
}

func (f *filler) chance(p float64) bool { return f.Float64() < p }

func pick[T any](f *filler, of ...T) T { return of[f.IntN(len(of))] }

// fill sets v, which is the field of the given name.
func (f *filler) fill(v reflect.Value, name string) {
	if f.special(v, name) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.SetZero()
		if f.chance(f.dense) {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), name)
		}
	case reflect.Struct:
		f.fillStruct(v)
	case reflect.Slice:
		v.SetZero()
		if f.chance(f.dense) {
			n := 1 + f.IntN(3)
			if f.chance(0.03) && many(name) > 0 {
				n = many(name)
			}
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				f.fill(v.Index(i), name)
			}
		}
	case reflect.Map:
		v.SetZero()
		if f.chance(f.dense) {
			v.Set(reflect.MakeMap(v.Type()))
			for range 1 + f.IntN(3) {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				f.fill(key, name+"Key")
				f.fill(value, name+"Value")
				v.SetMapIndex(key, value)
			}
		}
	case reflect.String:
		v.SetString(f.text(v.Type().Name(), name))
	case reflect.Bool:
		v.SetBool(f.chance(0.4))
	case reflect.Int32, reflect.Int64:
		n := f.number(name)
		if v.Kind() == reflect.Int64 && f.chance(0.05) {
			n = 1 << 33
		}
		v.SetInt(n)
	}
}

// oneOf reports whether exactly one field of a struct should be set.
func oneOf(name string) bool {
	switch name {
	case "VolumeSource", "ProbeHandler", "LifecycleHandler", "VolumeProjection", "EnvVarSource", "EnvFromSource", "ContainerState":
		return true
	}
	return false
}

func (f *filler) fillStruct(v reflect.Value) {
	chosen := -1
	if oneOf(v.Type().Name()) && f.chance(0.9) {
		chosen = f.IntN(v.NumField())
	}
	for i := range v.NumField() {
		field := v.Field(i)
		if !field.CanSet() {
			continue
		}
		if chosen >= 0 && field.Kind() == reflect.Pointer {
			field.SetZero()
			if i == chosen {
				field.Set(reflect.New(field.Type().Elem()))
				f.fill(field.Elem(), v.Type().Field(i).Name)
			}
			continue
		}
		f.fill(field, f.key(v.Type(), i))
	}
}

// key is the name under which the values of a struct's i-th field are found.
func (f *filler) key(t reflect.Type, i int) string {
	name := t.Field(i).Name
	if full := t.Name() + "." + name; len(f.values[full]) > 0 {
		return full
	}
	return name
}

// many returns the length at which a list is too long; 0 if it does not matter.
func many(name string) int {
	switch name {
	case "RestartPolicyRules", "Nameservers", "Searches":
		return 35
	case "Values":
		return 256
	}
	return 0
}

func (f *filler) special(v reflect.Value, name string) bool {
	switch v.Interface().(type) {
	case metav1.Time:
		v.SetZero()
	case metav1.FieldsV1:
		v.Set(reflect.ValueOf(metav1.FieldsV1{Raw: []byte("{}")}))
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse(pick(f, "0", "1", "1m", "500m", "2", "1Gi", "2Mi", "4Mi", "3Mi", "1500u", "-1", "1k", "0.5", "1Ei"))))
	case intstr.IntOrString:
		v.Set(reflect.ValueOf(pick(f, intstr.FromInt32(80), intstr.FromInt32(0), intstr.FromString("http"), intstr.FromString("UPPER"), intstr.FromInt32(70000), intstr.FromString(""))))
	default:
		return false
	}
	return true
}

func (f *filler) number(name string) int64 {
	if name == "DefaultMode" || name == "Mode" {
		return pick[int64](f, 0, 0o644, 0o777, 0o1000, -1)
	}
	if strings.HasSuffix(name, "ExpirationSeconds") {
		return pick[int64](f, 599, 600, 3599, 3600, 86401, 91*86400, 91*86400+1)
	}
	return pick[int64](f, 0, 1, 2, 10, 80, 600, 3600, -1, 65536, 101, 1<<20)
}

func (f *filler) text(typeName, name string) string {
	keys := []string{typeName, name}
	if strings.Contains(name, ".") {
		keys = []string{name}
	}
	for _, key := range keys {
		if values := f.values[key]; len(values) > 0 {
			if f.chance(0.05) {
				return pick(f, "Bogus", "", "<&\">")
			}
			return pick(f, values...)
		}
	}
	return pick(f, "", "a", "abc", "b-c", "A_b", "../x", "/abs", "x/y", "a/../b", "example.com/foo", "1.2.3.4", "..data", "a b", " a",
		"runtime/default", "localhost/p", "localhost/../p", strings.Repeat("a", 64), strings.Repeat("b", 254), "net.core.somaxconn", "kernel.sem", "é")
}

// mutate changes a few random places below v.
func (f *filler) mutate(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		switch {
		case v.IsNil() || f.chance(0.1):
			dense := f.dense
			f.dense = 0.5
			f.fill(v, name)
			f.dense = dense
		default:
			f.mutate(v.Elem(), name)
		}
	case reflect.Struct:
		if f.special(v, name) {
			return
		}
		i := f.IntN(v.NumField())
		if v.Field(i).CanSet() {
			f.mutate(v.Field(i), f.key(v.Type(), i))
		}
	case reflect.Slice:
		f.mutateSlice(v, name)
	default:
		f.fill(v, name)
	}
}

func (f *filler) mutateSlice(v reflect.Value, name string) {
	n := v.Len()
	switch {
	case n == 0 || f.chance(0.1):
		item := reflect.New(v.Type().Elem()).Elem()
		f.fill(item, name)
		v.Set(reflect.Append(v, item))
	case f.chance(0.1):
		v.Set(v.Slice(0, n-1))
	default:
		f.mutate(v.Index(f.IntN(n)), name)
	}
}
