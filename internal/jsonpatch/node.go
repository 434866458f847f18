package jsonpatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// maxDepth is the maximum depth of a document, as in encoding/json.
const maxDepth = 10000

var errDepth = errors.New("exceeded max depth")

// source is a valid JSON text with the end of each of its objects and arrays, in the order in which they begin, so that
// reading the members of one can skip their contents.
type source struct {
	text []byte
	end  []int32 // the offset after it
	next []int32 // the first that begins after it
}

// scan finds the objects and arrays of a text.
func scan(text []byte) *source {
	s := &source{text: text}
	var open []int32
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = textEnd(text, i) - 1
		case '{', '[':
			open = append(open, int32(len(s.end)))
			s.end, s.next = append(s.end, 0), append(s.next, 0)
		case '}', ']':
			n := open[len(open)-1]
			open = open[:len(open)-1]
			s.end[n], s.next[n] = int32(i+1), int32(len(s.end))
		}
	}
	return s
}

// textEnd returns the offset after the string that begins at i.
func textEnd(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// A node is a value. It is a piece of text until its members are needed; then it is decoded. A nil node is a null in a
// document; a null in a patch is a node without text.
type node struct {
	raw  []byte
	from *source // that raw is a part of, nil until raw is scanned
	at   int32   // the index of raw among its objects and arrays
	form form
	doc  map[string]*node
	list []*node
}

type form byte

const (
	text form = iota
	object
	array
)

// toObject decodes an object; false if n is not one.
func (n *node) toObject() bool {
	if n.form == object || len(n.raw) == 0 {
		return n.form == object
	}
	switch n.raw[0] {
	case 'n': // null, written by a copy
		n.doc = nil
	case '{':
		n.doc = map[string]*node{}
		n.members(func(key string, child *node) { n.doc[key] = child })
	default:
		return false
	}
	n.form = object
	return true
}

// toArray decodes an array; false if n is not one.
func (n *node) toArray() bool {
	if n.form == array || len(n.raw) == 0 || n.raw[0] != '[' {
		return n.form == array
	}
	n.list = []*node{}
	n.members(func(_ string, child *node) { n.list = append(n.list, child) })
	n.form = array
	return true
}

// members calls tell with each member of an object or array that is still text.
func (n *node) members(tell func(key string, child *node)) {
	if n.from == nil {
		n.from, n.at = scan(n.raw), 0
	}
	s, keyed := n.from, n.raw[0] == '{'
	end := int(s.end[n.at])
	i, next := end-len(n.raw)+1, n.at+1
	for {
		for i < end-1 && (isSpace(s.text[i]) || s.text[i] == ',') {
			i++
		}
		if i >= end-1 {
			return
		}
		key := ""
		if keyed {
			from := i
			i = textEnd(s.text, i)
			key = unquote(s.text[from:i])
			for isSpace(s.text[i]) || s.text[i] == ':' {
				i++
			}
		}
		from := i
		child := &node{from: s, at: next}
		switch s.text[i] {
		case '{', '[':
			i, next = int(s.end[next]), s.next[next]
		case '"':
			i = textEnd(s.text, i)
		default:
			for i < end-1 && !isSpace(s.text[i]) && s.text[i] != ',' {
				i++
			}
		}
		if child.raw = s.text[from:i:i]; child.raw[0] == 'n' {
			child = nil
		}
		tell(key, child)
	}
}

// space is the white space of JSON.
const space = " \t\r\n"

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func unquote(quoted []byte) string {
	var s string
	_ = json.Unmarshal(quoted, &s) // it is part of a valid text
	return s
}

// equal reports whether two values are the same; numbers and strings are compared as written.
func (n *node) equal(o *node) bool {
	if n == nil || o == nil {
		return n == o
	}
	if n.form == text && !n.toObject() && !n.toArray() {
		return o.form == text && bytes.Equal(n.raw, o.raw)
	}
	if n.form == object {
		if !o.toObject() || len(n.doc) != len(o.doc) {
			return false
		}
		for k, v := range n.doc {
			if other, ok := o.doc[k]; !ok || !v.equal(other) {
				return false
			}
		}
		return true
	}
	return o.toArray() && slices.EqualFunc(n.list, o.list, (*node).equal)
}

// append writes a value like encoding/json: without white space, with the keys of decoded objects in order, and safe
// for HTML.
func (n *node) append(to *bytes.Buffer, depth int) error {
	switch {
	case depth > maxDepth:
		return errDepth
	case n == nil || n.form == text && len(n.raw) == 0 || n.form == object && n.doc == nil:
		to.WriteString("null")
	case n.form == text:
		return appendText(to, n.raw, depth)
	case n.form == object:
		to.WriteByte('{')
		for i, key := range slices.Sorted(maps.Keys(n.doc)) {
			if i > 0 {
				to.WriteByte(',')
			}
			quoted, err := json.Marshal(key)
			if err != nil {
				return err
			}
			to.Write(quoted)
			to.WriteByte(':')
			if err := n.doc[key].append(to, depth+1); err != nil {
				return err
			}
		}
		to.WriteByte('}')
	default:
		to.WriteByte('[')
		for i, child := range n.list {
			if i > 0 {
				to.WriteByte(',')
			}
			if err := child.append(to, depth+1); err != nil {
				return err
			}
		}
		to.WriteByte(']')
	}
	return nil
}

// appendText writes a text without white space and safe for HTML, like encoding/json.
func appendText(to *bytes.Buffer, raw []byte, depth int) error {
	const hex = "0123456789abcdef"
	quoted, start := false, 0
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '\\' && quoted:
			i++
			continue
		case c == '"':
			quoted = !quoted
			continue
		case !quoted && (c == '{' || c == '['):
			if depth++; depth > maxDepth+1 {
				return errDepth
			}
			continue
		case !quoted && (c == '}' || c == ']'):
			depth--
			continue
		case !quoted && isSpace(c):
			to.Write(raw[start:i])
		case c == '<' || c == '>' || c == '&':
			to.Write(raw[start:i])
			to.WriteString(`\u00`)
			to.WriteByte(hex[c>>4])
			to.WriteByte(hex[c&0xF])
		case c == 0xE2 && i+2 < len(raw) && raw[i+1] == 0x80 && raw[i+2]&^1 == 0xA8: // U+2028 and U+2029
			to.Write(raw[start:i])
			to.WriteString(`\u202`)
			to.WriteByte(hex[raw[i+2]&0xF])
			i += 2
		default:
			continue
		}
		start = i + 1
	}
	to.Write(raw[start:])
	return nil
}
