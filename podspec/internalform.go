package podspec

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// Shown returns the JSON form of a value, such as a template, in the API server's messages, or nil if it has none. Kinds
// with templates use it for values of their own groups, too.
func Shown(value any) json.RawMessage { return asInternal(value) }

// asInternal returns the JSON form of a value in the API server's messages. The API server validates internal types
// without JSON tags: fields have their Go names and none is omitted.
func asInternal(value any) json.RawMessage {
	var b bytes.Buffer
	if err := writeInternal(&b, reflect.ValueOf(value)); err != nil {
		return nil
	}
	return b.Bytes()
}

func writeInternal(b *bytes.Buffer, v reflect.Value) error {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return writeInternal(b, v.Elem())
	case v.Kind() == reflect.Slice && !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8:
		items := make([][]byte, v.Len())
		for i := range items {
			var item bytes.Buffer
			if err := writeInternal(&item, v.Index(i)); err != nil {
				return err
			}
			items[i] = item.Bytes()
		}
		b.WriteString("[" + string(bytes.Join(items, []byte(","))) + "]")
		return nil
	case isAPIStruct(v.Type()):
		fields, err := internalFields(v)
		b.WriteString("{" + string(bytes.Join(fields, []byte(","))) + "}")
		return err
	}
	text, err := json.Marshal(v.Interface())
	b.Write(text)
	return err
}

func isAPIStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && strings.HasPrefix(t.PkgPath(), "k8s.io/api/")
}

// internalFields returns the fields of a struct as JSON, including those of embedded structs. Embedded structs of other
// packages have tags.
func internalFields(v reflect.Value) ([][]byte, error) {
	var fields [][]byte
	for i := range v.NumField() {
		f, value := v.Type().Field(i), v.Field(i)
		if f.Anonymous && isAPIStruct(f.Type) {
			inner, err := internalFields(value)
			if err != nil {
				return nil, err
			}
			fields = append(fields, inner...)
			continue
		}
		var text bytes.Buffer
		if err := writeInternal(&text, value); err != nil {
			return nil, err
		}
		switch {
		case !f.Anonymous:
			fields = append(fields, []byte(`"`+f.Name+`":`+text.String()))
		case text.Len() > len("{}"):
			fields = append(fields, text.Bytes()[1:text.Len()-1])
		}
	}
	return fields, nil
}
