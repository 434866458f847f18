// Package customresourcedefinition is upstream's controllers of CustomResourceDefinitions as one: it accepts the names
// of definitions and reports conflicts between them, has the kinds served, establishes definitions, reports schemas that
// are not structural and groups that need an approval, and empties and releases definitions that are being deleted.
//
// What to write is decided by pure functions; reasons and messages are those of Kubernetes 1.37. Serving is left to a
// Server: a definition is established only once Serve has returned, so who has seen that it is can create objects. A
// definition that cannot be served is not established, with the reason Unservable, which upstream does not have.
//
// Each server of a cluster runs a controller of its own, since each must serve the kinds. Writes are optimistic, so the
// controllers do not undo each other's. As upstream, two of them may accept the same name for two definitions that
// are created at the same moment.
//
// Reconcile returns the errors of the client and the Server, which are retried. A Controller is safe for concurrent use.
// The package uses upstream's library to judge schemas, so it is heavy: import it only to serve custom kinds.
package customresourcedefinition
