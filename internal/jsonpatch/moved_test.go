package jsonpatch

import (
	"strings"
	"testing"
)

// TestMoved: shifted array members are counted and limited.
func TestMoved(t *testing.T) {
	for operation, want := range map[string]int{
		`{"op":"add","path":"/a/0","value":2}`:      100,
		`{"op":"add","path":"/a/100","value":2}`:    0,
		`{"op":"remove","path":"/a/0"}`:             99,
		`{"op":"remove","path":"/a/-1"}`:            0,
		`{"op":"move","from":"/a/0","path":"/a/0"}`: 198,
		`{"op":"copy","from":"/a/0","path":"/a/0"}`: 100,
		`{"op":"add","path":"/a/-","value":2}`:      0,
		`{"op":"replace","path":"/a/0","value":2}`:  0,
		`{"op":"test","path":"/a/0","value":1}`:     0,
		`{"op":"add","path":"/b","value":2}`:        0,
	} {
		patch, err := Decode([]byte("[" + operation + "]"))
		if err != nil {
			t.Fatal(err)
		}
		run := func(before int) (int, error) {
			root, err := open([]byte(`{"a":[` + strings.Repeat("1,", 99) + `1]}`))
			if err != nil {
				t.Fatal(err)
			}
			r := &run{root: root, moved: before}
			err = r.do(patch[0])
			return r.moved - before, err
		}
		if moved, err := run(0); err != nil || moved != want {
			t.Errorf("%s moves %d, want %d: %v", operation, moved, want, err)
		}
		if _, err := run(MaxMoved - want); err != nil {
			t.Errorf("%s at the limit: %v", operation, err)
		}
		if _, err := run(MaxMoved - want + 1); want > 0 && (err == nil || !strings.Contains(err.Error(), "replace the arrays as a whole, or send several patches")) {
			t.Errorf("%s beyond the limit: %v", operation, err)
		}
	}
}
