package managedfields

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// maxDisorder is up to which length FieldsV1 that is none, but for its syntax, is left to the library to
// judge.
const maxDisorder = 1 << 12

// librarySet has the library read FieldsV1. It puts every key that comes too late where it belongs, by
// moving all those behind it, which takes seconds if a client sends the hundred thousand keys that fit
// into a request in reverse. So they are put in order before.
func librarySet(raw string) (*fieldpath.Set, error) {
	if len(raw) > maxDisorder {
		o := ordering{rest: raw}
		text, ok := o.object(nil, 0)
		if !ok || o.space() != "" {
			return nil, errFields
		}
		raw = string(text)
	}
	set := &fieldpath.Set{}
	return set, set.FromJSON(strings.NewReader(raw))
}

// ordering reads FieldsV1, however it is written, and puts the keys of its objects in order.
type ordering struct{ rest string }

// late is a member of an object before it is put in its place.
type late struct {
	element fieldpath.PathElement
	known   bool // what is not a path element, such as ".", comes first
	text    []byte
}

// object appends the object that comes next.
func (o *ordering) object(to []byte, depth int) ([]byte, bool) {
	if o.space() == "" || o.rest[0] != '{' || depth > maxDepth {
		return nil, false
	}
	o.rest = o.rest[1:]
	var members []late
	for more := o.next('}'); !more; {
		member, ok := o.member(depth)
		if !ok {
			return nil, false
		}
		members = append(members, member)
		if more = o.next('}'); !more && !o.next(',') {
			return nil, false
		}
	}
	slices.SortStableFunc(members, func(a, b late) int {
		if a.known && b.known {
			return a.element.Compare(b.element)
		}
		return cmp.Compare(rankOf(a.known), rankOf(b.known))
	})
	to = append(to, '{')
	for i, m := range members {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, m.text...)
	}
	return append(to, '}'), true
}

func rankOf(known bool) int {
	if known {
		return 1
	}
	return 0
}

// member reads a key and the object that is its value.
func (o *ordering) member(depth int) (late, bool) {
	if o.space() == "" || o.rest[0] != '"' {
		return late{}, false
	}
	end := 1
	for end < len(o.rest) && o.rest[end] != '"' {
		if o.rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(o.rest) {
		return late{}, false
	}
	key := o.rest[:end+1]
	o.rest = o.rest[end+1:]
	var name string
	if json.Unmarshal([]byte(key), &name) != nil || !o.next(':') {
		return late{}, false
	}
	m := late{}
	if element, err := fieldpath.DeserializePathElement(name); err == nil {
		m.element, m.known = element, true
	}
	var ok bool
	m.text, ok = o.object(append([]byte(key), ':'), depth+1)
	return m, ok
}

// next skips c, if it comes next.
func (o *ordering) next(c byte) bool {
	if o.space() == "" || o.rest[0] != c {
		return false
	}
	o.rest = o.rest[1:]
	return true
}

// space skips white space and returns what is left.
func (o *ordering) space() string {
	o.rest = strings.TrimLeft(o.rest, " \t\r\n")
	return o.rest
}
