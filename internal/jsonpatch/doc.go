// Package jsonpatch applies JSON patches (RFC 6902) and merge patches (RFC 7396) to clients' documents, in memory and
// time proportional to the input.
//
// It answers exactly like gopkg.in/evanphx/json-patch.v4, which upstream's API server uses: untouched parts keep their
// order, and errors have the same texts. But that library decodes and encodes values again at each level above them, so
// the cost of a patch is the document's size times its depth; it bounds the sizes of copies by a global variable; and
// it panics on incomplete operations.
package jsonpatch
