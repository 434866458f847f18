package managedfields

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// FuzzSchema reads schemas, and holds what is done with objects by them to the library.
func FuzzSchema(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"type":"object"}`, `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`, `{"properties":{"a":{"$ref":"#/a"}}}`, `{"type":["object"]}`, `{"type":"array"}`,
		`{"properties":{"a":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string","default":"x"},"n":{"type":"integer"},"v":{}}},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["n","k"]}}}`,
		`{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true},"b":{"additionalProperties":{"type":"boolean"},"type":"object","x-kubernetes-map-type":"atomic"}}}`,
		`{"type":"object","properties":{"a":{"type":"object","x-kubernetes-embedded-resource":true},"b":{"type":"array","items":[{}]},"c":null}}`,
		`{"type":"object","additionalProperties":{"additionalProperties":false}}`, `{"properties":{"a":1}}`, `{"x-kubernetes-map-type":"x"}`,
	} {
		f.Add([]byte(s), []byte(`{"a":[{"k":"x","n":1,"v":{"b":[]}},{"n":1},{"n":null}],"b":{"c":true}}`), []byte(`{"a":["a","b","a"],"b":{}}`), []byte(`{"f:a":{"f:b":{},"k:{\"n\":1}":{"f:v":{}}},"f:b":{"f:c":{}}}`))
		f.Add([]byte(s), []byte(`{"a":1,"b":null}`), []byte(`{"a":{"metadata":{"labels":{"a":"b"}},"k":"x"},"b":["c"]}`), []byte(`{"f:a":{"v:1":{}},"f:b":{".":{}}}`))
	}
	f.Fuzz(func(t *testing.T, schemaText, before, after, owned []byte) {
		var top, live, obj map[string]any
		if json.Unmarshal(schemaText, &top) != nil || kjson.UnmarshalCaseSensitivePreserveInts(before, &live) != nil ||
			kjson.UnmarshalCaseSensitivePreserveInts(after, &obj) != nil || live == nil || obj == nil || top == nil {
			return
		}
		d, err := declare(&Schema{}, top)
		if err != nil {
			if d != nil || !errors.Is(err, errSchema) {
				t.Fatalf("%v, %v", d, err)
			}
			return
		}
		a := &arena{slab: make([]node, slabNodes)}
		reconcileAsLibrary(t, a, d, live, string(owned))
		if fitsAsLibrary(t, d, live) && fitsAsLibrary(t, d, obj) {
			compareAsLibrary(t, a, d, live, obj)
		}
	})
}

// fitsAsLibrary tells whether an object has the form of the schema but for duplicates.
func fitsAsLibrary(t *testing.T, d *declared, obj map[string]any) bool {
	t.Helper()
	_, err := d.FromUnstructured(obj)
	if got := d.fits(&d.TypeRef, obj, false); got != (err == nil) {
		t.Fatalf("%v fits: %v, want %v", obj, got, err)
	}
	_, err = d.FromUnstructured(obj, typed.AllowDuplicates)
	got := d.fits(&d.TypeRef, obj, true)
	if got != (err == nil) {
		t.Fatalf("%v with duplicates fits: %v, want %v", obj, got, err)
	}
	return got
}

func compareAsLibrary(t *testing.T, a *arena, d *declared, live, obj map[string]any) {
	t.Helper()
	nodes := d.diff(a, &unstructured.Unstructured{Object: live}, &unstructured.Unstructured{Object: obj}, nil)
	x, err1 := d.FromUnstructured(live, typed.AllowDuplicates)
	y, err2 := d.FromUnstructured(obj, typed.AllowDuplicates)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	want, err := x.Compare(y)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(encode(nil, a.set(nodes), false)), written(t, want.Modified.Union(want.Added)); got != want {
		t.Errorf("from %v to %v is set %s, want %s", live, obj, got, want)
	}
	if got, want := string(encode(nil, marked(nodes, removed), false)), written(t, want.Removed); got != want {
		t.Errorf("from %v to %v is removed %s, want %s", live, obj, got, want)
	}
}

// marked are the paths of a difference with a mark.
func marked(diff []node, as mark) []node {
	var out []node
	for _, n := range diff {
		n.children = marked(n.children, as)
		if n.is &= as; n.is != 0 || len(n.children) > 0 {
			out = append(out, n)
		}
	}
	return out
}

func reconcileAsLibrary(t *testing.T, a *arena, d *declared, live map[string]any, raw string) {
	t.Helper()
	var set fieldpath.Set
	nodes, _, err := a.decode(raw)
	if err != nil || set.FromJSON(strings.NewReader(raw)) != nil {
		return
	}
	v, err := d.FromUnstructured(live, typed.AllowDuplicates)
	if err != nil {
		return
	}
	want, err := typed.ReconcileFieldSetWithSchema(&set, v)
	if err != nil {
		return
	}
	if want == nil {
		want = &set
	}
	if got, want := string(encode(nil, d.reconcile(a, nodes), false)), written(t, want); got != want {
		t.Errorf("%s is reconciled to %s, want %s", raw, got, want)
	}
}
