// Package services asks upstream's own code what becomes of services: what its API server gives
// them, keeps, takes back and refuses, in random sequences of creates, updates, dry runs and
// deletes. A test of registry/core then plays the same sequences and compares every answer and,
// after every step, how many addresses and ports are taken.
//
// It is a module of its own, because it is built from k8s.io/kubernetes. It does not import
// keelson: what goes between them is a file, so that upstream may be of another minor version than
// the API types that keelson is built with. The version here is the newest that the module proxy
// hands out. Run it in this directory:
//
//	go test .                          # compare 200 random sequences
//	go test . -sequences 5000 -seed 7  # more, and others
//	go test . -record                  # write the sequences anew that keelson's own test holds
package services
