// Package wire is an informer.Source over the network, or over whatever transport a client-go
// rest.Config has, to any API server. A list is the beginning of a watch that sends what is there
// first, object by object, up to the bookmark that says it was all; servers that do not serve
// that are asked for pages. Watches resume from the last change or bookmark. What has a protobuf
// form travels in it, and [NewMetadata] has only metadata travel.
//
// # Memory
//
// Objects are decoded one by one while a list streams in, and pass an informer.Transform before
// the next one is decoded, so a list of any size needs no more room than what is kept of it. From
// a server that only has pages it is one page more (Options.PageSize). Each object has memory of
// its own.
//
// # Connections
//
// A server is asked to end each watch after Options.WatchFor; one that has not done so half a
// minute later counts as a dead connection, and [ErrDead] has the informer watch again. client-go's
// own transports notice dead HTTP/2 connections within 45 seconds by themselves.
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
