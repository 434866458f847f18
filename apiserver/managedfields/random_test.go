package managedfields_test

import (
	"math/rand/v2"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// chance makes random objects of few values, so that they often agree in parts.
type chance struct{ *rand.Rand }

func (c chance) one(in int) bool { return c.IntN(in) == 0 }

var texts = []string{"a", "b", "web", "c", "with space", "a b", "a!b", "", "x<y>&", "é", `quo"te`, `back\slash`, "10", "9", "true", "tab\t", "a/b.c"}

func (c chance) text() string {
	if c.one(3) {
		return texts[c.IntN(len(texts))]
	}
	return texts[c.IntN(4)]
}

// fill sets v to a random value.
func (c chance) fill(v reflect.Value, depth int) {
	if c.fillSpecial(v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 9 || c.one(3) {
			v.SetZero()
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		c.fill(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && !c.one(3) {
				c.fill(f, depth+1)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(c.text()))
			return
		}
		v.SetZero()
		if !c.one(4) {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for n := c.IntN(4); n > 0 && depth < 9; n-- {
			item := reflect.New(v.Type().Elem()).Elem()
			c.fill(item, depth+1)
			v.Set(reflect.Append(v, item))
		}
	case reflect.Map:
		v.SetZero()
		if !c.one(4) {
			v.Set(reflect.MakeMap(v.Type()))
			for n := c.IntN(3); n > 0 && depth < 9; n-- {
				item := reflect.New(v.Type().Elem()).Elem()
				c.fill(item, depth+1)
				v.SetMapIndex(reflect.ValueOf(c.text()).Convert(v.Type().Key()), item)
			}
		}
	default:
		c.fillScalar(v)
	}
}

func (c chance) fillScalar(v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(c.text())
	case v.Kind() == reflect.Bool:
		v.SetBool(c.one(2))
	case v.CanInt():
		v.SetInt([]int64{0, 1, 80, 9, 10, -1, 127}[c.IntN(7)])
	case v.CanUint():
		v.SetUint(uint64(c.IntN(3)))
	case v.CanFloat():
		v.SetFloat([]float64{0, 1, 0.5}[c.IntN(3)])
	}
}

// fillSpecial fills types that write themselves, and leaves alone what the server fills.
func (c chance) fillSpecial(v reflect.Value) bool {
	at := time.Unix(1e9+int64(c.IntN(3)), int64(c.IntN(2))*1500).UTC()
	switch x := v.Addr().Interface().(type) {
	case *metav1.TypeMeta, *[]metav1.ManagedFieldsEntry:
	case *metav1.Time:
		if *x = metav1.NewTime(at); c.one(4) {
			*x = metav1.Time{}
		}
	case *metav1.MicroTime:
		if *x = metav1.NewMicroTime(at); c.one(4) {
			*x = metav1.MicroTime{}
		}
	case *resource.Quantity:
		*x = resource.MustParse([]string{"1", "1000m", "1Ki", "1024", "0.5", "0", "123456789012345678901234567890"}[c.IntN(7)])
		if c.one(2) {
			_ = x.String() // which it remembers
		}
	case *metav1.Duration:
		x.Duration = time.Duration(c.IntN(3)) * time.Second
	case *intstr.IntOrString:
		if *x = intstr.FromInt32(int32(c.IntN(3))); c.one(2) {
			*x = intstr.FromString("25%")
		}
	case *runtime.RawExtension:
		documents := []string{"", `{}`, `{"a":1}`, `{"a":{"b":[1,2]},"c":"x"}`, `{"a":{"b":[2,1]},"c":null}`, `{"a":"text"}`, `{"a":1.5,"c":{}}`}
		*x = runtime.RawExtension{}
		if d := documents[c.IntN(len(documents))]; d != "" {
			x.Raw = []byte(d)
		}
	default:
		return false
	}
	return true
}

// mutate changes a few places of v.
func (c chance) mutate(v reflect.Value, depth int) {
	if depth > 3 && c.one(6) {
		c.fill(v, depth)
		return
	}
	if c.fillSpecial(v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || c.one(4) {
			c.fill(v, depth)
			return
		}
		c.mutate(v.Elem(), depth+1)
	case reflect.Struct:
		for n := 1 + c.IntN(3); n > 0 && v.NumField() > 0; n-- {
			if f := v.Field(c.IntN(v.NumField())); f.CanSet() {
				c.mutate(f, depth+1)
			}
		}
	case reflect.Slice:
		c.mutateSlice(v, depth)
	case reflect.Map:
		c.mutateMap(v, depth)
	default:
		c.fillScalar(v)
	}
}

func (c chance) mutateSlice(v reflect.Value, depth int) {
	if v.Len() == 0 || v.Type().Elem().Kind() == reflect.Uint8 || c.one(6) {
		c.fill(v, depth)
		return
	}
	i := c.IntN(v.Len())
	switch c.IntN(5) {
	case 0: // remove
		v.Set(reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+1, v.Len())))
	case 1: // insert
		item := reflect.New(v.Type().Elem()).Elem()
		c.fill(item, depth+1)
		v.Set(reflect.Append(v, item))
	case 2: // duplicate
		v.Set(reflect.Append(v, v.Index(i)))
	case 3: // reorder
		j := c.IntN(v.Len())
		x, y := reflect.ValueOf(v.Index(i).Interface()), reflect.ValueOf(v.Index(j).Interface())
		v.Index(i).Set(y)
		v.Index(j).Set(x)
	default:
		c.mutate(v.Index(i), depth+1)
	}
}

func (c chance) mutateMap(v reflect.Value, depth int) {
	if v.Len() == 0 || c.one(6) {
		c.fill(v, depth)
		return
	}
	item := reflect.New(v.Type().Elem()).Elem()
	c.fill(item, depth+1)
	key := v.MapKeys()[0]
	switch c.IntN(3) {
	case 0:
		v.SetMapIndex(key, reflect.Value{})
	case 1:
		v.SetMapIndex(key, item)
	default:
		v.SetMapIndex(reflect.ValueOf(c.text()).Convert(v.Type().Key()), item)
	}
}
