package codec_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry/codec"
)

// TestTrees: objects without a Go type of their own are encoded as encoding/json does, and are the same if their encodings are.
func TestTrees(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	same, different := 0, 0
	for range 20000 {
		content := map[string]any{"a": randomTree(r, 3), "b": randomTree(r, 1), "kind": "x"}
		u := &unstructured.Unstructured{Object: content}
		got, err := codec.Body(u)
		want, wantErr := json.Marshal(u)
		if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%#v is %s, %v; wanted %s, %v", content, got, err, want, wantErr)
		}
		other := map[string]any{"a": content["a"], "b": randomTree(r, 1), "kind": "x"}
		if r.IntN(2) == 0 {
			var copied map[string]any
			_ = json.Unmarshal(want, &copied)
			other = copied
		}
		theirs, _ := json.Marshal(other)
		is, err := codec.Same(u, &unstructured.Unstructured{Object: other})
		if err != nil || is != bytes.Equal(want, theirs) {
			t.Fatalf("%s and %s are the same: %t, %v", want, theirs, is, err)
		}
		if is {
			same++
		} else {
			different++
		}
	}
	if min(same, different) < 1000 {
		t.Errorf("%d are the same, %d are not", same, different)
	}
	for c := range 256 {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": "x", "a": string([]byte{'a', byte(c), 'b'})}}
		got, err := codec.Body(u)
		if want, wantErr := json.Marshal(u); err != nil || wantErr != nil || !bytes.Equal(got, want) {
			t.Errorf("%#v is %s, %v; wanted %s, %v", u.Object, got, err, want, wantErr)
		}
	}
	bad := &unstructured.Unstructured{Object: map[string]any{"kind": "x", "a": math.NaN()}}
	if _, err := codec.Body(bad); err == nil {
		t.Error("encoded what is no number")
	}
	if _, err := codec.Same(bad, bad); err == nil {
		t.Error("compared what is no number")
	}
}

// TestSameOfTypes: an object with a Go type of its own is compared with one without by what they encode to.
func TestSameOfTypes(t *testing.T) {
	typed := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"a": "b"}}
	body, err := codec.Body(typed)
	if err != nil {
		t.Fatal(err)
	}
	tree := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &tree.Object); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		for _, pair := range [][2]runtime.Object{{typed, tree}, {tree, typed}} {
			x, errX := codec.Body(pair[0])
			y, errY := codec.Body(pair[1])
			same, err := codec.Same(pair[0], pair[1])
			if errX != nil || errY != nil || err != nil || same != bytes.Equal(x, y) || !want && same {
				t.Errorf("%s and %s are the same: %t, %v", x, y, same, err)
			}
		}
		tree.Object["data"] = map[string]any{"a": "c"}
	}
}

func randomTree(r *rand.Rand, depth int) any {
	n := r.IntN(24)
	if depth == 0 && n < 12 {
		n += 12
	}
	switch {
	case n < 6:
		m := map[string]any{}
		for range r.IntN(4) {
			key := []string{"a", "b", "ab", "<", "\u2028", "é", "\xff", "\xfe", "\""}[r.IntN(9)]
			m[key] = randomTree(r, depth-1)
		}
		return m
	case n < 11:
		l := []any{}
		for range r.IntN(3) {
			l = append(l, randomTree(r, depth-1))
		}
		return l
	case n == 11:
		return []any{map[string]any(nil), []any(nil)}[r.IntN(2)]
	}
	return []any{nil, true, false, int64(1), int64(-1) << 62, 1.0, 1.5, 1e21, 1e-9, math.Copysign(0, -1), 0.0, int64(0), "", "a", "<&>", "\x00\x1f\x7f", "é\u2029", "\xff", "\xfe", 7, json.Number("3")}[r.IntN(21)]
}

