package managedfields

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// A key is one element of a path in the form in which FieldsV1 writes it, JSON escapes included
// and without the quotes: f:name, k:{\"name\":\"web\"}, v:\"a\", i:0. Keys made of plain text
// and small numbers are read and compared here; all others go through the library.

// exact bounds the integers that are plain: below it, every one of them is exact as a float64,
// which is what the library makes of numbers.
const exact = 1e15

// plainByte tells whether a byte stands in JSON as it is, whichever way it is escaped.
func plainByte(c byte) bool {
	return c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
}

func plainText(s string) bool {
	for i := range len(s) {
		if !plainByte(s[i]) {
			return false
		}
	}
	return true
}

// scalar is a value in a key.
type scalar struct {
	kind   byte // n, s, b: a number, a string, a boolean; null; x for any other
	number int64
	text   string
	other  any
}

const null = 0

func scalarFrom(v any) scalar {
	switch v := v.(type) {
	case nil, map[string]any, []any:
		return scalar{}
	case string:
		return scalar{kind: 's', text: v}
	case int64:
		return scalar{kind: 'n', number: v}
	case bool:
		s := scalar{kind: 'b'}
		if v {
			s.number = 1
		}
		return s
	}
	return scalar{kind: 'x', other: v}
}

// any is what the library knows the scalar as.
func (v scalar) any() any {
	switch v.kind {
	case 's':
		return v.text
	case 'n':
		return v.number
	case 'b':
		return v.number != 0
	}
	return v.other
}

// append writes the scalar, if it is plain.
func (v scalar) append(b []byte) ([]byte, bool) {
	switch v.kind {
	case 's':
		b = append(b, `\"`...)
		b = append(b, v.text...)
		return append(b, `\"`...), plainText(v.text)
	case 'n':
		return strconv.AppendInt(b, v.number, 10), v.number > -exact && v.number < exact
	case 'b':
		return strconv.AppendBool(b, v.number != 0), true
	}
	return b, false
}

// fieldKey is the key of a field, or of an entry in a map.
func fieldKey(name string) string {
	if plainText(name) {
		return "f:" + name
	}
	return libraryKey(fieldpath.FieldNameElement(name))
}

// member is one field of the key of a list's item.
type member struct {
	name  string
	value scalar
}

// itemKey is the key of a list's item with the given key fields, in the order of their names.
func itemKey(fields []member) string {
	var buf [96]byte
	b, ok := append(buf[:0], "k:{"...), true
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `\"`...)
		b = append(b, f.name...)
		b = append(b, `\":`...)
		var written bool
		b, written = f.value.append(b)
		ok = ok && written && plainText(f.name)
	}
	if ok {
		return string(append(b, '}'))
	}
	list := make([]value.Field, len(fields))
	for i, f := range fields {
		list[i] = value.Field{Name: f.name, Value: value.NewValueInterface(f.value.any())}
	}
	return libraryKey(fieldpath.KeyElement(list...))
}

// valueKey is the key of an item of a set.
func valueKey(v scalar) string {
	var buf [64]byte
	if b, ok := v.append(append(buf[:0], "v:"...)); ok {
		return string(b)
	}
	return libraryKey(fieldpath.ValueElement(value.NewValueInterface(v.any())))
}

// libraryKey has the library write a path element.
func libraryKey(pe fieldpath.PathElement) string {
	data, err := fieldpath.NewSet(fieldpath.Path{pe}).ToJSON()
	if err != nil || len(data) < len(`{"":{}}`) {
		return "f:" // there is always a field, key or value
	}
	return string(data[len(`{"`) : len(data)-len(`":{}}`)])
}

// pathElement has the library read a key.
func pathElement(key string) (fieldpath.PathElement, error) {
	var text string
	if err := json.Unmarshal([]byte(`"`+key+`"`), &text); err != nil {
		return fieldpath.PathElement{}, err
	}
	return fieldpath.DeserializePathElement(text)
}

// compareKeys is the order in which FieldsV1 lists keys.
func compareKeys(a, b string) int {
	if a == b {
		return 0
	}
	if a[0] != b[0] {
		return cmp.Compare(rank(a[0]), rank(b[0]))
	}
	if order, ok := comparePlain(a, b); ok {
		return order
	}
	x, err1 := pathElement(a)
	y, err2 := pathElement(b)
	if err1 != nil || err2 != nil {
		return strings.Compare(a, b) // keys that were read before do not fail
	}
	return x.Compare(y)
}

