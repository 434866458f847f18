package kubelet

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

// expandAll replaces references to variables in each text.
func expandAll(texts []string, env []cri.EnvVar) []string {
	if len(texts) == 0 {
		return nil
	}
	values := make(map[string]string, len(env))
	for _, e := range env {
		values[e.Name] = e.Value
	}
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = expand(text, values)
	}
	return out
}

// expand replaces $(NAME) by the variable's value where there is such a variable; $$ is one $, so
// that $$(NAME) is the text $(NAME).
func expand(text string, values map[string]string) string {
	var out strings.Builder
	for {
		at := strings.IndexByte(text, '$')
		if at < 0 || at+1 == len(text) {
			break
		}
		out.WriteString(text[:at])
		text = text[at:]
		end := strings.IndexByte(text, ')')
		switch {
		case text[1] == '$':
			out.WriteByte('$')
			text = text[2:]
		case text[1] == '(' && end > 0:
			if value, known := values[text[2:end]]; known {
				out.WriteString(value)
			} else {
				out.WriteString(text[:end+1])
			}
			text = text[end+1:]
		case text[1] == '(':
			out.WriteString("$(")
			text = text[2:]
		default:
			out.WriteString(text[:2])
			text = text[2:]
		}
	}
	out.WriteString(text)
	return out.String()
}

// literal are the variables whose values the spec itself has.
func literal(c *corev1.Container) []cri.EnvVar {
	var env []cri.EnvVar
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			env = append(env, cri.EnvVar{Name: e.Name, Value: e.Value})
		}
	}
	return env
}
