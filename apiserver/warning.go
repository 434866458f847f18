package apiserver

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Upstream's limits of warnings, in runes: of all together, and of each once these are exceeded.
const (
	maxWarnings = 4 << 10
	maxWarning  = 256
)

// warnings are those of one answer.
type warnings struct {
	told  map[string]bool
	texts []string // until they are cut
	runes int      // of what stands in the header
	cut   bool     // there are too many: each is cut short, and the last left out
}

// warn adds a warning to the answer (RFC 7234, 5.5), once. As upstream's, many are cut short so that the
// header stays small.
func (c *call) warn(text string) { c.warnings.add(c.w.Header(), text) }

func (w *warnings) add(to http.Header, text string) {
	if text == "" || w.cut && w.runes >= maxWarnings || w.told[text] {
		return
	}
	if w.told == nil {
		w.told = map[string]bool{}
	}
	w.told[text] = true
	if !w.cut && w.runes+utf8.RuneCountInString(text) <= maxWarnings {
		w.texts = append(w.texts, text)
		w.write(to, text)
		return
	}
	if !w.cut {
		w.cut, w.runes = true, 0
		to.Del("Warning")
		for _, earlier := range w.texts {
			w.write(to, short(earlier))
		}
		w.texts = nil
	}
	w.write(to, short(text))
}

func (w *warnings) write(to http.Header, text string) {
	header, err := utilnet.NewWarningHeader(299, "-", text)
	if err != nil {
		return // a text that cannot stand in a header
	}
	w.runes += utf8.RuneCountInString(text)
	to.Add("Warning", header)
}

// short is the beginning of a text.
func short(text string) string {
	n := 0
	for at := range text {
		if n == maxWarning {
			return text[:at]
		}
		n++
	}
	return text
}

// warnStrict warns of what a lenient decoding passed over.
func (c *call) warnStrict(strict []error) {
	for _, err := range strict {
		// YAML reports several at once.
		text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: unmarshal errors:\n")
		for line := range strings.SplitSeq(text, "\n") {
			c.warn(strings.TrimSpace(line))
		}
	}
}

// dedupOwners drops owner references that stand in obj twice, and warns of them; when tells at
// which point of the request they were found.
func (c *call) dedupOwners(obj metav1.Object, when string) {
	kept, again := once(obj.GetOwnerReferences(), ownerOf)
	twice, _ := once(again, func(ref metav1.OwnerReference) types.UID { return ref.UID })
	if len(twice) == 0 {
		return
	}
	obj.SetOwnerReferences(kept)
	uids := make([]string, len(twice))
	for i, ref := range twice {
		uids[i] = string(ref.UID)
	}
	c.warn(fmt.Sprintf(".metadata.ownerReferences contains duplicate entries%s; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %s",
		when, strings.Join(uids, ", ")))
}

// once splits what stands in a list for the first time, by its key, from what stands there again. It looks
// at each element once: a request may bring a hundred thousand.
func once[T any, K comparable](all []T, key func(T) K) (first, again []T) {
	known := make(map[K]bool, len(all))
	for _, e := range all {
		k := key(e)
		if known[k] {
			again = append(again, e)
			continue
		}
		known[k] = true
		first = append(first, e)
	}
	return first, again
}

// owner is an owner reference that can be compared.
type owner struct {
	metav1.OwnerReference     // without its pointers
	controller, blockDeletion choice
}

// choice is a *bool that can be compared: unset, false or true.
type choice int8

func ownerOf(ref metav1.OwnerReference) owner {
	o := owner{ref, choiceOf(ref.Controller), choiceOf(ref.BlockOwnerDeletion)}
	o.Controller, o.BlockOwnerDeletion = nil, nil
	return o
}

func choiceOf(b *bool) choice {
	switch {
	case b == nil:
		return 0
	case *b:
		return 2
	}
	return 1
}
