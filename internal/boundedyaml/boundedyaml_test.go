package boundedyaml_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// wide is a text of some size bytes in which half is one value and the rest names it again and again.
func wide(size int) []byte {
	return []byte("a: &a " + strings.Repeat("x", size/2) + "\nb: [" + strings.Repeat("*a,", size/6) + "]\n")
}

// laughs is nine lists of nine, each of the one before.
func laughs() []byte {
	var b strings.Builder
	b.WriteString("a0: &a0 lol\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return []byte(b.String())
}

// chain nests one alias in the next.
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

// utf16 writes ASCII in two bytes a letter.
func utf16(text []byte) []byte {
	out := []byte{0xff, 0xfe}
	for _, c := range text {
		out = append(out, c, 0)
	}
	return out
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestRefused: every way in refuses what would come to more than the limit, before it is built.
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
		"deep":   {chain(boundedyaml.MaxDepth + 1), boundedyaml.ErrTooLarge}, // it is large long before
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
				return // what is written is as large as it was
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

// TestLimit: the limit is that of what the aliases come to, to the byte.
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

// TestDepth: nesting is bounded where it is written out and where aliases make it.
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

// TestOrdinary: what is in bounds is read as by the library, its errors too.
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

// TestDuplicates: of many equal keys not all are told.
func TestDuplicates(t *testing.T) {
	_, duplicates, err := boundedyaml.Convert([]byte(strings.Repeat("a: 1\n", 1000)), boundedyaml.Limit)
	if err != nil || duplicates == nil || strings.Count(duplicates.Error(), "\n") != 101 || !strings.HasSuffix(duplicates.Error(), "\n  and 899 more") {
		t.Errorf("%v, %v", duplicates, err)
	}
}

// FuzzCheck: what passes comes to no more than a few times its limit, and what fails fails in the library.
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
		if err != nil && failed == nil {
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
