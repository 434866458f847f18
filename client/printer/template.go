package printer

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"text/template"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
)

var errNoTemplate = errors.New("template format specified but no template given")

func (o Options) jsonPath(kind, text string) (Printer, error) {
	if text == "" {
		return nil, errNoTemplate
	}
	if kind == jsonPathFile {
		content, err := o.file(text)
		if err != nil {
			return nil, fmt.Errorf("error reading --template %s, %w", text, err)
		}
		text = content
	}
	path := jsonpath.New("out")
	if err := path.Parse(text); err != nil {
		return nil, fmt.Errorf("error parsing jsonpath %s, %w", text, err)
	}
	path.AllowMissingKeys(!o.StrictKeys)
	if kind == jsonPathJSON {
		path.EnableJSONOutput(true)
	}
	return Func(func(w io.Writer, obj runtime.Object) error {
		data, err := plain(obj)
		if err != nil {
			return err
		}
		if err := path.Execute(w, data); err != nil {
			return fmt.Errorf("error executing jsonpath %q: %w", text, err)
		}
		return nil
	}), nil
}

// plain is an object as maps and slices. Numbers of typed objects are floats, as in kubectl.
func plain(obj runtime.Object) (any, error) {
	if u, ok := obj.(runtime.Unstructured); ok {
		return u.UnstructuredContent(), nil
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var out any
	err = json.Unmarshal(data, &out)
	return out, err
}

func (o Options) goTemplate(kind, text string) (Printer, error) {
	if text == "" {
		return nil, errNoTemplate
	}
	if kind == goTemplateFile || kind == goTemplateFileOld {
		content, err := o.file(text)
		if err != nil {
			return nil, fmt.Errorf("error reading --template %s, %w", text, err)
		}
		text = content
	}
	parsed, err := template.New("output").Funcs(template.FuncMap{"exists": exists, "base64decode": decodeBase64}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("error parsing template %s, %w", text, err)
	}
	if o.StrictKeys {
		parsed.Option("missingkey=error")
	}
	return Func(func(w io.Writer, obj runtime.Object) error {
		data, err := json.Marshal(obj)
		if err != nil {
			return err
		}
		var out map[string]any
		if err := utiljson.Unmarshal(data, &out); err != nil {
			return err
		}
		if err := execute(parsed, w, out); err != nil {
			return fmt.Errorf("error executing template %q: %w", text, err)
		}
		return nil
	}), nil
}

// execute turns a panic of the template into an error.
func execute(t *template.Template, w io.Writer, data any) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("caught panic: %+v", x)
		}
	}()
	return t.Execute(w, data)
}

func decodeBase64(text string) (string, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("base64 decode failed: %w", err)
	}
	return string(data), nil
}

// exists is the function of templates that says whether index with the same arguments finds
// something.
func exists(item any, indices ...any) bool {
	v := reflect.ValueOf(item)
	for _, i := range indices {
		var ok bool
		if v, ok = at(v, reflect.ValueOf(i)); !ok {
			return false
		}
	}
	_, ok := indirect(v)
	return ok
}

// at is an element of a map, slice or string.
func at(v, index reflect.Value) (reflect.Value, bool) {
	v, ok := indirect(v)
	if !ok {
		return v, false
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Array, reflect.String:
		var n int64
		switch {
		case index.CanInt():
			n = index.Int()
		case index.CanUint():
			n = int64(index.Uint())
		default:
			return v, false
		}
		if n < 0 || n >= int64(v.Len()) {
			return v, false
		}
		return v.Index(int(n)), true
	case reflect.Map:
		if !index.IsValid() {
			index = reflect.Zero(v.Type().Key())
		}
		if !index.Type().AssignableTo(v.Type().Key()) {
			return v, false
		}
		if found := v.MapIndex(index); found.IsValid() {
			return found, true
		}
		return reflect.Zero(v.Type().Elem()), true
	}
	return v, false
}

// indirect follows pointers and interfaces; false when the end is nil.
func indirect(v reflect.Value) (reflect.Value, bool) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return v, false
		}
		v = v.Elem()
	}
	return v, v.IsValid()
}
