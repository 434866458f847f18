package jsonpatch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	library "gopkg.in/evanphx/json-patch.v4"

	"github.com/keelson-dev/keelson/internal/jsonpatch"
)

func apply(document, patch string) (string, error) {
	p, err := jsonpatch.Decode([]byte(patch))
	if err != nil {
		return "", err
	}
	after, err := p.Apply(context.Background(), []byte(document))
	return string(after), err
}

// libraryApply is the library's Apply, with panics recovered.
func libraryApply(document, patch string) (after string, err error, panicked bool) {
	defer func() { panicked = recover() != nil }()
	p, err := library.DecodePatch([]byte(patch))
	if err != nil {
		return "", err, false
	}
	done, err := p.Apply([]byte(document))
	return string(done), err, false
}

func words(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func compareApply(t *testing.T, document, patch string) {
	t.Helper()
	want, wantErr, panicked := libraryApply(document, patch)
	got, err := apply(document, patch)
	if panicked {
		return
	}
	if got != want || words(err) != words(wantErr) {
		t.Errorf("%s with %s:\n got %s %v\nwant %s %v", document, patch, got, err, want, wantErr)
	}
}

func compareMerge(t *testing.T, document, patch string) {
	t.Helper()
	want, wantErr := library.MergePatch([]byte(document), []byte(patch))
	got, err := jsonpatch.Merge([]byte(document), []byte(patch))
	if !bytes.Equal(got, want) || words(err) != words(wantErr) {
		t.Errorf("%s with %s:\n got %s %v\nwant %s %v", document, patch, got, err, want, wantErr)
	}
}

// chance makes random documents and patches with few names, so that they often match.
type chance struct{ *rand.Rand }

func (c chance) of(texts ...string) string { return texts[c.IntN(len(texts))] }

func (c chance) key() string {
	return c.of(`"a"`, `"b"`, `"c"`, `"0"`, `"a/b"`, `"~"`, `"\u0061"`, `"<é>"`, `""`, `"-"`, "\"\u2028\"")
}

func (c chance) space() string { return c.of("", "", "", " ", "\n\t", "\r ") }

func (c chance) value(depth int) string {
	if n := c.IntN(5); depth > 0 && n < 3 {
		var members []string
		for range c.IntN(4) {
			member := c.space() + c.value(depth-1) + c.space()
			if n < 2 {
				member = c.space() + c.key() + c.space() + ":" + member
			}
			members = append(members, member)
		}
		if n < 2 {
			return "{" + c.space() + strings.Join(members, ",") + "}"
		}
		return "[" + strings.Join(members, ",") + c.space() + "]"
	}
	return c.of("null", "1", "1.0", "-2e3", "true", "false", `""`, `"x"`, `"<&>"`, `"\u003c"`, `"a\\\"b"`, "\"\u2029é\"", "{}", "[]", `{"a":null}`)
}

func (c chance) path() string {
	var path strings.Builder
	for range c.IntN(5) {
		path.WriteString(c.of("/", "/", "/", "/", "") + c.of("a", "b", "c", "0", "1", "-1", "-", "a~1b", "~0", "<é>", "", "x", "9", "-9", "\u2028"))
	}
	return path.String()
}

func (c chance) patch() string {
	var operations []string
	for range c.IntN(6) {
		var parts []string
		for _, part := range []string{
			`"op":"` + c.of("add", "remove", "replace", "move", "test", "copy", "add", "copy", "jump") + `"`,
			fmt.Sprintf(`"path":%q`, c.path()), fmt.Sprintf(`"from":%q`, c.path()), `"value":` + c.value(3),
		} {
			switch c.IntN(20) {
			case 0: // left out
			case 1:
				name, _, _ := strings.Cut(part, ":")
				parts = append(parts, name+":"+c.of("null", "1", `"x"`))
			default:
				parts = append(parts, part)
			}
		}
		operations = append(operations, "{"+strings.Join(parts, ",")+"}")
	}
	return "[" + strings.Join(operations, ",") + "]"
}

// TestAsTheLibrary compares results with the library's, including error texts and the order of members.
func TestAsTheLibrary(t *testing.T) {
	c := chance{rand.New(rand.NewPCG(5, 6))}
	for range 10000 {
		document := c.value(4)
		for document[0] != '{' && c.IntN(10) > 0 {
			document = c.value(4)
		}
		compareApply(t, document, c.patch())
		compareMerge(t, document, c.value(4))
		if t.Failed() {
			return
		}
	}
}

// FuzzAsTheLibrary is TestAsTheLibrary for any text.
func FuzzAsTheLibrary(f *testing.F) {
	c := chance{rand.New(rand.NewPCG(7, 8))}
	for range 50 {
		f.Add(c.value(4), c.patch(), c.value(4))
	}
	f.Add("null", "[]", "A")
	f.Add("A", "[]", "null")
	f.Add("\f[]", "0", "0")
	f.Fuzz(func(t *testing.T, document, patch, merge string) {
		if len(patch) > 2000 || strings.Count(patch, "copy") > 10 {
			return // which the library does not limit
		}
		if !strings.HasPrefix(strings.TrimLeft(document, " \t\r\n"), "[") || document[0] == '[' {
			compareApply(t, document, patch)
		}
		compareMerge(t, document, merge)
	})
}

// TestCopies: copies are limited, with upstream's error, before they use memory.
func TestCopies(t *testing.T) {
	double := `[{"op":"add","path":"/a","value":{"b":"xxxxxxxxxx"}}`
	for i := range 40 {
		double += fmt.Sprintf(`,{"op":"copy","from":"/a","path":"/a/c%d"}`, i)
	}
	double += "]"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := apply(`{}`, double)
	runtime.ReadMemStats(&after)
	if want := "Unable to complete the copy, the accumulated size increase of copy is "; err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), ", exceeding the limit 3145728") {
		t.Errorf("40 copies: %v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 20*jsonpatch.MaxCopied {
		t.Errorf("40 copies allocated %d bytes", used)
	}
	// The value is 1 MiB, so three copies reach the limit.
	large := `{"a":"` + strings.Repeat("x", 1<<20-2) + `"}`
	three := `{"op":"copy","from":"/a","path":"/b"},{"op":"copy","from":"/a","path":"/c"},{"op":"copy","from":"/a","path":"/d"}`
	if _, err := apply(large, "["+three+"]"); err != nil {
		t.Errorf("three copies of 1 MiB: %v", err)
	}
	const want = "Unable to complete the copy, the accumulated size increase of copy is 3145729, exceeding the limit 3145728"
	if _, err := apply(large, `[{"op":"add","path":"/n","value":1},`+three+`,{"op":"copy","from":"/n","path":"/m"}]`); words(err) != want {
		t.Errorf("a byte more: %v, want %s", err, want)
	}
	if library.AccumulatedCopySizeLimit != 0 {
		t.Errorf("the library's limit is set for the whole process: %d", library.AccumulatedCopySizeLimit)
	}
}

