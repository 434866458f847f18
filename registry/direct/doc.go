// Package direct is a client.Client over a registry in the same process, without a server in between: an
// assembly uses it before anybody can be authorized, and tests of controllers run against it.
//
// A request yields the same object or the same error as one over the wire (checked by the differential test of
// this package), with these differences:
//
//   - Authorizers and admission plugins are bypassed: handing out a Client is a privilege.
//   - Managed fields are not tracked. Those that an object brings are stored as they are, and server-side apply
//     is refused.
//   - Subresources that lead to containers (log, exec, proxy) are refused.
//   - A patch that changes an object's kind is refused with another message.
//   - A request that the registry wants to be retried later (an eviction that a budget does not allow) is not
//     retried.
//
// # Errors
//
// Errors are those of k8s.io/apimachinery/pkg/api/errors. Context errors are returned as such, and an internal
// error wraps its cause, such as the store's error, for errors.Is.
//
// # Concurrency
//
// A Client is safe for concurrent use and starts no goroutines. The registry must be running. The client only
// reads objects that are passed in; those that it returns are the caller's.
package direct
