package boundedyaml_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// wide returns a text of about size bytes: half is one value, and the rest are aliases of it.
func wide(size int) []byte {
	return []byte("a: &a " + strings.Repeat("x", size/2) + "\nb: [" + strings.Repeat("*a,", size/6) + "]\n")
}

// laughs is nine lists, each of nine aliases of the one before.
func laughs() []byte {
	var b strings.Builder
	b.WriteString("a0: &a0 lol\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return []byte(b.String())
}

// chain nests each alias in the next.
func chain(levels int) []byte {
	b := []byte("a0: &a0 []\n")
	for i := 1; i < levels; i++ {
		b = fmt.Appendf(b, "a%d: &a%d [*a%d]\n", i, i, i-1)
	}
	return b
}

// merged uses the merge key instead of lists.
func merged() []byte {
	b := []byte("a0: &a0 {k: " + strings.Repeat("x", 1000) + "}\n")
	for i := 1; i < 30; i++ {
		b = fmt.Appendf(b, "a%d: &a%d {l%d: *a%d, m%d: *a%d, <<: *a%d}\n", i, i, i, i-1, i, i-1, i-1)
	}
	return b
}

// utf16 encodes ASCII in two bytes per letter.
func utf16(text []byte) []byte {
	out := []byte{0xff, 0xfe}
	for _, c := range text {
		out = append(out, c, 0)
	}
	return out
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestRefused: every function rejects a text that would expand beyond the limit, before expanding it.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		text []byte
		want error
	}{
		"wide":   {wide(300 << 10), boundedyaml.ErrTooLarge},
		"laughs": {laughs(), boundedyaml.ErrTooLarge},
		"merged": {merged(), boundedyaml.ErrTooLarge},
		"utf16":  {utf16(wide(300 << 10)), boundedyaml.ErrTooLarge},
		"second": {append([]byte("&a [*b, &b x]\n"), wide(300<<10)...), nil}, // malformed
		"long":   {bytes.Repeat([]byte("a: b # \n"), boundedyaml.Limit/8+1), boundedyaml.ErrTooLarge},
		"deep":   {chain(boundedyaml.MaxDepth + 1), boundedyaml.ErrTooLarge}, // too large well before too deep
		"itself": {[]byte("a: &a [*a]\n"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			for way, read := range map[string]func() error{
				"ToJSON":       func() error { _, err := boundedyaml.ToJSON(c.text, boundedyaml.Limit); return err },
				"ToJSONStrict": func() error { _, err := boundedyaml.ToJSONStrict(c.text, boundedyaml.Limit); return err },
				"Convert":      func() error { _, _, err := boundedyaml.Convert(c.text, boundedyaml.Limit); return err },
				"Unmarshal":    func() error { return boundedyaml.Unmarshal(c.text, new(any), boundedyaml.Limit) },
			} {
				var err error
				if n := allocated(func() { err = read() }); n > 300<<20 {
					t.Errorf("%s allocated %d bytes", way, n)
				}
				if err == nil || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("%s: %v", way, err)
				}
			}
			if name == "long" {
				return // the output is as large as the input
			}
			if _, err := boundedyaml.FromJSON(c.text); err == nil {
				t.Error("FromJSON took it")
			}
			if err := boundedyaml.WriteKYAML(new(bytes.Buffer), c.text); err == nil {
				t.Error("WriteKYAML took it")
			}
		})
	}
}

