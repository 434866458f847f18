package environment_test

import (
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/kubelet/environment"
)

func TestParseFile(t *testing.T) {
	for name, c := range map[string]struct{ text, want, err string }{
		"simple":      {"KEY='value'", "value", ""},
		"among":       {"A='1'\n\n  # comment\n\tKEY='v w' # more\nB=bad", "v w", ""},
		"lines":       {"KEY='one\ntwo\n\nthree'\n", "one\ntwo\n\nthree", ""},
		"quotes":      {`KEY='"$X" \n'`, `"$X" \n`, ""},
		"crlf":        {"KEY='x'\r\nA='1'", "x", ""},
		"empty":       {"KEY=''", "", ""},
		"space":       {"KEY= 'x'", "", ""},
		"missing":     {"A='1'", "", ""},
		"nothing":     {"", "", ""},
		"hash":        {"KEY='a#b'", "a#b", ""},
		"equals":      {"KEY='a=b'", "a=b", ""},
		"noEquals":    {"A='1'\nKEY", "", "invalid environment variable format at line 2: missing '='"},
		"noName":      {"='x'", "", "invalid environment variable format at line 1: empty variable name"},
		"spaceBefore": {"KEY ='x'", "", "invalid environment variable format at line 1: whitespace before '=' is not allowed"},
		"bare":        {"KEY=x", "", "invalid environment variable format at line 1: value must be enclosed in single quotes"},
		"double":      {`KEY="x"`, "", "invalid environment variable format at line 1: value must be enclosed in single quotes"},
		"after":       {"\nKEY='x'y", "", "invalid environment variable format at line 2: unexpected content after closing quote"},
		"unclosed":    {"A='1'\nKEY='x\ny", "", "invalid environment variable format starting at line 2: unclosed single quote"},
		"longLine":    {"KEY='" + strings.Repeat("x", 70_000), "", "error reading environment variable file: bufio.Scanner: token too long"},
	} {
		got, err := environment.ParseFile(strings.NewReader(c.text), "KEY")
		if got != c.want || c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add("KEY='a\nb' # x\n#\nA= 'x'\n")
	f.Fuzz(func(t *testing.T, text string) {
		value, err := environment.ParseFile(strings.NewReader(text), "KEY")
		if err == nil && (strings.Contains(value, "'") || value != "" && !strings.Contains(text, "KEY='")) {
			t.Errorf("%q gave %q", text, value)
		}
	})
}
