package apiserver

import (
	"net/http"
	"unicode/utf8"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Upstream's limits of warnings, in runes: of all together, and of each once these are exceeded.
const (
	maxWarnings = 4 << 10
	maxWarning  = 256
)

// warnings are the warnings of one answer.
type warnings struct {
	seen  map[string]bool
	texts []string // in full, until there are too many
	runes int      // in the header
	cut   bool     // there are too many: each is cut short, and the last are left out
}

func (w *warnings) add(to http.Header, text string) {
	if text == "" || w.cut && w.runes >= maxWarnings || w.seen[text] {
		return
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[text] = true
	if !w.cut && w.runes+utf8.RuneCountInString(text) <= maxWarnings {
		w.texts = append(w.texts, text)
		w.write(to, text)
		return
	}
	if !w.cut {
		w.cut, w.runes = true, 0
		to.Del("Warning")
		for _, earlier := range w.texts {
			w.write(to, truncateWarning(earlier))
		}
		w.texts = nil
	}
	w.write(to, truncateWarning(text))
}

func (w *warnings) write(to http.Header, text string) {
	header, err := utilnet.NewWarningHeader(299, "-", text)
	if err != nil {
		return // not a text for a header
	}
	w.runes += utf8.RuneCountInString(text)
	to.Add("Warning", header)
}

// truncateWarning returns the beginning of a text.
func truncateWarning(text string) string {
	n := 0
	for at := range text {
		if n == maxWarning {
			return text[:at]
		}
		n++
	}
	return text
}
