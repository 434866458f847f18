// Package manifest reads the files that people write for kubectl: YAML or JSON texts of any number of documents, of which each
// is an object or a list, as kubectl get -o yaml writes them. Where a file is known to have one kind only, as a definition or a
// configuration, the package of that kind reads it.
//
// Texts may come from strangers: what the aliases of a YAML document expand to is bounded before it is built. Functions are safe
// for concurrent use.
package manifest
