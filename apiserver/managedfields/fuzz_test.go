package managedfields

import (
	"strings"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// FuzzFields holds the reading of FieldsV1, and what is done with sets of fields, to the library.
func FuzzFields(f *testing.F) {
	seeds := []string{
		`{}`, `{"f:a":{}}`, `{"f:a":{".":{},"f:b":{}},"f:c":{"k:{\"name\":\"x\"}":{".":{},"f:y":{}}}}`,
		`{"f:p":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{},"k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{}}}`,
		`{"f:z":{},"f:a":{}}`, `{"v:\"x\"":{},"v:1":{},"v:true":{},"i:0":{},"i:10":{},"i:9":{}}`, `{"f:\u00e9":{},"f:é":{}}`,
		`{ "f:a" : {} }`, `{".":{}}`, `{"f:a":{".":{}}}`, `{"x:y":{},"f:a":{}}`, `{"f:a":{"f:b":{}},"f:a":{"f:c":{}}}`,
		`{"k:{\"b\":1,\"a\":2}":{}}`, `{"k:{\"a\":1.0}":{}}`, `{"v:1e3":{},"v:1000":{}}`, `null`, ``, `{"f:a":1}`, `[]`, `{"f:a\\b":{},"f:a\"b":{}}`,
		`{"k:{}":{}}`, `{"k:{\"a\":[1,{\"b\":null}]}":{}}`, `{"v:\"\\u003c\"":{}}`, `{"v:\"<\"":{}}`,
	}
	for _, a := range seeds {
		f.Add(a, `{"f:a":{"f:b":{}},"f:c":{}}`)
	}
	f.Fuzz(func(t *testing.T, x, y string) {
		a := arenas.Get().(*arena)
		defer a.release()
		left, wantLeft := readBoth(t, a, x)
		right, wantRight := readBoth(t, a, y)
		if wantLeft == nil || wantRight == nil {
			return
		}
		if got, want := string(encode(nil, a.union(left, right), false)), written(t, wantLeft.Union(wantRight)); got != want {
			t.Errorf("union of %s and %s: %s, want %s", x, y, got, want)
		}
		if got, want := string(encode(nil, a.subtract(left, right), false)), written(t, wantLeft.Difference(wantRight)); got != want {
			t.Errorf("%s without %s: %s, want %s", x, y, got, want)
		}
		if got, want := string(encode(nil, a.exclude(left, right), false)), written(t, wantLeft.RecursiveDifference(wantRight)); got != want {
			t.Errorf("%s without all of %s: %s, want %s", x, y, got, want)
		}
	})
}

// FuzzOrder holds the putting in order of keys to the library, which reads the same set of both.
func FuzzOrder(f *testing.F) {
	for _, raw := range []string{`{}`, ` { "f:b" : {} , "f:a":{".":{}} }`, `{"f:a":{"f:b":{}},"x:":{},"f:a":{}}`, `{"v:1e0":{},"v:1":{}}`, `{"f:a":{},".":{}}`, `{"f:a":{}}`} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		o := ordering{rest: raw}
		text, ok := o.object(nil, 0)
		if !ok || o.space() != "" {
			return
		}
		var want, got fieldpath.Set
		if err := want.FromJSON(strings.NewReader(raw)); err != nil {
			return // it has its own idea of strings
		}
		if err := got.FromJSON(strings.NewReader(string(text))); err != nil || !got.Equals(&want) {
			t.Errorf("%q was put in order as %q: %v, %s, want %s", raw, text, err, got.String(), want.String())
		}
	})
}

// readBoth reads a set here and by the library, which is nil for what is none.
func readBoth(t *testing.T, a *arena, raw string) ([]node, *fieldpath.Set) {
	t.Helper()
	var set fieldpath.Set
	wantErr := set.FromJSON(strings.NewReader(raw))
	nodes, canonical, err := a.decode(raw)
	if err != nil {
		if wantErr == nil && !strings.Contains(err.Error(), errFields.Error()) && !reserialized(&set) {
			t.Fatalf("%s: %v, but the library reads it", raw, err)
		}
		return nil, nil
	}
	if wantErr != nil {
		t.Fatalf("%s is read, but by the library: %v", raw, wantErr)
	}
	want := written(t, &set)
	if got := string(encode(nil, nodes, false)); got != want {
		t.Fatalf("%s: %s, want %s", raw, got, want)
	}
	if canonical && want != raw {
		t.Fatalf("%s is taken for canonical, which is %s", raw, want)
	}
	return nodes, &set
}

// reserialized tells whether the library cannot write what it has read.
func reserialized(set *fieldpath.Set) bool {
	_, err := set.ToJSON()
	return err != nil
}

func written(t *testing.T, set *fieldpath.Set) string {
	t.Helper()
	data, err := set.ToJSON()
	if err != nil {
		t.Skip(err)
	}
	return string(data)
}
