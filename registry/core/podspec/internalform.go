package podspec

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// asInternal returns the JSON that the API server shows of a core/v1 value in its messages.
// It validates types without JSON tags of their own, so fields go by their Go names and none
// is left out.
func asInternal(value any) json.RawMessage {
	var b bytes.Buffer
	if err := writeInternal(&b, reflect.ValueOf(value)); err != nil {
		return nil
	}
	return b.Bytes()
}

func writeInternal(b *bytes.Buffer, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return writeInternal(b, v.Elem())
		}
	case reflect.Slice:
		if !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8 {
			return writeInternalList(b, v)
		}
	case reflect.Struct:
		if strings.HasSuffix(v.Type().PkgPath(), "k8s.io/api/core/v1") {
			b.WriteByte('{')
			if err := writeInternalFields(b, v); err != nil {
				return err
			}
			b.WriteByte('}')
			return nil
		}
	}
	text, err := json.Marshal(v.Interface())
	b.Write(text)
	return err
}

func writeInternalList(b *bytes.Buffer, v reflect.Value) error {
	b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := writeInternal(b, v.Index(i)); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

// writeInternalFields writes the fields of a struct, those of embedded structs among them.
func writeInternalFields(b *bytes.Buffer, v reflect.Value) error {
	for i := range v.NumField() {
		if i > 0 {
			b.WriteByte(',')
		}
		f := v.Type().Field(i)
		if f.Anonymous {
			if err := writeInternalFields(b, v.Field(i)); err != nil {
				return err
			}
			continue
		}
		b.WriteString(`"` + f.Name + `":`)
		if err := writeInternal(b, v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}
