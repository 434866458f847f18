package transcript

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// headers returns the headers that are compared.
func headers(h http.Header) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"Allow", "Content-Type", "Retry-After", "Warning", "X-Content-Type-Options", "Www-Authenticate", "Location", "Cache-Control"} {
		if v := h.Values(name); len(v) > 0 {
			out[name] = strings.Join(v, ", ")
		}
	}
	return out
}

var (
	uuid      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	revisions = regexp.MustCompile(`(resource version: |current: |ResourceVersion: |ResourceVersion in the precondition \(|ResourceVersion in record \(|version: \d+ \()\d+`)
	ownership = regexp.MustCompile(`,\\*"managedFields\\*":\[.*?\}\]`)
	version   = regexp.MustCompile(`(resourceVersion\\*":\\*")\d+`)
	// The ages that tables of objects show.
	age = regexp.MustCompile(`^\d+[smhdy](\d+[smh])?$`)
	// Generated names in tables of requests begin with "A_" or "ns-".
	generated = regexp.MustCompile(`\b(A_|ns-)[a-z0-9]{5}\b`)
)

func mask(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return maskObject(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = mask(v[i])
		}
		return out
	case string:
		return maskText(v)
	}
	return v
}

func maskText(s string) string {
	s = uuid.ReplaceAllString(s, "<uid>")
	s = timestamp.ReplaceAllString(s, "<time>")
	s = ownership.ReplaceAllString(s, "")
	s = version.ReplaceAllString(s, "${1}<revision>")
	s = generated.ReplaceAllString(s, "${1}<suffix>")
	for range 2 { // one match may end where the next begins
		s = revisions.ReplaceAllString(s, "${1}<revision>")
	}
	return s
}

// owned moves the managed fields of objects to where they are not masked. Their order depends on the second of each
// write, and that of conflicts is random upstream.
func owned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, v := range v {
			if key == "managedFields" {
				key = "owners"
			}
			if list, ok := v.([]any); ok && (key == "owners" || key == "causes") {
				v = slices.SortedFunc(slices.Values(list), func(a, b any) int { return strings.Compare(show(mask(a)), show(mask(b))) })
			}
			out[key] = owned(v)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = owned(v[i])
		}
		return out
	}
	return v
}

// maskObject also masks fields by name, and removes field ownership.
func maskObject(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for key, v := range m {
		text, isText := v.(string)
		switch {
		case key == "managedFields", key == "storageVersionHash":
			continue
		case key == "resourceVersion" && isText && text != "" && text != "0":
			v = "<revision>"
		case key == "continue" && isText && text != "":
			v = "<continue>"
		case key == "clusterIP" && isText && strings.Contains(text, "."):
			v = "<address>"
		case key == "serverAddress":
			v = "<address>"
		case key == "clusterIPs":
			v = "<addresses>"
		case key == "cells":
			v = maskAges(v)
		case key == "nodePort" || key == "healthCheckNodePort":
			v = "<port>"
		case key == "name" && isText && isGenerated(m, text):
			v = m["generateName"].(string) + "<suffix>"
		default:
			v = mask(v)
		}
		out[key] = v
	}
	return out
}

func maskAges(cells any) any {
	masked, ok := mask(cells).([]any)
	if !ok {
		return cells
	}
	for i, cell := range masked {
		if text, ok := cell.(string); ok && age.MatchString(text) {
			masked[i] = "<age>"
		}
	}
	return masked
}

func isGenerated(meta map[string]any, name string) bool {
	base, ok := meta["generateName"].(string)
	base = base[:min(len(base), 58)]
	return ok && strings.HasPrefix(name, base) && len(name) == len(base)+5
}
