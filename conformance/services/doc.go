// Package services records how upstream's API server handles services: what it allocates, keeps, releases and refuses,
// in random sequences of creates, updates, dry runs and deletes. A test of registry/core then runs the same sequences
// and compares every answer and, after every step, the number of allocated addresses and ports.
//
// It is a module of its own, because it depends on k8s.io/kubernetes. It does not import keelson: the two exchange a
// file, which allows upstream to be of another minor version than keelson's API types. Its version is the newest
// available from the module proxy. Run it in this directory:
//
//	go test .                          # compare 200 random sequences
//	go test . -sequences 5000 -seed 7  # more, and others
//	go test . -record                  # record the sequences of keelson's own test again
package services
