// Package printers asks upstream's printers, those of its API server, what the tables of objects
// look like, and holds keelson's columns to it. Objects of every kind that both serve are made at
// random and by hand; the tests of registry/registrytest then compare, cell by cell.
//
// It is a module of its own, because it is built from k8s.io/kubernetes. It does not import
// keelson either: what goes between them are files, so that upstream may be of another minor
// version than the API types that keelson is built with. The version here is the newest that the
// module proxy hands out. Run it in this directory:
//
//	go test .                            # compare 2,000 random objects of every kind
//	go test . -rounds 50000 -seed 7      # more, and others
//	go test . -record                    # write the cases anew that keelson's own tests hold
package printers
