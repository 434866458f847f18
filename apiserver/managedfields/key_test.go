package managedfields

import (
	"math/rand/v2"
	"slices"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// TestKeys holds the writing and the order of keys to the library's.
func TestKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "a", "b", "ab", "a b", "a!", `a"`, `a\`, "a<", "é", "10", "9", "80", "8", "a:80", "a:9", ",", "}", ",a", "}a", `":`, "true", "-", "\n"}
	pick := func() any {
		switch r.IntN(8) {
		case 0:
			return int64(r.IntN(200) - 20)
		case 1:
			return []any{true, false, 0.5, 80.0, int64(1 << 60), nil}[r.IntN(6)]
		}
		return texts[r.IntN(len(texts))]
	}
	element := func() (fieldpath.PathElement, string) {
		switch r.IntN(3) {
		case 0:
			name := texts[r.IntN(len(texts))]
			return fieldpath.FieldNameElement(name), fieldKey(name)
		case 1:
			v := pick()
			if v == nil {
				v = "x"
			}
			return fieldpath.ValueElement(value.NewValueInterface(v)), valueKey(scalarFrom(v))
		}
		var fields []value.Field
		var members []member
		for _, name := range []string{"a", "ab", "b"} {
			if v := pick(); r.IntN(2) == 0 && v != nil {
				fields = append(fields, value.Field{Name: name, Value: value.NewValueInterface(v)})
				members = append(members, member{name, scalarFrom(v)})
			}
		}
		return fieldpath.KeyElement(fields...), itemKey(members)
	}
	for range 200000 {
		x, a := element()
		y, _ := element()
		if want := libraryKey(x); a != want && len(want) > 4 {
			t.Fatalf("written %s, want %s", a, want)
		}
		if got, want := compareKeys(libraryKey(x), libraryKey(y)), x.Compare(y); got != want {
			t.Fatalf("%s and %s: %d, want %d", libraryKey(x), libraryKey(y), got, want)
		}
		if key := libraryKey(x); plainKey(key) && len(key) > 4 && !slices.Contains([]string{a}, key) {
			t.Fatalf("%s is plain, but written %s", key, a)
		}
	}
}