// TestDepthAllocates: the cost of a deep patch is proportional to its size, wherever the depth is.
func TestDepthAllocates(t *testing.T) {
	const depth = 9000
	payload := `"` + strings.Repeat("x", 1<<20) + `"`
	deep := strings.Repeat(`{"a":`, depth) + payload + strings.Repeat("}", depth)
	for name, run := range map[string]func() error{
		"merge": func() error {
			_, err := jsonpatch.Merge([]byte(deep), []byte(strings.Replace(deep, payload, `{"b":`+payload+`}`, 1)))
			return err
		},
		"merge into nothing": func() error {
			_, err := jsonpatch.Merge([]byte(`{}`), []byte(deep))
			return err
		},
		"test": func() error {
			_, err := apply(deep, fmt.Sprintf(`[{"op":"test","path":%q,"value":%s}]`, strings.Repeat("/a", depth), payload))
			return err
		},
		"add": func() error {
			_, err := apply(`{}`, fmt.Sprintf(`[{"op":"add","path":"/a","value":%s},{"op":"remove","path":%q}]`, deep, strings.Repeat("/a", depth)))
			return err
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := run()
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err != nil || used > 40<<20 {
			t.Errorf("%s: %d MiB, %v", name, used>>20, err)
		}
	}
}

// TestDeeper: no document becomes deeper than encoding/json reads.
func TestDeeper(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 6000) + "1" + strings.Repeat("}", 6000)
	_, err := apply(`{"a":`+deep+`}`, fmt.Sprintf(`[{"op":"add","path":%q,"value":%s}]`, strings.Repeat("/a", 6000), deep))
	if words(err) != "exceeded max depth" {
		t.Errorf("got %v", err)
	}
	if _, err := jsonpatch.Merge([]byte(`{}`), []byte(strings.Repeat(`{"a":`, 10001)+"1"+strings.Repeat("}", 10001))); !errors.Is(err, jsonpatch.ErrMalformed) {
		t.Errorf("merge: %v", err)
	}
}

// TestEnds: a patch whose client is gone stops between two operations.
func TestEnds(t *testing.T) {
	p, err := jsonpatch.Decode([]byte(`[{"op":"test","path":"/a","value":1}]`))
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Apply(gone, []byte(`{"a":1}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestMalformedOperations: incomplete operations are rejected where the library panics.
func TestMalformedOperations(t *testing.T) {
	for _, operation := range []string{
		`{"op":"replace","path":""}`, `{"op":"test","path":""}`,
		`{"op":"add","path":"/null/x","value":1}`, `{"op":"replace","path":"/null/x","value":1}`, `{"op":"add"}`, `{}`, `null`,
	} {
		patch := `[{"op":"add","path":"/v","value":null},{"op":"copy","from":"/v","path":"/null"},` + operation + `]`
		if after, err := apply(`{"a":[null]}`, patch); err == nil {
			t.Errorf("%s: %s", operation, after)
		}
	}
	if _, err := apply(`{"a":[null]}`, `[{"op":"test","path":"/a","value":[null]}]`); err != nil {
		t.Errorf("a null in a list: %v", err)
	}
}

func ExampleMerge() {
	after, err := jsonpatch.Merge([]byte(`{"keep":1,"drop":2}`), []byte(`{"drop":null,"add":{"a":3}}`))
	fmt.Println(string(after), err)
	// Output: {"add":{"a":3},"keep":1} <nil>
}