func rank(kind byte) int { return strings.IndexByte("fkvi", kind) }

// comparePlain compares two different keys of the same kind, if that is plain: by the place where
// they differ.
func comparePlain(a, b string) (order int, ok bool) {
	i := 2
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	switch {
	case a[i-1] == '\\' || a[0] == 'i':
		return 0, false // within an escape, or an index
	case a[0] == 'f':
		// One may end here.
		return strings.Compare(a[i:], b[i:]), i == len(a) || i == len(b) || plainByte(a[i]) && plainByte(b[i])
	case i == len(a) || i == len(b) || strings.Contains(a[:i], `\\`):
		return 0, false // there is an escape before, so that quotes cannot be counted
	case strings.Count(a[:i], `"`)%2 == 1: // within a string
		x, y := textByte(a[i:]), textByte(b[i:])
		return cmp.Compare(x, y), x >= 0 && y >= 0
	}
	start := i
	for start > 0 && (a[start-1] >= '0' && a[start-1] <= '9' || a[start-1] == '-') {
		start--
	}
	x, end1, ok1 := cutNumber(a[start:])
	y, end2, ok2 := cutNumber(b[start:])
	switch {
	case ok1 && ok2 && x != y:
		return cmp.Compare(x, y), true
	case ok1 != ok2 || ok1 && (end1 == "" || end2 == ""):
		return 0, false
	case !ok1:
		end1, end2 = a[i:], b[i:]
	}
	// The names and values of one are the first of the other's.
	return cmp.Compare(end2[0], end1[0]), end1[0] == '}' && end2[0] == ',' || end1[0] == ',' && end2[0] == '}'
}

// cutNumber reads a plain number from the beginning of s.
func cutNumber(s string) (n int64, rest string, ok bool) {
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || end == 0 && s[end] == '-') {
		end++
	}
	n, err := strconv.ParseInt(s[:end], 10, 64)
	return n, s[end:], err == nil && n > -exact && n < exact && len(strconv.FormatInt(n, 10)) == end
}

// textByte is the first byte of s, 0 for the end of a string, negative for what is not plain.
func textByte(s string) int {
	if plainByte(s[0]) {
		return int(s[0])
	}
	if strings.HasPrefix(s, `\"`) {
		return 0
	}
	return -1
}

// plainKey tells whether a key is in the one form in which it is written here.
func plainKey(key string) bool {
	if len(key) < 2 || key[1] != ':' {
		return false
	}
	switch key[0] {
	case 'f':
		return plainText(key[2:])
	case 'v':
		return cutScalar(key[2:]) == ""
	case 'k':
		return plainItem(key[2:])
	}
	return false
}

// plainItem is plainKey of an item: {name:scalar,name:scalar} with names in order.
func plainItem(s string) bool {
	if s == "" || s[0] != '{' {
		return false
	}
	for last := ""; ; {
		name, rest := cutText(s[1:])
		if rest == "" || rest[0] != ':' || last != "" && name <= last {
			return false
		}
		if s = cutScalar(rest[1:]); s == "}" {
			return true
		}
		if s == "" || s[0] != ',' {
			return false
		}
		last = name
	}
}

// cutText reads a plain string from the beginning of s; rest is empty when there is none.
func cutText(s string) (text, rest string) {
	if !strings.HasPrefix(s, `\"`) {
		return "", ""
	}
	end := 2
	for end < len(s) && plainByte(s[end]) {
		end++
	}
	if !strings.HasPrefix(s[end:], `\"`) {
		return "", ""
	}
	return s[2:end], s[end+2:]
}

// notPlain is what cutScalar leaves when there is no plain scalar.
const notPlain = "?"

// cutScalar returns what follows a plain scalar at the beginning of s. What is not written as
// the library writes it is not plain.
func cutScalar(s string) string {
	if strings.HasPrefix(s, `\"`) {
		if text, rest := cutText(s); rest != "" || len(s) == len(text)+4 {
			return rest
		}
		return notPlain
	}
	for _, word := range [...]string{"true", "false"} {
		if rest, ok := strings.CutPrefix(s, word); ok {
			return rest
		}
	}
	if _, rest, ok := cutNumber(s); ok {
		return rest
	}
	return notPlain
}
