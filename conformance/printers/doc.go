// Package printers records the tables that upstream's API server prints for objects, and compares keelson's columns
// with them. Objects of every kind that both serve are made at random and by hand; the tests of registry/registrytest
// then compare, cell by cell.
//
// It is a module of its own, because it depends on k8s.io/kubernetes. It does not import keelson: the two exchange
// files, which allows upstream to be of another minor version than keelson's API types. Its version is the newest
// available from the module proxy. Run it in this directory:
//
//	go test .                            # compare 2,000 random objects of every kind
//	go test . -rounds 50000 -seed 7      # more, and others
//	go test . -record                    # record the cases of keelson's own tests again
package printers