// TestLimit: the limit applies to the expanded size, to the byte.
func TestLimit(t *testing.T) {
	text := []byte("a: &a [xxx, y]\nb: *a\n")
	const size = 1 + 2 + (1 + 4 + 2) + 2 + (1 + 4 + 2) + 1 // the document, its map, key, value, key, value
	if err := boundedyaml.Check(text, size-1); !errors.Is(err, boundedyaml.ErrTooLarge) {
		t.Errorf("%d bytes: %v", size-1, err)
	}
	if err := boundedyaml.Check(text, max(size, len(text))); err != nil {
		t.Errorf("%d bytes: %v", size, err)
	}
	want := "YAML is too large: its aliases expand to more than 3145728 bytes; write the values out, or fewer of them"
	if err := boundedyaml.Check(laughs(), boundedyaml.Limit); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// TestDepth: nesting is bounded, whether written out or made by aliases.
func TestDepth(t *testing.T) {
	const huge = 1 << 40
	for name, text := range map[string][]byte{
		"written out": []byte(strings.Repeat("[", boundedyaml.MaxDepth+1)),
		"by aliases":  chain(boundedyaml.MaxDepth + 1),
	} {
		if _, err := boundedyaml.ToJSON(text, huge); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := boundedyaml.Check(chain(boundedyaml.MaxDepth+1), huge); !errors.Is(err, boundedyaml.ErrTooDeep) {
		t.Errorf("%v", err)
	}
	if err := boundedyaml.Check(chain(100), huge); err != nil {
		t.Error(err)
	}
}

// TestOrdinary: a text within the limits is read like by the library, including errors.
func TestOrdinary(t *testing.T) {
	for _, text := range []string{
		"", "a: 1", `{"a": [1, "*"]}`, "a: &a {b: c}\nd: *a\ne: {<<: *a, f: g}", "a: 1\na: 2", "a: *b", "a: [", "*a : b", "a: *a\nb: &a c",
		"a: 1\n---\nb: *c", "a: &a b\na: *a", "- *\n", "%YAML 1.2\n---\na: &a b\nc: *a", "a: &a [*a]",
	} {
		want, wantErr := yaml.YAMLToJSON([]byte(text))
		_, wantStrict := yaml.YAMLToJSONStrict([]byte(text))
		got, err := boundedyaml.ToJSON([]byte(text), boundedyaml.Limit)
		_, strict := boundedyaml.ToJSONStrict([]byte(text), boundedyaml.Limit)
		if string(got) != string(want) || fmt.Sprint(err) != fmt.Sprint(wantErr) || fmt.Sprint(strict) != fmt.Sprint(wantStrict) {
			t.Errorf("%q: %s, %v, %v; want %s, %v, %v", text, got, err, strict, want, wantErr, wantStrict)
		}
		both, duplicates, err := boundedyaml.Convert([]byte(text), boundedyaml.Limit)
		if wantErr != nil {
			wantStrict = nil
		}
		if string(both) != string(want) || fmt.Sprint(err) != fmt.Sprint(wantErr) || fmt.Sprint(duplicates) != fmt.Sprint(wantStrict) {
			t.Errorf("%q: %s, %v, %v", text, both, duplicates, err)
		}
	}
}

// TestDuplicates: not all of many equal keys are reported.
func TestDuplicates(t *testing.T) {
	_, duplicates, err := boundedyaml.Convert([]byte(strings.Repeat("a: 1\n", 1000)), boundedyaml.Limit)
	if err != nil || duplicates == nil || strings.Count(duplicates.Error(), "\n") != 101 || !strings.HasSuffix(duplicates.Error(), "\n  and 899 more") {
		t.Errorf("%v, %v", duplicates, err)
	}
}

// FuzzCheck: an accepted text expands to at most a few times the limit, and a malformed one fails in a library too: in
// the one that converts or, like "!\n,*", in the one that parses nodes.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"a: &a b\nc: *a", string(laughs()), "&a [*a]", "- &a {<<: *a}", "*a", "a: *", "? *x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const limit = 4 << 10
		err := boundedyaml.Check([]byte(text), limit)
		if errors.Is(err, boundedyaml.ErrTooLarge) || errors.Is(err, boundedyaml.ErrTooDeep) {
			return
		}
		data, failed := yaml.YAMLToJSON([]byte(text))
		if err != nil && failed == nil && yamlv3.Unmarshal([]byte(text), &yamlv3.Node{}) == nil {
			t.Errorf("%q: refused as %v, but is good", text, err)
		}
		if len(data) > 16*limit {
			t.Errorf("%q comes to %d bytes", text, len(data))
		}
	})
}

func ExampleToJSON() {
	data, err := boundedyaml.ToJSON([]byte("base: &base {cpu: 1}\nweb: *base\n"), boundedyaml.Limit)
	fmt.Println(string(data), err)
	// Output: {"base":{"cpu":1},"web":{"cpu":1}} <nil>
}

// TestKeys: the error about a key that JSON cannot have does not tell what stands behind it, or in it.
func TestKeys(t *testing.T) {
	for _, text := range []string{
		"{null: S3CRET}", "a: {~: {b: S3CRET}}", "? [S3CRET]\n: a", "? {a: S3CRET}\n: b", "- {? : S3CRET}",
	} {
		var into any
		_, plain := boundedyaml.ToJSON([]byte(text), boundedyaml.Limit)
		_, strict := boundedyaml.ToJSONStrict([]byte(text), boundedyaml.Limit)
		for _, err := range []error{plain, strict, boundedyaml.Unmarshal([]byte(text), &into, boundedyaml.Limit)} {
			if !errors.Is(err, boundedyaml.ErrKey) {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	for text, want := range map[string]string{"1: a": `{"1":"a"}`, "true: a": `{"true":"a"}`, "1.5: a": `{"1.5":"a"}`, "'null': a": `{"null":"a"}`} {
		if got, err := boundedyaml.ToJSON([]byte(text), boundedyaml.Limit); err != nil || string(got) != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}
