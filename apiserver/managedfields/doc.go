// Package managedfields tracks who set which field of an object, and merges applied configurations (server-side apply,
// KEP-555, https://kubernetes.io/docs/reference/using-api/server-side-apply/).
//
// A Tracker does both for one endpoint of one kind. Its Update goes with creates, updates and
// patches: it compares the two Go objects by a plan made of their types, their struct tags and
// a small table of merge markers, and edits the entries as the tries that they are; this takes
// microseconds and needs no schema. Its Apply is the library's, sigs.k8s.io/structured-merge-diff,
// with a schema that is made of the same plan at the first apply of a kind. Both have byte for
// byte the results of upstream's k8s.io/apimachinery/pkg/util/managedfields; tests compare them
// over random histories of every kind.
//
// Objects without a Go type, which are runtime.Unstructured, merge by the OpenAPI schema of their
// version, an OpenAPI, as upstream's custom resources do, or else field by field. Tests compare
// this with upstream over random schemas, which change.
//
// Objects are those of the stored version; entries may be of any version that is served. Live
// objects are shared and never changed. Everything is safe for concurrent use.
package managedfields
