package boundedcbor_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/internal/boundedcbor"
)

func TestToJSON(t *testing.T) {
	for name, test := range map[string]struct{ data, want string }{
		"a map":                    {"\xa2\x61a\x01\x61b\x20", `{"a":1,"b":-1}`},
		"with the mark":            {boundedcbor.Mark + "\x80", `[]`},
		"of an indefinite length":  {"\x9f\x01\x02\xff", `[1,2]`},
		"text of such":             {"\x7f\x61a\x61b\xff", `"ab"`},
		"bytes":                    {"\x43abc", `"abc"`},
		"bytes to show as base64":  {"\xd6\x43abc", `"YWJj"`},
		"large":                    {"\x1b\x7f\xff\xff\xff\xff\xff\xff\xff", `9223372036854775807`},
		"a float":                  {"\xfb\x3f\xf8\x00\x00\x00\x00\x00\x00", `1.5`},
		"simple values":            {"\x83\xf4\xf5\xf6", `[false,true,null]`},
		"too large an integer":     {"\x1b\xff\xff\xff\xff\xff\xff\xff\xff", "!"},
		"a number that JSON lacks": {"\xf9\x7e\x00", "!"},
		"undefined":                {"\xf7", "!"},
		"cut short":                {"\x82\x01", "!"},
		"a length cut short":       {"\x5b\x00", "!"},
		"a length beyond the end":  {"\x5b\xff\xff\xff\xff\xff\xff\xff\xffa", "!"},
		"more than one":            {"\x01\x01", "!"},
		"a key twice":              {"\xa2\x61a\x01\x61a\x01", "!"},
		"a number for a key":       {"\xa1\x01\x01", "!"},
		"no text":                  {"\x62\xff\xff", "!"},
		"nothing":                  {"", "!"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := boundedcbor.ToJSON([]byte(test.data), 1<<20)
			if err != nil && test.want == "!" && !errors.Is(err, boundedcbor.ErrTooLarge) {
				return
			}
			if err != nil || string(got) != test.want {
				t.Errorf("%s, %v, want %s", got, err, test.want)
			}
		})
	}
}

// TestMemory: what takes much is refused before it does; what people write is not.
func TestMemory(t *testing.T) {
	const size, memory = 1 << 20, 16 << 20
	list := func(element string) []byte {
		n := size / len(element)
		return append([]byte{0x9a, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, strings.Repeat(element, n)...)
	}
	for name, element := range map[string]string{
		"maps": "\xa0", "lists": "\x80", "open lists": "\x9f\xff", "numbers": "\x01", "texts": "\x60", "tagged": "\xd6\x40", "pairs": "\xa1\x61a\x80",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := boundedcbor.ToJSON(list(element), memory)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 2*memory {
				t.Errorf("it took %d MB", took>>20)
			}
			if !errors.Is(err, boundedcbor.ErrTooLarge) {
				t.Errorf("error %v", err)
			}
		})
	}
	if _, err := boundedcbor.ToJSON(list("\xa1\x64name\x78\x40"+strings.Repeat("x", 64)), memory); err != nil {
		t.Errorf("maps with names: %v", err)
	}
}

func FuzzConvert(f *testing.F) {
	f.Add([]byte("\xa2\x61a\x01\x61b\xfb\x3f\xf8\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x9f\xd6\x43abc\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		document, err := boundedcbor.ToJSON(data, 1<<20)
		if err != nil {
			return
		}
		back, err := boundedcbor.FromJSON(document)
		if err != nil {
			t.Fatalf("%s: %v", document, err)
		}
		if !bytes.HasPrefix(back, []byte(boundedcbor.Mark)) {
			t.Errorf("%x has no mark", back)
		}
		again, err := boundedcbor.ToJSON(back, 1<<24)
		if err != nil {
			t.Fatalf("%s, %x: %v", document, back, err)
		}
		var one, two any
		if json.Unmarshal(document, &one) != nil || json.Unmarshal(again, &two) != nil || !reflect.DeepEqual(one, two) {
			t.Errorf("%s became %s", document, again)
		}
	})
}
