package managedfields

import (
	"errors"
	"strings"
)

// maxDepth bounds how deeply fields are read here; no object of a kind is as deep.
const maxDepth = 200

var errFields = errors.New("fieldsV1 is malformed, or nested too deeply")

// decode reads FieldsV1. canonical tells that encoding the set gives raw again.
func (a *arena) decode(raw string) (set []node, canonical bool, err error) {
	if raw == "{}" {
		return nil, true, nil
	}
	start := len(a.stack)
	p := parser{arena: a, rest: raw}
	if set, self, ok := p.object(0); ok && !self && !p.foreign && p.rest == "" {
		return set, true, nil
	}
	a.stack = a.stack[:start]
	// The library reads more forms than it writes: have it write this one.
	parsed, err := librarySet(raw)
	if err != nil {
		return nil, false, err
	}
	data, err := parsed.ToJSON()
	if err != nil {
		return nil, false, err
	}
	p = parser{arena: a, rest: string(data), trusted: true}
	set, _, ok := p.object(0)
	if !ok {
		a.stack = a.stack[:start]
		return nil, false, errFields
	}
	return set, string(data) == raw, nil
}

// parser reads FieldsV1 in the form in which it is written, and gives up at any other.
type parser struct {
	*arena
	rest    string
	trusted bool // the library wrote it: keys need no judgement
	foreign bool // there are keys that are not plain
}

// object reads the paths below one; self tells that this one is in the set, too.
func (p *parser) object(depth int) (children []node, self, ok bool) {
	if !p.skip('{') || depth > maxDepth {
		return nil, false, false
	}
	if p.skip('}') {
		return nil, true, true
	}
	if rest, found := strings.CutPrefix(p.rest, `".":{}`); found {
		p.rest, self = rest, true
		if !p.skip(',') {
			return nil, false, false // written as {}
		}
	}
	start := len(p.stack)
	for last := ""; ; {
		key, ok := p.key()
		if !ok || !p.trusted && last != "" && compareKeys(last, key) >= 0 {
			return nil, false, false
		}
		last = key
		n := node{key: key}
		var is bool
		if n.children, is, ok = p.object(depth + 1); !ok {
			return nil, false, false
		}
		if is {
			n.is = owned
		}
		p.push(n)
		if p.skip('}') {
			return p.take(start), self, true
		}
		if !p.skip(',') {
			return nil, false, false
		}
	}
}

// key reads a key and the colon behind it.
func (p *parser) key() (string, bool) {
	if !p.skip('"') {
		return "", false
	}
	s, end, plain := p.rest, 0, true
	for end < len(s) && s[end] != '"' {
		if s[end] == '\\' {
			end++
			plain = false
		} else if !plainByte(s[end]) {
			plain = false
		}
		end++
	}
	if end < 2 || end+1 >= len(s) || s[1] != ':' || s[end+1] != ':' || strings.IndexByte("fkvi", s[0]) < 0 {
		return "", false
	}
	key := s[:end]
	p.rest = s[end+2:]
	if !p.trusted && (key[0] == 'f' && !plain || key[0] != 'f' && !plainKey(key)) {
		p.foreign = true
	}
	return key, true
}

func (p *parser) skip(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}
