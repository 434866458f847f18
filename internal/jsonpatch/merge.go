package jsonpatch

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Errors of Merge, in the library's words. ErrMalformed is about the patch.
var (
	ErrMalformed  = errors.New("Invalid JSON Patch")    //nolint:staticcheck // upstream's words
	errBadJSONDoc = errors.New("Invalid JSON Document") //nolint:staticcheck // upstream's words
)

// Merge applies a merge patch to a document and returns the new one. Each value of both is visited once.
func Merge(document, patch []byte) ([]byte, error) {
	document, patch = bytes.Trim(document, space), bytes.Trim(patch, space)
	switch {
	case !json.Valid(document):
		return nil, errBadJSONDoc
	case !json.Valid(patch):
		return nil, ErrMalformed
	case document[0] == 'n':
		return nil, errBadJSONDoc
	case patch[0] == 'n':
		return nil, ErrMalformed
	}
	root, changes := &node{raw: document}, &node{raw: patch}
	switch {
	case changes.toObject() && root.toObject():
		root.mergeMembers(changes)
	case changes.toObject() || changes.toArray():
		root = changes
		root.prune()
	default:
		return nil, ErrMalformed
	}
	var to bytes.Buffer
	if err := root.append(&to, 1); err != nil {
		return nil, err
	}
	return to.Bytes(), nil
}

// merge returns n with the changes applied.
func (n *node) merge(changes *node) *node {
	if !n.toObject() {
		changes.prune()
		return changes
	}
	if !changes.toObject() {
		return changes
	}
	n.mergeMembers(changes)
	return n
}

func (n *node) mergeMembers(changes *node) {
	for key, change := range changes.doc {
		switch now := n.doc[key]; {
		case change == nil:
			delete(n.doc, key)
		case now == nil:
			change.prune()
			n.doc[key] = change
		default:
			n.doc[key] = now.merge(change)
		}
	}
}

// prune removes the nulls from objects of a patch that have no counterpart in the document.
func (n *node) prune() {
	if n.toObject() {
		for key, child := range n.doc {
			if child == nil {
				delete(n.doc, key)
				continue
			}
			child.prune()
		}
		return
	}
	if n.toArray() {
		for _, child := range n.list {
			if child != nil {
				child.prune()
			}
		}
	}
}
