package expansion_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/environment/expansion"
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
		if got := expansion.Args([]string{in}, env); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := expansion.Args(nil, env); got != nil {
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
		same := expansion.Text(s, func(string) (string, bool) { return "", false })
		if !strings.Contains(s, "$$") && same != s {
			t.Errorf("%q became %q", s, same)
		}
		if got := expansion.Text(strings.ReplaceAll(s, "$", "$$"), func(string) (string, bool) { return "?", true }); got != s {
			t.Errorf("%q, escaped, became %q", s, got)
		}
	})
}
