package environment_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/environment"
)

// TestExpand has upstream's table of references.
func TestExpand(t *testing.T) {
	env := []cri.EnvVar{{Name: "VAR_A", Value: "A"}, {Name: "VAR_B", Value: "B"}, {Name: "VAR_C", Value: "C"}, {Name: "VAR_REF", Value: "$(VAR_A)"}, {Name: "VAR_EMPTY"}}
	for in, want := range map[string]string{
		"$(VAR_A)": "A", "___$(VAR_B)___": "___B___", "___$(VAR_C)": "___C", "$(VAR_A)-1": "A-1",
		"$(VAR_A)_$(VAR_B)_$(VAR_C)": "A_B_C", "$(VAR_B)_$(VAR_A)": "B_A", "$$(VAR_B)_$(VAR_A)": "$(VAR_B)_A", "$$(VAR_A)_$$(VAR_B)": "$(VAR_A)_$(VAR_B)",
		"f000-$$VAR_A": "f000-$VAR_A", "foo\\$(VAR_C)bar": "foo\\Cbar", "foo\\\\$(VAR_C)bar": "foo\\\\Cbar", "foo$(VAR_EMPTY)bar": "foobar",
		"$(VAR_A$(VAR_B)": "$(VAR_A$(VAR_B)", "$(VAR_A$(VAR_B))": "$(VAR_A$(VAR_B))", "$$$$$$$(VAR_A)": "$$$A", "$$$$$$$(VAR_A)$$$(VAR_B)": "$$$A$B",
		"$VAR_A": "$VAR_A", "$(VAR_A": "$(VAR_A", "$": "$", "$$": "$", "": "", "$(": "$(", "$()": "$()", "$(VAR_REF)": "$(VAR_A)", "$(MISSING)": "$(MISSING)",
		"$VAR_A$(VAR_A)": "$VAR_AA", "a$": "a$", "$)": "$)", "$é$(VAR_A)": "$éA", "$(VAR_A$$(VAR_B)": "$(VAR_A$$(VAR_B)", "$?_boo_$!": "$?_boo_$!", "$ (VAR_A)": "$ (VAR_A)",
		"\n$(VAR_A)\n": "\nA\n", "$((VAR_A))": "$((VAR_A))", "$(VAR_DNE)$(VAR_A)": "$(VAR_DNE)A", "$\xff(": "$\uFFFD(",
	} {
		if got := environment.Expand([]string{in}, env); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := environment.Expand(nil, env); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"$(A)", "$$(A)", "$($(A))", "$", "$(", "x$é$$$"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		// References that have no value stay, so only pairs of $ get shorter.
		same := environment.ExpandFunc(s, func(string) (string, bool) { return "", false })
		if !strings.Contains(s, "$$") && same != s {
			t.Errorf("%q became %q", s, same)
		}
		if got := environment.ExpandFunc(strings.ReplaceAll(s, "$", "$$"), func(string) (string, bool) { return "?", true }); got != s {
			t.Errorf("%q, escaped, became %q", s, got)
		}
	})
}

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
