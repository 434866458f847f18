package registry

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Columns are how the objects of a kind look in a table, which a client such as kubectl get asks
// for in its Accept header, so that it need not know the kind. The zero value shows names and
// times of creation.
type Columns[T Object] struct {
	// Definitions name and describe the columns. One of priority 0 is always shown, others when
	// the user asks for more (kubectl get -o wide).
	Definitions []metav1.TableColumnDefinition
	// Cells returns an object's values, one for each definition: of type string, int64, float64
	// or bool, or nil for none.
	// It is called at every read, so it must neither change nor keep the object, and it takes
	// the time from now.
	Cells func(obj T, now time.Time) []any
	// Conditions mark a row, as upstream does that of a pod which has ended; optional.
	Conditions func(obj T) []metav1.TableRowCondition
}

// erase leaves the zero value as it is.
func (c Columns[T]) erase() Columns[Object] {
	e := Columns[Object]{Definitions: c.Definitions}
	if c.Cells != nil {
		e.Cells = func(obj Object, now time.Time) []any { return c.Cells(obj.(T), now) }
	}
	if c.Conditions != nil {
		e.Conditions = func(obj Object) []metav1.TableRowCondition { return c.Conditions(obj.(T)) }
	}
	return e
}

// defaultColumns are upstream's for kinds that it has no printer for.
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

// NameColumn is the column that nearly every table begins with; its cells are names of objects.
func NameColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{
		Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"],
	}
}

// TextColumn is a column of strings that is always shown.
func TextColumn(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

// WideColumn is a column of strings that is shown when the user asks for more.
func WideColumn(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description, Priority: 1}
}

// AgeColumn is the column of Age's cells.
func AgeColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{
		Name: "Age", Type: "string", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
	}
}

// Age is how long ago something was, roughly and in few letters, such as "5m" or "3d4h".
func Age(since metav1.Time, now time.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(since.Time))
}
