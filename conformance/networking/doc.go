// Package networking asks upstream's strategies what they make of objects of networking.k8s.io:
// random creates and updates, what is stored of them and what is wrong with them. A test of
// registry/networking then compares.
//
// It is a module of its own, because it is built from k8s.io/kubernetes. It does not import
// keelson: what goes between them is a file, so that upstream may be of another minor version than
// the API types that keelson is built with. The version here is the newest that the module proxy
// hands out. Run it in this directory:
//
//	go test .                       # compare 2,000 random cases of every kind
//	go test . -cases 50000 -seed 7  # more, and others
//	go test . -record               # write the cases anew that keelson's own test holds
package networking
