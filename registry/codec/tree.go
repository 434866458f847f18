package codec

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Body returns obj in JSON without adding its type.
func Body(obj runtime.Object) ([]byte, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return json.Marshal(obj)
	}
	w := writers.Get().(*writer)
	defer w.release()
	if err := w.value(u.Object); err != nil {
		return nil, err
	}
	return slices.Clone(w.out), nil
}

// writer writes trees of maps and lists byte for byte as encoding/json does, which spends most of its time on what is not
// known of them: their types.
type writer struct {
	out  []byte
	keys []string // of the maps that are being written
}

//nolint:gochecknoglobals // free memory has no state
var writers = sync.Pool{New: func() any { return &writer{} }}

// release keeps the memory for others, unless it is much.
func (w *writer) release() {
	const most = 64 << 10
	if cap(w.out) > most || cap(w.keys) > most/16 {
		return
	}
	clear(w.keys[:cap(w.keys)])
	w.out, w.keys = w.out[:0], w.keys[:0]
	writers.Put(w)
}

func (w *writer) value(v any) error {
	switch v := v.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case int64:
		w.out = strconv.AppendInt(w.out, v, 10)
	case string:
		return w.text(v)
	case map[string]any:
		return w.object(v)
	case []any:
		return w.list(v)
	default:
		return w.other(v)
	}
	return nil
}

func (w *writer) object(m map[string]any) error {
	if m == nil {
		return w.value(nil)
	}
	first := len(w.keys)
	for key := range m {
		w.keys = append(w.keys, key)
	}
	end := len(w.keys)
	slices.Sort(w.keys[first:end])
	w.out = append(w.out, '{')
	for i := first; i < end; i++ {
		key := w.keys[i]
		if i > first {
			w.out = append(w.out, ',')
		}
		if err := w.text(key); err != nil {
			return err
		}
		w.out = append(w.out, ':')
		if err := w.value(m[key]); err != nil {
			return err
		}
	}
	w.keys = w.keys[:first]
	w.out = append(w.out, '}')
	return nil
}

func (w *writer) list(l []any) error {
	if l == nil {
		return w.value(nil)
	}
	w.out = append(w.out, '[')
	for i, v := range l {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.value(v); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	return nil
}

func (w *writer) text(s string) error {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return w.other(s)
		}
	}
	w.out = append(append(append(w.out, '"'), s...), '"')
	return nil
}

// other writes what needs more care.
func (w *writer) other(v any) error {
	data, err := json.Marshal(v)
	w.out = append(w.out, data...)
	return err
}

// Same reports whether Stored encodes two objects alike. It compares trees of maps and lists without encoding them.
func Same(a, b runtime.Object) (bool, error) {
	x, ok := a.(*unstructured.Unstructured)
	y, also := b.(*unstructured.Unstructured)
	if ok && also {
		if same, certain := sameTree(x.Object, y.Object); certain {
			return same, nil
		}
	}
	encode := Body
	if HasProtobuf(a) && HasProtobuf(b) {
		encode = Raw
	}
	was, err := encode(a)
	if err != nil {
		return false, err
	}
	is, err := encode(b)
	return string(was) == string(is), err
}

// sameTree compares what JSON is decoded to; it is not certain of anything else.
func sameTree(a, b any) (same, certain bool) {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			return sameMap(a, b)
		}
	case []any:
		if b, ok := b.([]any); ok {
			return sameList(a, b)
		}
	case string:
		if b, ok := b.(string); ok {
			return a == b, a == b || plain(a)
		}
	case int64:
		if b, ok := b.(int64); ok {
			return a == b, true
		}
	case float64:
		if b, ok := b.(float64); ok {
			return true, a == b && math.Signbit(a) == math.Signbit(b)
		}
	case bool:
		if b, ok := b.(bool); ok {
			return a == b, true
		}
	case nil:
		return true, b == nil
	}
	return false, false // such as 1 and 1.0, which are written alike
}

// plain reports whether no other text is written as this one: text that is not in UTF-8 loses something.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] > '~' {
			return false
		}
	}
	return true
}

func sameMap(a, b map[string]any) (same, certain bool) {
	if a == nil || b == nil {
		return true, a == nil && b == nil
	}
	if len(a) != len(b) {
		return false, true
	}
	for key, value := range a {
		other, ok := b[key]
		if !ok {
			return false, plain(key)
		}
		if same, certain := sameTree(value, other); !same || !certain {
			return false, certain
		}
	}
	return true, true
}

func sameList(a, b []any) (same, certain bool) {
	if a == nil || b == nil {
		return true, a == nil && b == nil
	}
	if len(a) != len(b) {
		return false, true
	}
	for i := range a {
		if same, certain := sameTree(a[i], b[i]); !same || !certain {
			return false, certain
		}
	}
	return true, true
}
