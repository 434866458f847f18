// Package networking records how upstream's strategies handle objects of networking.k8s.io: random creates and updates,
// the stored results, and the errors. A test of registry/networking then compares.
//
// It is a module of its own, because it depends on k8s.io/kubernetes. It does not import keelson: the two exchange a
// file, which allows upstream to be of another minor version than keelson's API types. Its version is the newest
// available from the module proxy. Run it in this directory:
//
//	go test .                       # compare 2,000 random cases of every kind
//	go test . -cases 50000 -seed 7  # more, and others
//	go test . -record               # record the cases of keelson's own test again
package networking
