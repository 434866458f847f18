package audit

import (
	"bytes"
	"encoding/json"
)

// cutAnnotationValue is cut for an annotation, and tells how many entries of lists it left out: a JSON value in it, which
// programs read, stays one. Its texts are cut first, then its lists, at any depth.
func cutAnnotationValue(value string) (kept string, rest int) {
	if len(value) <= maxAnnotation {
		return value, 0
	}
	if value[0] != '[' && value[0] != '{' {
		return cut(value, maxAnnotation), 0
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(value)))
	decoder.UseNumber()
	var parsed any
	if err := decoder.Decode(&parsed); err != nil || decoder.More() {
		return cut(value, maxAnnotation), 0
	}
	const nameLimit = 256            // that of most names
	for _, limits := range [][2]int{ // of texts, in bytes, and of lists
		{1024, maxAnnotation}, {512, maxAnnotation}, {nameLimit, maxAnnotation}, {nameLimit, 64}, {nameLimit, 32}, {nameLimit, 16}, {nameLimit, 8},
		{nameLimit, 6}, {nameLimit, 4}, {nameLimit, 2}, {64, 2}, {16, 1},
	} {
		short, rest := shorten(parsed, limits[0], limits[1])
		if text, err := json.Marshal(short); err == nil && len(text) <= maxAnnotation {
			return string(text), rest
		}
	}
	if _, rest = shorten(parsed, 0, 0); value[0] == '[' {
		return "[]", rest
	}
	return "{}", rest
}

// shorten returns a JSON value with its texts and lists cut, and the number of entries that lists have lost.
func shorten(value any, texts, lists int) (short any, rest int) {
	switch value := value.(type) {
	case string:
		return cut(value, texts), 0
	case []any:
		kept := value[:min(len(value), lists)]
		out := make([]any, len(kept))
		rest = len(value) - len(kept)
		for i, v := range kept {
			var more int
			out[i], more = shorten(v, texts, lists)
			rest += more
		}
		return out, rest
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, v := range value {
			var more int
			out[name], more = shorten(v, texts, lists)
			rest += more
		}
		return out, rest
	}
	return value, 0
}
