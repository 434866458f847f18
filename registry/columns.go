package registry

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Columns describe how the objects of a kind are shown in a table, which clients such as kubectl get request in
// the Accept header so that they need not know the kind. The zero value shows names and creation times.
type Columns[T Object] struct {
	// Definitions name and describe the columns. Columns of priority 0 are always shown, others when the user
	// asks for more (kubectl get -o wide).
	Definitions []metav1.TableColumnDefinition
	// Cells returns an object's values, one for each definition: a string, int64, float64 or bool, or nil for
	// none. It is called at every read: it must not change or keep the object, and it must take the time from
	// now.
	Cells func(obj T, now time.Time) []any
	// Among, if set, returns what makes the cells of an object in a list, where they depend on the list's other objects; all
	// are those of one page. It must not change them.
	Among func(all []T) func(obj T, now time.Time) []any
	// Conditions mark a row, as upstream does for pods that have ended; optional.
	Conditions func(obj T) []metav1.TableRowCondition
}

// erase leaves the zero value as it is.
func (c Columns[T]) erase() Columns[Object] {
	e := Columns[Object]{Definitions: c.Definitions}
	if c.Cells != nil {
		e.Cells = func(obj Object, now time.Time) []any { return c.Cells(obj.(T), now) }
	}
	if c.Among != nil {
		e.Among = func(all []Object) func(Object, time.Time) []any {
			typed := make([]T, len(all))
			for i, obj := range all {
				typed[i] = obj.(T)
			}
			cells := c.Among(typed)
			return func(obj Object, now time.Time) []any { return cells(obj.(T), now) }
		}
	}
	if c.Conditions != nil {
		e.Conditions = func(obj Object) []metav1.TableRowCondition { return c.Conditions(obj.(T)) }
	}
	return e
}

// defaultColumns returns upstream's columns for kinds without a printer.
func defaultColumns() Columns[Object] {
	return Columns[Object]{
		Definitions: []metav1.TableColumnDefinition{
			NameColumn(),
			{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
		},
		Cells: func(obj Object, _ time.Time) []any {
			created := obj.GetCreationTimestamp()
			return []any{obj.GetName(), created.UTC().Format(time.RFC3339)}
		},
	}
}

// NameColumn returns the first column of nearly every table; its cells are object names.
func NameColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{
		Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"],
	}
}

// TextColumn returns a column of strings that is always shown.
func TextColumn(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

// WideColumn returns a column of strings that is shown when the user asks for more.
func WideColumn(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description, Priority: 1}
}

// AgeColumn returns the column whose cells Age makes.
func AgeColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{
		Name: "Age", Type: "string", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
	}
}

// Age returns how long ago since was, rounded and abbreviated as kubectl does, such as "5m" or "3d4h".
func Age(since metav1.Time, now time.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(since.Time))
}
