package printer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

var errNoKind = errors.New("missing apiVersion or kind; try GetObjectKind().SetGroupVersionKind() if you know the type")

// sayKind returns an error when obj does not say its kind.
func sayKind(obj runtime.Object) error {
	if _, event := obj.(*metav1.WatchEvent); !event && obj.GetObjectKind().GroupVersionKind().Empty() {
		return errNoKind
	}
	return nil
}

func printJSON(w io.Writer, obj runtime.Object) error {
	if raw, ok := obj.(*runtime.Unknown); ok {
		var indented bytes.Buffer
		if err := json.Indent(&indented, raw.Raw, "", "    "); err != nil {
			return err
		}
		return writeLine(w, indented.Bytes())
	}
	if err := sayKind(obj); err != nil {
		return err
	}
	var data []byte
	var err error
	if _, event := obj.(*metav1.WatchEvent); event {
		data, err = json.Marshal(obj)
	} else {
		data, err = json.MarshalIndent(obj, "", "    ")
	}
	if err != nil {
		return err
	}
	return writeLine(w, data)
}

func writeLine(w io.Writer, data []byte) error {
	_, err := w.Write(append(data, '\n'))
	return err
}

// yamlPrinter puts a separator between the objects that it prints.
type yamlPrinter struct{ again bool }

func (p *yamlPrinter) Print(w io.Writer, obj runtime.Object) error {
	var data []byte
	var err error
	if raw, ok := obj.(*runtime.Unknown); ok {
		data, err = boundedyaml.FromJSON(raw.Raw)
	} else if err = sayKind(obj); err == nil {
		data, err = boundedyaml.Marshal(obj)
	}
	if err != nil {
		return err
	}
	if p.again {
		data = append([]byte("---\n"), data...)
	}
	p.again = true
	_, err = w.Write(data)
	return err
}

func printKYAML(w io.Writer, obj runtime.Object) error {
	if raw, ok := obj.(*runtime.Unknown); ok {
		return boundedyaml.WriteKYAML(w, raw.Raw)
	}
	if err := sayKind(obj); err != nil {
		return err
	}
	return boundedyaml.MarshalKYAML(w, obj)
}

// managed leaves managedFields out unless they are to be shown.
func (o Options) managed(next Printer) Printer {
	if o.ShowManagedFields {
		return next
	}
	return Func(func(w io.Writer, obj runtime.Object) error {
		if obj == nil {
			return next.Print(w, obj)
		}
		if meta.IsListType(obj) {
			obj = obj.DeepCopyObject()
			err := meta.EachListItem(obj, func(item runtime.Object) error {
				if m, err := meta.Accessor(item); err == nil {
					m.SetManagedFields(nil)
				}
				return nil
			})
			if err != nil {
				return err
			}
		} else if _, err := meta.Accessor(obj); err == nil {
			obj = obj.DeepCopyObject()
			if m, err := meta.Accessor(obj); err == nil {
				m.SetManagedFields(nil)
			}
		}
		return next.Print(w, obj)
	})
}

// names writes "kind.group/name", and behind it what was done.
func names(operation string) Printer {
	if operation != "" {
		operation = " " + operation
	}
	var all Func
	all = func(w io.Writer, obj runtime.Object) error {
		if event, ok := obj.(*metav1.WatchEvent); ok {
			obj = event.Object.Object
		}
		if meta.IsListType(obj) {
			if _, ok := obj.(*unstructured.UnstructuredList); !ok { // items of others do not say their kinds
				return fmt.Errorf("list types are not supported by name printing: %T", obj)
			}
			return meta.EachListItem(obj, func(item runtime.Object) error { return all(w, item) })
		}
		kind := obj.GetObjectKind().GroupVersionKind().GroupKind()
		if obj.GetObjectKind().GroupVersionKind().Empty() {
			return errNoKind
		}
		if kind.Kind == "" {
			kind.Kind = "<unknown>"
		}
		name := "<unknown>"
		if m, err := meta.Accessor(obj); err == nil && m.GetName() != "" {
			name = m.GetName()
		}
		resource := strings.ToLower(kind.Kind)
		if kind.Group != "" {
			resource += "." + kind.Group
		}
		_, err := fmt.Fprintf(w, "%s/%s%s\n", resource, name, operation)
		return err
	}
	return all
}

// List makes one list of objects of any kind, as kubectl get does for JSON and YAML.
func List(objects ...runtime.Object) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{
		"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": ""},
	}}
	for _, obj := range objects {
		if err := sayKind(obj); err != nil {
			return nil, err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, unstructured.Unstructured{Object: content})
	}
	return list, nil
}
