// Package expansion resolves references to variables, $(NAME), in strings of a pod's spec.
package expansion

import (
	"strings"
	"unicode/utf8"

	"github.com/keelson-dev/keelson/cri"
)

// Args replaces each $(NAME) in the arguments by the value of that variable, and leaves it unchanged if there is no
// such variable. $$ stands for a $ that begins no reference. Without arguments it returns none.
func Args(args []string, env []cri.EnvVar) []string {
	if len(args) == 0 {
		return nil
	}
	values := make(map[string]string, len(env))
	for _, e := range env {
		values[e.Name] = e.Value
	}
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = Text(a, func(name string) (string, bool) {
			value, ok := values[name]
			return value, ok
		})
	}
	return out
}

// Text replaces each $(NAME) by what lookup returns for it, and leaves it unchanged if lookup returns false. $$ stands
// for a $ that begins no reference.
func Text(s string, lookup func(name string) (value string, ok bool)) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		if rest == "" { // the last character stands for itself
			out.WriteByte('$')
			return out.String()
		}
		switch rest[0] {
		case '$':
			out.WriteByte('$')
			s = rest[1:]
		case '(':
			name, after, closed := strings.Cut(rest[1:], ")")
			if !closed {
				out.WriteString("$(")
				s = rest[1:]
				continue
			}
			value, ok := lookup(name)
			if !ok {
				value = "$(" + name + ")"
			}
			out.WriteString(value)
			s = after
		default:
			// Upstream copies the character after the $ with it; invalid UTF-8 becomes the replacement character.
			r, size := utf8.DecodeRuneInString(rest)
			out.WriteByte('$')
			out.WriteRune(r)
			s = rest[size:]
		}
	}
}
