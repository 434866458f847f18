// Package jsonpatch applies JSON patches (RFC 6902) and merge patches (RFC 7396) to documents that clients
// send, in memory and time that grow with what they send and no faster.
//
// It answers as gopkg.in/evanphx/json-patch.v4 does, which upstream's API server uses, to the letter: what it
// does not touch keeps its order, and errors have the same words. But that library reads and writes what is
// below a value anew at each level above it, so that a patch of some levels costs as many times its document;
// bounds the sizes of copies by a variable of the process; and panics at operations that lack what they need.
package jsonpatch
