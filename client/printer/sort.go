package printer

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"sort"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"

	"github.com/keelson-dev/keelson/internal/boundedquantity"
)

// sorted sorts rows and items by the values at a path.
func sorted(next Printer, path string) Printer {
	return Func(func(w io.Writer, obj runtime.Object) error {
		table, err := asTable(obj)
		switch {
		case err != nil:
			return err
		case table != nil:
			var objects []runtime.Object
			for _, row := range table.Rows {
				objects = append(objects, row.Object.Object)
			}
			rows := table.Rows
			if err := sortBy(path, objects, func(i, j int) { rows[i], rows[j] = rows[j], rows[i] }); err != nil {
				return err
			}
			return next.Print(w, table)
		case meta.IsListType(obj):
			obj = obj.DeepCopyObject()
			items, err := meta.ExtractList(obj)
			if err != nil {
				return err
			}
			if err := sortBy(path, items, func(int, int) {}); err != nil {
				return err
			}
			if err := meta.SetList(obj, items); err != nil {
				return err
			}
		}
		return next.Print(w, obj)
	})
}

// byValue sorts objects by their first values; those without one come first.
type byValue struct {
	objects []runtime.Object
	values  [][]reflect.Value
	swap    func(i, j int)
	failed  error // the first thing that could not be compared
}

func (b *byValue) Len() int { return len(b.objects) }

func (b *byValue) Swap(i, j int) {
	b.objects[i], b.objects[j] = b.objects[j], b.objects[i]
	b.values[i], b.values[j] = b.values[j], b.values[i]
	b.swap(i, j)
}

func (b *byValue) Less(i, j int) bool {
	switch {
	case len(b.values[i]) == 0:
		return true
	case len(b.values[j]) == 0:
		return false
	}
	is, err := less(b.values[i][0], b.values[j][0])
	if err != nil && b.failed == nil {
		b.failed = err
	}
	return is
}

// sortBy sorts objects in place and swaps what goes with them.
func sortBy(path string, objects []runtime.Object, swap func(i, j int)) error {
	if len(objects) == 0 {
		return nil
	}
	full, err := relaxed(path)
	if err != nil {
		return err
	}
	parsed := jsonpath.New("sorting").AllowMissingKeys(true)
	if err := parsed.Parse(full); err != nil {
		return fmt.Errorf("sorting error: %w", err)
	}
	b := &byValue{objects: objects, swap: swap}
	found := false
	for _, obj := range objects {
		if obj == nil {
			return errors.New("sorting error: the server sent a table without objects; ask with includeObject=Object")
		}
		var data any
		if u, ok := obj.(runtime.Unstructured); ok {
			data = u.UnstructuredContent()
		} else {
			data = reflect.ValueOf(obj).Elem().Interface()
		}
		results, err := parsed.FindResults(data)
		if err != nil {
			return fmt.Errorf("sorting error: %w", err)
		}
		var values []reflect.Value
		if len(results) > 0 {
			values = results[0]
		}
		found = found || len(values) > 0
		b.values = append(b.values, values)
	}
	if !found {
		return fmt.Errorf("couldn't find any field with path %q in the list of objects", full)
	}
	sort.Sort(b)
	return b.failed
}

// less compares values of one kind.
func less(a, b reflect.Value) (bool, error) {
	if a.Kind() == reflect.Interface || a.Kind() == reflect.Pointer {
		switch {
		case b.Kind() != a.Kind():
			return false, fmt.Errorf("cannot sort a %v and a %v", a.Kind(), b.Kind())
		case b.IsNil():
			return false, nil
		case a.IsNil():
			return true, nil
		}
		if a, b := a.Elem(), b.Elem(); a.Kind() == reflect.String && b.Kind() == reflect.String {
			return lessText(a.String(), b.String()), nil
		}
		return less(a.Elem(), b.Elem())
	}
	if a.Type() != b.Type() {
		return false, fmt.Errorf("cannot sort a %v and a %v", a.Type(), b.Type())
	}
	switch {
	case a.CanInt():
		return a.Int() < b.Int(), nil
	case a.CanUint():
		return a.Uint() < b.Uint(), nil
	case a.CanFloat():
		return a.Float() < b.Float(), nil
	case a.Kind() == reflect.String:
		return a.String() < b.String(), nil
	}
	switch x := a.Interface().(type) {
	case metav1.Time:
		y := b.Interface().(metav1.Time)
		return x.Before(&y), nil
	case resource.Quantity:
		return x.Cmp(b.Interface().(resource.Quantity)) < 0, nil
	}
	return false, fmt.Errorf("unsortable type: %v", a.Type())
}

// lessText compares quantities in JSON by what they mean.
func lessText(a, b string) bool {
	x, err := boundedquantity.Parse(a)
	if err != nil {
		return a < b
	}
	y, err := boundedquantity.Parse(b)
	if err != nil {
		return a < b
	}
	return x.Cmp(y) < 0
}
