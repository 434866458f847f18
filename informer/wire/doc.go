// Package wire is an informer.Source over the network, or over whatever transport a client-go
// rest.Config has: it lists in pages and watches with bookmarks, and works with any API server.
//
// # Errors
//
// A version that the server no longer has is informer.ErrExpired, a watch that the server ends
// in good order is io.EOF. Other errors are those of k8s.io/apimachinery/pkg/api/errors where
// the server answered, and those of the transport where it did not.
//
// # Concurrency
//
// A Source may be used by many goroutines. Each stream has one goroutine of client-go behind
// it, which Close waits for.
package wire