// TestSameWithoutEncoding: trees are compared without being encoded as far as that is enough. What cannot be encoded follows,
// and is not looked at.
func TestSameWithoutEncoding(t *testing.T) {
	of := func(values ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"list": values}}
	}
	bad := math.NaN()
	for name, v := range map[string]func() any{
		"null":            func() any { return nil },
		"true":            func() any { return true },
		"false":           func() any { return false },
		"an integer":      func() any { return int64(3) },
		"a number":        func() any { return 1.5 },
		"zero":            func() any { return 0.0 },
		"less than zero":  func() any { return math.Copysign(0, -1) },
		"a text":          func() any { return "a" },
		"another text":    func() any { return "é\xff" },
		"a list":          func() any { return []any{"a", int64(1)} },
		"an empty list":   func() any { return []any{} },
		"no list":         func() any { return []any(nil) },
		"an object":       func() any { return map[string]any{"a": int64(1), "é": "b"} },
		"an empty object": func() any { return map[string]any{} },
		"no object":       func() any { return map[string]any(nil) },
	} {
		if same, err := codec.Same(of(v(), int64(1), bad), of(v(), int64(2), bad)); same || err != nil {
			t.Errorf("lists that begin with %s: %t, %v", name, same, err)
		}
		if same, err := codec.Same(of(v(), int64(1)), of(v(), int64(1))); !same || err != nil {
			t.Errorf("%s twice: %t, %v", name, same, err)
		}
	}
	for name, pair := range map[string][2]any{
		"true and false":               {true, false},
		"integers":                     {int64(1), int64(2)},
		"texts":                        {"a", "b"},
		"texts up to a tilde":          {"~", "é"},
		"lists of other lengths":       {[]any{"a"}, []any{"a", "b"}},
		"lists with other items":       {[]any{"a", "b"}, []any{"a", "c"}},
		"objects of other sizes":       {map[string]any{"a": "b"}, map[string]any{"a": "b", "c": "d"}},
		"objects with other keys":      {map[string]any{"a": "b"}, map[string]any{"c": "b"}},
		"objects with keys up to that": {map[string]any{"~": "b"}, map[string]any{"c": "b"}},
		"objects with other values":    {map[string]any{"a": "b"}, map[string]any{"a": "c"}},
	} {
		if same, err := codec.Same(of(pair[0], bad), of(pair[1], bad)); same || err != nil {
			t.Errorf("%s: %t, %v", name, same, err)
		}
	}
	for name, c := range map[string]struct {
		a, b any
		want bool
	}{
		"one and 1.0":             {int64(1), 1.0, true},
		"zeros":                   {0.0, math.Copysign(0, -1), false},
		"numbers":                 {1.5, 2.5, false},
		"texts that lose a byte":  {"\xff", "\xfe", true},
		"and another":             {"\x7f\xff", "\x7f\xfe", true},
		"keys that lose a byte":   {map[string]any{"\xff": "a"}, map[string]any{"\xfe": "a"}, true},
		"no list and an empty":    {[]any(nil), []any{}, false},
		"an empty list and none":  {[]any{}, []any(nil), false},
		"no list and null":        {[]any(nil), nil, true},
		"null and no list":        {nil, []any(nil), true},
		"no object and an empty":  {map[string]any(nil), map[string]any{}, false},
		"an empty object and no":  {map[string]any{}, map[string]any(nil), false},
		"no object and null":      {map[string]any(nil), nil, true},
		"null and no object":      {nil, map[string]any(nil), true},
		"null and false":          {nil, false, false},
		"false and null":          {false, nil, false},
		"a text and a number":     {"1", int64(1), false},
		"an integer and a text":   {int64(1), "1", false},
		"an object and a list":    {map[string]any{}, []any{}, false},
		"a list and an object":    {[]any{}, map[string]any{}, false},
		"in lists":                {[]any{int64(1)}, []any{1.0}, true},
		"in objects":              {map[string]any{"a": int64(1)}, map[string]any{"a": 1.0}, true},
		"a number and an integer": {2.0, int64(2), true},
	} {
		if same, err := codec.Same(of(c.a), of(c.b)); same != c.want || err != nil {
			t.Errorf("%s: %t, %v", name, same, err)
		}
	}
}

// TestTreesThatCannotBeEncoded: what cannot be encoded is an error wherever it is.
func TestTreesThatCannotBeEncoded(t *testing.T) {
	bad := math.NaN()
	for name, v := range map[string]any{
		"a field": bad, "an item": []any{int64(1), bad}, "a field of an item": []any{map[string]any{"a": bad}}, "an item of an item": []any{[]any{bad}},
		"a field below": map[string]any{"a": map[string]any{"b": bad}},
	} {
		if data, err := codec.Body(&unstructured.Unstructured{Object: map[string]any{"x": v}}); err == nil {
			t.Errorf("%s: %s", name, data)
		}
	}
}

// TestOwnType: an object that is of another type than the one asked for keeps its own.
func TestOwnType(t *testing.T) {
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	for want, content := range map[string]map[string]any{
		`{"apiVersion":"x/v1","kind":"Y"}`:       {"apiVersion": "x/v1", "kind": "Y"},
		`{"kind":"ConfigMap","apiVersion":"v1"}`: {},
	} {
		if data, err := codec.JSON(gvk, &unstructured.Unstructured{Object: content}); err != nil || string(data) != want {
			t.Errorf("%s, %v, want %s", data, err, want)
		}
	}
}
