// Package encryption holds keelson's encryption at rest to upstream's: what the transformers of one
// write the transformers of the other must read, for every provider and in both directions; both must notice the
// same changes of stored bytes, in the same words; and both must say the same of configuration
// files.
//
// It is a module of its own, because it is built from k8s.io/apiserver; nothing imports it. Run it in
// this directory:
//
//	go test .
//	go test . -run '^$' -bench .     # costs beside upstream's
package encryption
