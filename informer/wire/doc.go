// Package wire is an informer.Source for any API server, over the network or any other transport of a client-go
// rest.Config. A list is the beginning of a watch that first sends the existing objects, one by one, up to a bookmark
// that marks their end; servers without such watches are asked for pages. Watches resume from the last change or
// bookmark. Objects are transferred as protobuf where they have that form, and [NewMetadata] transfers only metadata.
//
// # Memory
//
// Objects are decoded one by one while a list streams in, and pass an informer.Transform before the next one is
// decoded, so a list of any size needs no more memory than the result. With a server that only has pages it takes one
// page more (Options.PageSize). Each object has memory of its own.
//
// # Connections
//
// A server is asked to end each watch after Options.WatchFor. If it has not done so half a minute later, the connection
// is considered dead, and [ErrDead] makes the informer watch again. client-go's own transports detect dead HTTP/2
// connections within 45 seconds by themselves.
//
// # Errors
//
// A version that the server no longer has is informer.ErrExpired; a watch that the server ends regularly is io.EOF.
// Other errors are those of k8s.io/apimachinery/pkg/api/errors if the server answered, and those of the transport
// otherwise.
//
// # Concurrency
//
// A Source may be used by many goroutines. Each stream has one goroutine of client-go, which Close waits for.
package wire
