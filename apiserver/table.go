package apiserver

import (
	"encoding/json"
	"strconv"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// table encodes tables of one resource's objects. Rows are not kept, since they have ages.
type table struct {
	endpoint *endpoint
	form     format
	columns  registry.Columns[registry.Object]
	include  metav1.IncludeObjectPolicy
	// prefix and partial are the type prefixes of the objects in rows: of whole ones, and of their metadata.
	prefix, partial string
}

// table returns what encodes the tables that the client wants.
func (c *call) table(f format) (*table, error) {
	t := &table{
		endpoint: c.endpoint, form: f, columns: c.resource.Columns,
		include: metav1.IncludeObjectPolicy(c.r.URL.Query().Get("includeObject")),
		prefix:  typePrefix(c.endpoint.gvk()), partial: typePrefix(f.as.GroupVersion().WithKind(kindMetadata)),
	}
	switch t.include {
	case metav1.IncludeMetadata, metav1.IncludeNone, metav1.IncludeObject, "":
		return t, nil
	}
	return nil, apierrors.NewBadRequest("Unable to convert to Table as requested: " + field.Invalid(
		field.NewPath("includeObject"), t.include, "must be 'Metadata', 'Object', 'None', or empty").Error())
}

// list is a table of a list.
func (t *table) list(m metav1.ListMeta, items []*registry.Item) (*textList, error) {
	now := time.Now()
	if t.columns.Among != nil {
		all := make([]registry.Object, len(items))
		for n, i := range items {
			var err error
			if _, all[n], err = t.shown(i); err != nil {
				return nil, err
			}
		}
		t.columns.Cells = t.columns.Among(all)
	}
	return &textList{
		head: t.head(m, true), empty: "[]",
		append: func(to []byte, i *registry.Item) ([]byte, error) { return t.row(to, i, now) },
	}, nil
}

// single is a table of one object. The definitions of its columns can be left out if the client has them already.
func (t *table) single(i *registry.Item, definitions bool) ([]byte, error) {
	data := t.head(metav1.ListMeta{ResourceVersion: i.Object.GetResourceVersion()}, definitions)
	data, err := t.row(append(data, '['), i, time.Now())
	if err != nil {
		return nil, err
	}
	return t.form.mediaType.from(append(data, "]}\n"...))
}

// head is a table up to its rows.
func (t *table) head(m metav1.ListMeta, definitions bool) []byte {
	data := append([]byte(typePrefix(t.form.as)), `,"metadata":`...)
	data = append(data, marshalListMeta(m)...)
	data = append(data, `,"columnDefinitions":`...)
	if definitions {
		all, _ := json.Marshal(t.columns.Definitions) //nolint:errchkjson // strings and numbers marshal
		data = append(data, all...)
	} else {
		data = append(data, "null"...)
	}
	return append(data, `,"rows":`...)
}

// shown returns an object in the stored version, and in that whose cells a row shows.
func (t *table) shown(i *registry.Item) (stored, shown registry.Object, err error) {
	stored = t.endpoint.resource.Decorated(i)
	if t.endpoint.resource.ShowsVersion() {
		shown, err = t.endpoint.view(i)
		return stored, shown, err
	}
	return stored, stored, nil
}

// row appends an object's row.
func (t *table) row(to []byte, i *registry.Item, now time.Time) ([]byte, error) {
	stored, shown, err := t.shown(i)
	if err != nil {
		return to, err
	}
	to = append(to, `{"cells":[`...)
	for n, cell := range t.columns.Cells(shown, now) {
		if n > 0 {
			to = append(to, ',')
		}
		if to, err = appendCell(to, cell); err != nil {
			return to, err
		}
	}
	to = append(to, ']')
	if t.columns.Conditions != nil {
		if conditions := t.columns.Conditions(stored); len(conditions) > 0 {
			data, err := json.Marshal(conditions)
			if err != nil {
				return to, err
			}
			to = append(append(to, `,"conditions":`...), data...)
		}
	}
	to, err = t.object(append(to, `,"object":`...), i)
	return append(to, '}'), err
}

// object appends the object of a row, as much of it as the client wants.
func (t *table) object(to []byte, i *registry.Item) ([]byte, error) {
	switch {
	case t.include == metav1.IncludeObject:
		body, err := t.endpoint.itemJSON(i)
		if err != nil {
			return to, err
		}
		return appendTyped(to, t.prefix, body), nil
	case t.include == metav1.IncludeNone && i.Object.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true":
		return append(to, "null"...), nil
	}
	body, err := t.endpoint.itemMetadata(mediaJSON, i)
	if err != nil {
		return to, err
	}
	return appendTyped(to, t.partial, body), nil
}

// appendCell appends a cell as JSON; most are short and plain.
func appendCell(to []byte, cell any) ([]byte, error) {
	switch v := cell.(type) {
	case string:
		if text, ok := appendText(to, v); ok {
			return text, nil
		}
	case int64:
		return strconv.AppendInt(to, v, 10), nil
	case bool:
		return strconv.AppendBool(to, v), nil
	}
	data, err := json.Marshal(cell)
	return append(to, data...), err
}

// appendText appends a string of plain ASCII as encoding/json does. It returns false for others.
func appendText(to []byte, s string) ([]byte, bool) {
	text := append(to, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '<':
			text = append(text, `\u003c`...)
		case '>':
			text = append(text, `\u003e`...)
		case '&':
			text = append(text, `\u0026`...)
		default:
			if c < ' ' || c > '~' || c == '"' || c == '\\' {
				return to, false
			}
			text = append(text, c)
		}
	}
	return append(text, '"'), true
}

// scaleColumns are those of the subresource scale.
func scaleColumns() registry.Columns[registry.Object] {
	name := registry.NameColumn()
	name.Format = ""
	return registry.Columns[registry.Object]{
		Definitions: []metav1.TableColumnDefinition{
			name,
			{Name: "Desired", Type: "integer", Description: autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"]},
			{Name: "Available", Type: "integer", Description: autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"]},
			registry.AgeColumn(),
		},
		Cells: func(obj registry.Object, now time.Time) []any {
			s := obj.(*autoscalingv1.Scale)
			return []any{s.Name, int64(s.Spec.Replicas), int64(s.Status.Replicas), registry.Age(s.CreationTimestamp, now)}
		},
	}
}
