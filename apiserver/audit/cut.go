package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/authn"
)

// What clients say about themselves and about what they want is recorded up to these sizes, in bytes, so that an event
// without objects stays small whatever the request. Valid names are never cut.
const (
	// maxUserAgent bounds the User-Agent, as upstream does.
	maxUserAgent  = 1024
	maxURI        = 2048
	maxName       = 512
	maxVerb       = 64
	maxMessage    = 1024
	maxAnnotation = 4096
	maxClaims     = 16 << 10 // all groups of a user together, and all that is said of them beside
	maxSources    = 16
	maxCauses     = 16
)

// quotes is what JSON puts around each text of a list.
const quotes = 3

// cutAnnotation is the annotation with what was left out of lists.
const cutAnnotation = "audit.keelson.dev/cut"

// cut shortens a text to limit bytes and a mark that says so.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	n := limit
	for n > limit-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return fmt.Sprintf("%s...[%d bytes cut]", text[:n], len(text)-n)
}

// claims returns as many texts of a list as fit, each of them cut, and how many more there were.
func claims(list []string, room int) (kept []string, rest int) {
	for i, text := range list {
		text = cut(text, maxName)
		if room -= len(text) + quotes; room < 0 {
			return kept, len(list) - i
		}
		kept = append(kept, text)
	}
	return kept, 0
}

// userInfo describes an identity, and says what it leaves out, by the names of fields in the event.
func userInfo(id *authn.Identity, name string) (u authnv1.UserInfo, omitted string) {
	u = authnv1.UserInfo{Username: cut(id.Name, maxName), UID: cut(id.UID, maxName)}
	var words []string
	var rest int
	if u.Groups, rest = claims(id.Groups, maxClaims); rest > 0 {
		words = append(words, fmt.Sprintf("%d groups of %s", rest, name))
	}
	u.Extra, rest = extraOf(id.Extra)
	if rest > 0 {
		words = append(words, fmt.Sprintf("extra of %s under %d keys", name, rest))
	}
	return u, strings.Join(words, ", ")
}

// extraOf returns what is recorded of extra, in the order of its keys, and for how many keys that is incomplete.
func extraOf(extra map[string][]string) (kept map[string]authnv1.ExtraValue, rest int) {
	room := maxClaims
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		if room -= len(key); room < 0 || len(key) > maxName {
			rest++
			continue
		}
		values, more := claims(extra[key], room)
		for _, value := range values {
			room -= len(value) + quotes
		}
		if more > 0 {
			rest++
		}
		if kept == nil {
			kept = map[string]authnv1.ExtraValue{}
		}
		kept[key] = values
	}
	return kept, rest
}

// sources are the addresses that a request came from, the nearest last, which cannot be forged.
func sources(all []string) (kept []string, omitted string) {
	if len(all) <= maxSources {
		return all, ""
	}
	return append(slices.Clone(all[:maxSources-1]), all[len(all)-1]), fmt.Sprintf("%d source IPs", len(all)-maxSources)
}

// statusOf is what is recorded of a Status.
func statusOf(s *metav1.Status) *metav1.Status {
	own := &metav1.Status{Status: s.Status, Message: cut(s.Message, maxMessage), Reason: s.Reason, Code: s.Code}
	if s.Details == nil {
		return own
	}
	own.Details = s.Details.DeepCopy()
	d := own.Details
	d.Name, d.Group, d.Kind, d.UID = cut(d.Name, maxName), cut(d.Group, maxName), cut(d.Kind, maxName), types.UID(cut(string(d.UID), maxName))
	if n := len(d.Causes); n > maxCauses {
		d.Causes = append(d.Causes[:maxCauses:maxCauses], metav1.StatusCause{Message: fmt.Sprintf("...[%d causes cut]", n-maxCauses)})
	}
	for i := range d.Causes {
		d.Causes[i].Message, d.Causes[i].Field = cut(d.Causes[i].Message, maxMessage), cut(d.Causes[i].Field, maxName)
	}
	return own
}
